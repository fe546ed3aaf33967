/* Short TLS connections, both ends of each in one thread, over TCP:
 *
 *     pairs CERTIFICATE KEY
 *
 * For each number on standard input it makes so many, one after the other, with an exchange of HTTP/1.1 on
 * each, and then prints the number.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static SSL_SESSION *session; /* resumed by all but the first: with TLS 1.2, no public key is used then */
static const char RESPONSE[] = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nanswer";

static void pass(SSL *from, SSL *to, const char *message)
{
	char read[256];
	int got, size = strlen(message);
	if (SSL_write(from, message, size) != size)
		exit(5);
	do
		got = SSL_read(to, read, sizeof(read));
	while (got <= 0 && SSL_get_error(to, got) == SSL_ERROR_WANT_READ);
	if (got != size || memcmp(read, message, size))
		exit(6);
}

static SSL *begin(SSL_CTX *context, int socket)
{
	const int yes = 1;
	setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)); /* or each waits 40 ms for an ACK */
	SSL *ssl = SSL_new(context);
	SSL_set_fd(ssl, socket);
	return ssl;
}

static void end(SSL *ssl)
{
	SSL_shutdown(ssl);
	close(SSL_get_fd(ssl));
	SSL_free(ssl);
}

static void make(const struct sockaddr_in *address, int listener, SSL_CTX *clients, SSL_CTX *servers, long number)
{
	char request[256];
	int to = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(to, (const struct sockaddr *)address, sizeof(*address)))
		exit(3);
	SSL *client = begin(clients, to), *server = begin(servers, accept4(listener, NULL, NULL, SOCK_NONBLOCK));
	fcntl(to, F_SETFL, O_NONBLOCK);
	if (session)
		SSL_set_session(client, session);
	for (int connected = 0, accepted = 0; connected != 1 || accepted != 1;) {
		connected = SSL_connect(client);
		accepted = SSL_accept(server);
		if (SSL_get_error(client, connected) == SSL_ERROR_SSL)
			exit(4);
	}
	if (!session)
		session = SSL_get1_session(client);
	snprintf(request, sizeof(request), "GET /%ld HTTP/1.1\r\nHost: localhost\r\n\r\n", number);
	pass(client, server, request);
	pass(server, client, RESPONSE);
	end(client);
	end(server);
}

int main(int count, char **arguments)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	SSL_CTX *clients = SSL_CTX_new(TLS_client_method()), *servers = SSL_CTX_new(TLS_server_method());
	if (count != 3 || bind(listener, (struct sockaddr *)&address, size) || listen(listener, 64) ||
	    getsockname(listener, (struct sockaddr *)&address, &size) ||
	    SSL_CTX_use_certificate_file(servers, arguments[1], SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_use_PrivateKey_file(servers, arguments[2], SSL_FILETYPE_PEM) != 1)
		return 2;
	SSL_CTX_set_max_proto_version(clients, TLS1_2_VERSION);
	for (long asked, made = 0; scanf("%ld", &asked) == 1;) {
		for (long each = 0; each < asked; each++)
			make(&address, listener, clients, servers, made++);
		printf("%ld\n", asked);
		fflush(stdout);
	}
	return 0;
}
