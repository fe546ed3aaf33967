/* All ways by which bytes pass through a TLS library, each on a connection of its own, both ends in this process:
 *
 *     ways LIBSSL CERTIFICATE KEY WAY...
 *
 * plain  SSL_write and SSL_read
 * ex     SSL_write_ex and SSL_read_ex
 * ex2    SSL_write_ex2 (OpenSSL 3.3) and SSL_read_ex
 * bio    a BIO of BIO_f_ssl
 * peek   SSL_peek and SSL_peek_ex before each read
 * async  in jobs of the library's own, each with a stack of its own (SSL_MODE_ASYNC)
 * again  the client begins another handshake and reads, while bytes of the server are still to come (TLS 1.2)
 * dtls   DTLS 1.2
 * quic   a stream of QUIC (OpenSSL 3.5)
 *
 * The client and the server each write messages, which tests/live/test_ways.py knows. The library is opened by its path,
 * and its functions are declared here: so one program serves for all.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LARGEST 40000

enum { CTRL_MODE = 33, CTRL_MTU = 17, CTRL_MAX_VERSION = 124 };
enum { MODE_ASYNC = 0x100, TLS_1_2 = 0x303, PEM = 1, CTRL_SET_SSL = 109 };
enum { ALLOW_CLIENT_RENEGOTIATION = 1 << 8, NO_QUERY_MTU = 1 << 12 };

static void *library;

static void *function(const char *name)
{
	return dlsym(library, name);
}

/* Call a function of the library, of that type. */
#define CALL(result, name, types, ...) ((result(*) types)function(#name))(__VA_ARGS__)

static void check(int is_well, const char *what)
{
	if (!is_well) {
		fprintf(stderr, "%s failed\n", what);
		exit(1);
	}
}

struct end {
	const char *name;
	void *ssl;
	void *bio;
	int fd;
};

static long control(struct end *end, int command, long number)
{
	return CALL(long, SSL_ctrl, (void *, int, long, void *), end->ssl, command, number, NULL);
}

static void *server_handshake(void *end)
{
	check(CALL(int, SSL_accept, (void *), ((struct end *)end)->ssl) == 1, "SSL_accept");
	return NULL;
}

static int is(const char *way, const char *name)
{
	return !strcmp(way, name);
}

static void prepare(struct end *end, const char *way, const char *certificate, const char *key)
{
	void *method = is(way, "dtls") ? CALL(void *, DTLS_method, (void)) : CALL(void *, TLS_method, (void));
	void *context = CALL(void *, SSL_CTX_new, (void *), method);
	if (certificate)
		check(CALL(int, SSL_CTX_use_certificate_file, (void *, const char *, int), context, certificate, PEM) == 1 &&
			      CALL(int, SSL_CTX_use_PrivateKey_file, (void *, const char *, int), context, key, PEM) == 1,
		      "the certificate");
	if (is(way, "again"))
		CALL(uint64_t, SSL_CTX_set_options, (void *, uint64_t), context, ALLOW_CLIENT_RENEGOTIATION);
	if (is(way, "dtls"))
		CALL(uint64_t, SSL_CTX_set_options, (void *, uint64_t), context, NO_QUERY_MTU);
	end->ssl = CALL(void *, SSL_new, (void *), context);
	if (is(way, "again"))
		control(end, CTRL_MAX_VERSION, TLS_1_2);
	if (is(way, "dtls"))
		control(end, CTRL_MTU, 4000);
	check(CALL(int, SSL_set_fd, (void *, int), end->ssl, end->fd) == 1, "SSL_set_fd");
}

/* The number-th message of an end. */
static size_t make(char *message, const char *way, const char *name, int number, size_t size)
{
	char words[64];
	size_t length = snprintf(words, sizeof(words), "%s %s %d ", way, name, number);
	for (size_t at = 0; at < size; at++)
		message[at] = words[at % length];
	return size;
}

static void send_message(struct end *end, const char *way, const char *data, size_t size)
{
	size_t done = 0;
	if (is(way, "ex"))
		CALL(int, SSL_write_ex, (void *, const void *, size_t, size_t *), end->ssl, data, size, &done);
	else if (is(way, "ex2"))
		CALL(int, SSL_write_ex2, (void *, const void *, size_t, uint64_t, size_t *), end->ssl, data, size, 0, &done);
	else if (is(way, "bio"))
		done = CALL(int, BIO_write, (void *, const void *, int), end->bio, data, (int)size);
	else
		done = CALL(int, SSL_write, (void *, const void *, int), end->ssl, data, (int)size);
	check(done == size, "a write");
}

static size_t receive(struct end *end, const char *way, char *data, size_t size)
{
	size_t done = 0;
	if (is(way, "peek")) {
		check(CALL(int, SSL_peek, (void *, void *, int), end->ssl, data, (int)size) > 0, "SSL_peek");
		if (function("SSL_peek_ex"))
			check(CALL(int, SSL_peek_ex, (void *, void *, size_t, size_t *), end->ssl, data, size, &done) == 1,
			      "SSL_peek_ex");
	}
	if (is(way, "ex") || is(way, "ex2"))
		return CALL(int, SSL_read_ex, (void *, void *, size_t, size_t *), end->ssl, data, size, &done) == 1 ? done
														    : 0;
	int result = is(way, "bio") ? CALL(int, BIO_read, (void *, void *, int), end->bio, data, (int)size)
				    : CALL(int, SSL_read, (void *, void *, int), end->ssl, data, (int)size);
	return result > 0 ? result : 0;
}

static void pass(struct end *from, struct end *to, const char *way, int number, size_t size)
{
	static char sent[LARGEST], got[LARGEST];
	make(sent, way, from->name, number, size);
	send_message(from, way, sent, size);
	for (size_t have = 0; have < size;) {
		size_t more = receive(to, way, got + have, size - have);
		check(more > 0, "a read");
		have += more;
	}
	check(!memcmp(sent, got, size), "a message");
}

/* The client begins another handshake, and reads first what the server wrote before it knew. */
static void handshake_again(struct end *client, struct end *server, int number)
{
	char sent[100], got[100];
	fcntl(client->fd, F_SETFL, O_NONBLOCK);
	fcntl(server->fd, F_SETFL, O_NONBLOCK);
	check(CALL(int, SSL_renegotiate, (void *), client->ssl) == 1, "SSL_renegotiate");
	make(sent, "again", server->name, number, sizeof(sent));
	send_message(server, "again", sent, sizeof(sent));
	check(receive(client, "again", got, sizeof(got)) == sizeof(got), "a read in a handshake");
	for (int turn = 0; turn < 10; turn++) {
		receive(server, "again", got, sizeof(got));
		receive(client, "again", got, sizeof(got));
	}
	check(!CALL(int, SSL_renegotiate_pending, (void *), client->ssl), "the other handshake");
	fcntl(client->fd, F_SETFL, 0);
	fcntl(server->fd, F_SETFL, 0);
}

static void use_bio(struct end *end)
{
	void *method = CALL(void *, BIO_f_ssl, (void));
	end->bio = CALL(void *, BIO_new, (void *), method);
	CALL(long, BIO_ctrl, (void *, int, long, void *), end->bio, CTRL_SET_SSL, 0, end->ssl);
}

static const size_t sizes[] = {1, 100, 5000, 16384, LARGEST};
#define SIZES (int)(sizeof(sizes) / sizeof(*sizes))

static const unsigned char protocol[] = "\4ways";

static int choose_protocol(void *ssl, const unsigned char **out, unsigned char *length, const unsigned char *in,
			   unsigned int size, void *argument)
{
	(void)ssl, (void)size, (void)argument;
	*out = in + 1;
	*length = *in;
	return 0;
}

static void quic_send(struct end *from, int number)
{
	char *sent = malloc(LARGEST);
	make(sent, "quic", from->name, number, sizes[number]);
	send_message(from, "quic", sent, sizes[number]);
	free(sent);
}

static void quic_receive(struct end *to, int number)
{
	char *got = malloc(LARGEST);
	for (size_t have = 0; have < sizes[number];) {
		size_t more = receive(to, "quic", got + have, sizes[number] - have);
		check(more > 0, "a read of QUIC");
		have += more;
	}
	free(got);
}

static volatile int has_all;

/* `ssl` listens. What is written needs the server's help until the client has it. */
static void *serve_quic(void *argument)
{
	struct end *server = argument;
	server->ssl = CALL(void *, SSL_accept_connection, (void *, uint64_t), server->ssl, 0);
	check(server->ssl != NULL, "SSL_accept_connection");
	for (int number = 0; number < SIZES; number++) {
		quic_receive(server, number);
		quic_send(server, number);
	}
	while (!has_all) {
		CALL(int, SSL_handle_events, (void *), server->ssl);
		usleep(1000);
	}
	return NULL;
}

static void run_quic(const char *certificate, const char *key)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct end client = {.name = "client"}, server = {.name = "server"};
	void *peer = CALL(void *, BIO_ADDR_new, (void));
	socklen_t size = sizeof(address);
	void *contexts[] = {
	    CALL(void *, SSL_CTX_new, (void *), CALL(void *, OSSL_QUIC_client_method, (void))),
	    CALL(void *, SSL_CTX_new, (void *), CALL(void *, OSSL_QUIC_server_method, (void))),
	};
	check(CALL(int, SSL_CTX_use_certificate_file, (void *, const char *, int), contexts[1], certificate, PEM) == 1 &&
		      CALL(int, SSL_CTX_use_PrivateKey_file, (void *, const char *, int), contexts[1], key, PEM) == 1,
	      "the certificate");
	CALL(void, SSL_CTX_set_alpn_select_cb, (void *, void *, void *), contexts[1], (void *)choose_protocol, NULL);
	client.fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	server.fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	check(!bind(server.fd, (struct sockaddr *)&address, size) &&
		      !getsockname(server.fd, (struct sockaddr *)&address, &size),
	      "a port");
	server.ssl = CALL(void *, SSL_new_listener, (void *, uint64_t), contexts[1], 0);
	check(CALL(int, SSL_set_fd, (void *, int), server.ssl, server.fd) == 1 &&
		      CALL(int, SSL_listen, (void *), server.ssl) == 1,
	      "SSL_listen");
	client.ssl = CALL(void *, SSL_new, (void *), contexts[0]);
	CALL(int, BIO_ADDR_rawmake, (void *, int, void *, size_t, unsigned short), peer, AF_INET, &address.sin_addr,
	     sizeof(address.sin_addr), address.sin_port);
	CALL(int, SSL_set_alpn_protos, (void *, const unsigned char *, unsigned int), client.ssl, protocol, 5);
	check(CALL(int, SSL_set_fd, (void *, int), client.ssl, client.fd) == 1 &&
		      CALL(int, SSL_set1_initial_peer_addr, (void *, void *), client.ssl, peer) == 1,
	      "the peer");
	pthread_t thread;
	pthread_create(&thread, NULL, serve_quic, &server);
	check(CALL(int, SSL_connect, (void *), client.ssl) == 1, "SSL_connect");
	for (int number = 0; number < SIZES; number++) {
		quic_send(&client, number);
		quic_receive(&client, number);
	}
	has_all = 1;
	pthread_join(thread, NULL);
}

static void run(const char *way, const char *certificate, const char *key)
{
	int fds[2];
	check(!socketpair(AF_UNIX, is(way, "dtls") ? SOCK_DGRAM : SOCK_STREAM, 0, fds), "socketpair");
	struct end client = {.name = "client", .fd = fds[0]}, server = {.name = "server", .fd = fds[1]};
	prepare(&client, way, NULL, NULL);
	prepare(&server, way, certificate, key);
	pthread_t thread;
	pthread_create(&thread, NULL, server_handshake, &server);
	check(CALL(int, SSL_connect, (void *), client.ssl) == 1, "SSL_connect");
	pthread_join(thread, NULL);
	if (is(way, "async")) {
		control(&client, CTRL_MODE, MODE_ASYNC);
		control(&server, CTRL_MODE, MODE_ASYNC);
	}
	if (is(way, "bio")) {
		use_bio(&client);
		use_bio(&server);
	}
	int most = is(way, "dtls") ? 2 : SIZES;
	for (int number = 0; number < most; number++) {
		pass(&client, &server, way, number, sizes[number]);
		pass(&server, &client, way, number, sizes[number]);
	}
	if (is(way, "again")) {
		handshake_again(&client, &server, most);
		pass(&client, &server, way, most, 100);
	}
	CALL(int, SSL_shutdown, (void *), client.ssl);
	CALL(void, SSL_free, (void *), client.ssl);
	CALL(void, SSL_free, (void *), server.ssl);
	close(fds[0]);
	close(fds[1]);
}

int main(int count, char **arguments)
{
	if (count < 5 || !(library = dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL))) {
		fprintf(stderr, "%s\n", count < 5 ? "see ways.c" : dlerror());
		return 2;
	}
	for (int at = 4; at < count; at++)
		if (is(arguments[at], "quic"))
			run_quic(arguments[2], arguments[3]);
		else
			run(arguments[at], arguments[2], arguments[3]);
	return 0;
}
