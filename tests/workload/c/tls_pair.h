/* A server and a client in one process, which speak TLS with each other: the server is the first of a pair. */
#include <openssl/ssl.h>

/* Make both, with the server's certificate and key. Returns whether these could be read. */
static inline int make_pair(SSL *both[2], const char *certificate, const char *key)
{
	SSL_CTX *servers = SSL_CTX_new(TLS_server_method());
	if (SSL_CTX_use_certificate_file(servers, certificate, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_use_PrivateKey_file(servers, key, SSL_FILETYPE_PEM) != 1)
		return 0;
	both[0] = SSL_new(servers);
	both[1] = SSL_new(SSL_CTX_new(TLS_client_method()));
	SSL_set_accept_state(both[0]);
	SSL_set_connect_state(both[1]);
	return 1;
}

/* Let each take its turns in the handshake: both have non-blocking sockets, or memory. */
static inline void shake_hands(SSL *both[2])
{
	for (int i = 0; i < 8; i++)
		SSL_do_handshake(both[!(i % 2)]);
}

/* Send a message from the client to the server. Returns whether it arrived. */
static inline int send_message(SSL *both[2])
{
	char data[100];
	return SSL_write(both[1], "asked", 5) == 5 && SSL_read(both[0], data, sizeof(data)) == 5;
}

/* Let both speak through memory. */
static inline void connect_by_memory(SSL *both[2])
{
	BIO *ends[2];
	BIO_new_bio_pair(&ends[0], 0, &ends[1], 0);
	for (int i = 0; i < 2; i++)
		SSL_set_bio(both[i], ends[i], ends[i]);
}
