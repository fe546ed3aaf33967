/* Messages through GnuTLS: `messages_gnutls CERTIFICATE KEY`, see messages.h. */
#include "messages.h"
#include <gnutls/gnutls.h>

static void *open_session(unsigned int flags, gnutls_certificate_credentials_t credentials, int socket)
{
	gnutls_session_t session;
	gnutls_init(&session, flags);
	gnutls_set_default_priority(session);
	gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials);
	gnutls_transport_set_int(session, socket);
	return session;
}

static int open_sessions(const char *certificate, const char *key, int client_socket, int server_socket, void **client,
			 void **server)
{
	gnutls_certificate_credentials_t credentials;
	gnutls_certificate_allocate_credentials(&credentials);
	if (gnutls_certificate_set_x509_key_file(credentials, certificate, key, GNUTLS_X509_FMT_PEM) < 0)
		return 0;
	*client = open_session(GNUTLS_CLIENT, credentials, client_socket);
	*server = open_session(GNUTLS_SERVER | GNUTLS_NO_TICKETS, credentials, server_socket);
	return 1;
}

static int shake_hands(void *session, int is_server)
{
	(void)is_server;
	return gnutls_handshake(session) == GNUTLS_E_SUCCESS;
}

static long write_bytes(void *session, const char *data, int size)
{
	return gnutls_record_send(session, data, size);
}

static long read_bytes(void *session, char *data, int size)
{
	return gnutls_record_recv(session, data, size);
}
