/* Uses of OpenSSL's interface that usual clients do not show:
 *
 *     openssl_client CASE PORT NONCE...
 *
 * peek     looks at the answer with SSL_peek before it reads it
 * partial  sends a large body through a small non-blocking socket, a part at a time
 * whole    the same, but a call is repeated until all of its bytes are gone
 * clear    makes a connection for each NONCE with one object, emptied by SSL_clear
 * again    makes a connection for each NONCE with an object of its own, freed before the next
 * other    calls SSL_write and SSL_read_ex, where the other cases call SSL_write_ex and SSL_read
 * bio      writes and reads through a BIO of BIO_f_ssl
 * log      opens a connection for each NONCE before it uses the first; inside of TLS calls it logs to a Unix socket
 *          before and after each use of a TCP socket
 *
 * Prints for each request its connection's local port, the object's address and how often SSL_write
 * had to be repeated.
 */
#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define BODY_BYTES 1000000
#define SMALL_BUFFER 4608

static void fail(const char *what)
{
	perror(what);
	ERR_print_errors_fp(stderr);
	exit(1);
}

static int open_socket(int port, int small)
{
	struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(port)};
	server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int bytes = SMALL_BUFFER;
	if (small && setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)))
		fail("setsockopt");
	if (connect(fd, (struct sockaddr *)&server, sizeof(server)))
		fail("connect");
	return fd;
}

static int log_ends[2];

static long log_use(BIO *bio, int operation, const char *data, size_t size, int argument, long number, int result,
		    size_t *done)
{
	char line = 'x';
	if (send(log_ends[0], &line, 1, 0) != 1 || recv(log_ends[1], &line, 1, 0) != 1)
		fail("log");
	return result;
}

static void handshake(SSL *ssl, int fd)
{
	SSL_set_fd(ssl, fd);
	if (log_ends[0])
		BIO_set_callback_ex(SSL_get_wbio(ssl), log_use);
	SSL_set_tlsext_host_name(ssl, "localhost");
	if (SSL_connect(ssl) != 1)
		fail("SSL_connect");
}

static void told(SSL *ssl, int repeats)
{
	struct sockaddr_in local;
	socklen_t size = sizeof(local);
	if (getsockname(SSL_get_fd(ssl), (struct sockaddr *)&local, &size))
		fail("getsockname");
	printf("%d %p %d\n", ntohs(local.sin_port), (void *)ssl, repeats);
}

static int other;
static BIO *through;

static int write_some(SSL *ssl, const char *data, size_t size, size_t *done)
{
	if (through)
		return BIO_write_ex(through, data, size, done);
	if (!other)
		return SSL_write_ex(ssl, data, size, done);
	int result = SSL_write(ssl, data, (int)size);
	*done = result > 0 ? result : 0;
	return result > 0 ? 1 : result;
}

static int read_some(SSL *ssl, char *data, size_t size)
{
	size_t done = 0;
	if (through)
		return BIO_read(through, data, (int)size);
	if (!other)
		return SSL_read(ssl, data, (int)size);
	return SSL_read_ex(ssl, data, size, &done) ? (int)done : -1;
}

/* Write all; return how often a call had to be repeated. */
static int write_all(SSL *ssl, const char *data, size_t size)
{
	int repeats = 0;
	while (size) {
		size_t done = 0;
		int result = write_some(ssl, data, size, &done);
		if (result != 1) {
			struct pollfd waiting = {.fd = SSL_get_fd(ssl), .events = POLLOUT};
			if (SSL_get_error(ssl, result) != SSL_ERROR_WANT_WRITE)
				fail("SSL_write_ex");
			poll(&waiting, 1, 1000);
			repeats++;
		}
		data += done;
		size -= done;
	}
	return repeats;
}

/* Read an answer to its end; peek at every piece first. */
static void read_answer(SSL *ssl, long wanted, int peeking)
{
	char answer[1024], peeked[1024];
	long seen = -1; /* bytes of the body; -1: still in the head */
	size_t have = 0;
	while (seen < wanted) {
		if (peeking)
			for (int i = 0; i < 3; i++)
				if (SSL_peek(ssl, peeked, 100) <= 0)
					fail("SSL_peek");
		int size = read_some(ssl, answer + have, sizeof(answer) - 1 - have);
		if (size <= 0) {
			struct pollfd waiting = {.fd = SSL_get_fd(ssl), .events = POLLIN};
			if (SSL_get_error(ssl, size) != SSL_ERROR_WANT_READ)
				fail("SSL_read");
			poll(&waiting, 1, 1000);
			continue;
		}
		if (seen >= 0) {
			seen += size;
			continue;
		}
		have += size;
		answer[have] = 0;
		char *end = strstr(answer, "\r\n\r\n");
		if (end) {
			seen = answer + have - end - 4;
			have = 0;
		}
	}
}

static void get(SSL *ssl, const char *nonce, int peeking)
{
	char request[256];
	int size = snprintf(request, sizeof(request),
			    "GET /bytes/5000 HTTP/1.1\r\nHost: localhost\r\nx-nonce: %s\r\n\r\n", nonce);
	write_all(ssl, request, size);
	read_answer(ssl, 5000, peeking);
	told(ssl, 0);
}

static void post(SSL *ssl, const char *nonce)
{
	static char body[BODY_BYTES];
	char head[256];
	int size = snprintf(head, sizeof(head),
			    "POST /slow HTTP/1.1\r\nHost: localhost\r\nx-nonce: %s\r\nContent-Length: %d\r\n\r\n",
			    nonce, BODY_BYTES);
	for (int i = 0; i < BODY_BYTES; i++)
		body[i] = (char)(i * 2654435761u >> 24);
	int repeats = write_all(ssl, head, size);
	repeats += write_all(ssl, body, sizeof(body));
	read_answer(ssl, BODY_BYTES, 0);
	told(ssl, repeats);
}

static void use_all(SSL_CTX *context, int port, char **nonces, int count)
{
	SSL *opened[count];
	for (int i = 0; i < count; i++) {
		opened[i] = SSL_new(context);
		handshake(opened[i], open_socket(port, 0));
	}
	for (int i = 0; i < count; i++)
		get(opened[i], nonces[i], 0);
}

int main(int count, char **arguments)
{
	const char *kind = arguments[1];
	int port = atoi(arguments[2]);
	int partial = !strcmp(kind, "partial"), whole = !strcmp(kind, "whole");
	int clear = !strcmp(kind, "clear"), again = !strcmp(kind, "again");
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	if (partial)
		SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE);
	if (!strcmp(kind, "log")) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, log_ends))
			fail("socketpair");
		use_all(context, port, arguments + 3, count - 3);
		return 0;
	}
	SSL *ssl = SSL_new(context);
	other = !strcmp(kind, "other");
	if (!strcmp(kind, "bio")) {
		through = BIO_new(BIO_f_ssl());
		BIO_set_ssl(through, ssl, BIO_NOCLOSE);
	}
	for (int i = 3; i < count; i++) {
		int first = i == 3;
		if (again && !first)
			ssl = SSL_new(context);
		if (first || again || clear) {
			int fd = open_socket(port, partial || whole);
			handshake(ssl, fd);
			int on = 1;
			if ((partial || whole) && ioctl(fd, FIONBIO, &on))
				fail("ioctl");
		}
		if (partial || whole)
			post(ssl, arguments[i]);
		else
			get(ssl, arguments[i], !strcmp(kind, "peek"));
		if (clear || again) {
			SSL_shutdown(ssl);
			close(SSL_get_fd(ssl));
		}
		if (clear && !SSL_clear(ssl))
			fail("SSL_clear");
		if (again)
			SSL_free(ssl);
	}
	return 0;
}
