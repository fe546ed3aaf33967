/* Messages through OpenSSL: `messages CERTIFICATE KEY`, see messages.h. */
#include "messages.h"
#include <openssl/err.h>
#include <openssl/ssl.h>

static int open_sessions(const char *certificate, const char *key, int client_socket, int server_socket, void **client,
			 void **server)
{
	SSL_CTX *accepts = SSL_CTX_new(TLS_server_method());
	SSL_CTX *connects = SSL_CTX_new(TLS_client_method());
	if (SSL_CTX_use_certificate_file(accepts, certificate, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_use_PrivateKey_file(accepts, key, SSL_FILETYPE_PEM) != 1)
		return 0;
	SSL_CTX_set_num_tickets(accepts, 0);
	*client = SSL_new(connects);
	*server = SSL_new(accepts);
	return SSL_set_fd(*client, client_socket) == 1 && SSL_set_fd(*server, server_socket) == 1;
}

static int shake_hands(void *session, int is_server)
{
	return (is_server ? SSL_accept(session) : SSL_connect(session)) == 1;
}

static long write_bytes(void *session, const char *data, int size)
{
	return SSL_write(session, data, size);
}

static long read_bytes(void *session, char *data, int size)
{
	return SSL_read(session, data, size);
}
