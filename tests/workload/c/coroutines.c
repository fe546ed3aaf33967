/* TLS in coroutines that switch inside of SSL_read and SSL_write, as libco, photon and Swoole do: a BIO waits for its socket
 * by letting others run. A coroutine goes on on whichever thread finds its socket ready.
 *
 *     coroutines serve CERTIFICATE KEY THREADS     prints its port, then serves until its input ends
 *     coroutines ask PORT CONNECTIONS REQUESTS THREADS [how]
 *
 * `ask` opens CONNECTIONS, each in a coroutine of its own, waits for a line on its input, and then makes REQUESTS on each,
 * all connections at once. A request is for /PORT/NUMBER, where PORT is the connection's own; the answer has 100 + NUMBER * 37
 * bytes, which `ask` checks. It prints a line "PORT" for each connection, "ready", and in the end how many answers were right.
 *
 * `how` is a list of letters:
 *     x  SSL_read_ex and SSL_write_ex in place of SSL_read and SSL_write
 *     j  each connection once jumps out of a read (siglongjmp) and reads again
 *     d  as many coroutines again send a request and are dropped while they read the answer
 *     l  a loop of its own receives all bytes, outside of TLS calls, and hands them to coroutines in batches
 */
#define _GNU_SOURCE
#include "scheduler.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static int use_ex, requests, dropped_too, jump_too;
static atomic_int right, opened;
static atomic_int started;

static int tls_read(SSL *ssl, char *data, int size)
{
	size_t got = 0;
	if (use_ex)
		return SSL_read_ex(ssl, data, size, &got) ? (int)got : -1;
	return SSL_read(ssl, data, size);
}

static int tls_write(SSL *ssl, const char *data, int size)
{
	size_t sent = 0;
	if (use_ex)
		return SSL_write_ex(ssl, data, size, &sent) ? (int)sent : -1;
	return SSL_write(ssl, data, size);
}

static int fill(char *data, int port, int number)
{
	int size = 100 + number * 37;
	for (int i = 0; i < size; i++)
		data[i] = 'a' + (port + number + i) % 26;
	return size;
}

static void serve(struct coroutine *coroutine)
{
	SSL *ssl = new_tls(coroutine);
	char request[4096], answer[8192];
	if (SSL_accept(ssl) == 1) {
		for (;;) {
			int port, number, got = tls_read(ssl, request, sizeof(request) - 1);
			if (got <= 0)
				break;
			request[got] = 0;
			if (sscanf(request, "GET /%d/%d ", &port, &number) != 2)
				fail("request");
			int size = 100 + number * 37;
			int head = snprintf(answer, sizeof(answer), "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size);
			fill(answer + head, port, number);
			if (tls_write(ssl, answer, head + size) != head + size)
				break;
		}
		SSL_shutdown(ssl);
	}
	SSL_free(ssl);
}

static void ask(struct coroutine *coroutine)
{
	/* Not on the stack, where siglongjmp could lose them. */
	struct {
		SSL *ssl;
		char text[8192], wanted[8192];
		int number, got, size;
	} *own = calloc(1, sizeof(*own));
	own->ssl = new_tls(coroutine);
	if (SSL_connect(own->ssl) != 1)
		fail("SSL_connect");
	opened++;
	while (!started)
		wait_for(coroutine, EPOLLOUT);
	for (own->number = 0; own->number < requests; own->number++) {
		int head = snprintf(own->text, sizeof(own->text), "GET /%d/%d HTTP/1.1\r\nHost: localhost\r\n\r\n",
				    coroutine->port, own->number);
		if (tls_write(own->ssl, own->text, head) != head)
			fail("SSL_write");
		coroutine->may_jump = jump_too && own->number == 1;
		coroutine->is_dropped = coroutine->port < 0;
		sigsetjmp(coroutine->jump, 1);
		own->got = tls_read(own->ssl, own->text, sizeof(own->text) - 1);
		if (own->got <= 0)
			fail("SSL_read");
		own->text[own->got] = 0;
		const char *body = strstr(own->text, "\r\n\r\n");
		own->size = fill(own->wanted, coroutine->port, own->number);
		right += body && !coroutine->is_dropped && own->got - (body + 4 - own->text) == own->size &&
			 !memcmp(body + 4, own->wanted, own->size);
	}
	SSL_shutdown(own->ssl);
	SSL_free(own->ssl);
	free(own);
}

static int connect_to(int port, int *own_port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	socklen_t size = sizeof(address);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (struct sockaddr *)&address, size) || getsockname(fd, (struct sockaddr *)&address, &size))
		fail("connect");
	fcntl(fd, F_SETFL, O_NONBLOCK);
	*own_port = ntohs(address.sin_port);
	return fd;
}

static int listen_anywhere(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t size = sizeof(address);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 1024) ||
	    getsockname(listener, (struct sockaddr *)&address, &size))
		fail("listen");
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	return listener;
}

static void *accept_all(void *argument)
{
	for (;;) {
		int fd = accept4(*(int *)argument, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0)
			spawn(serve, fd, 0);
	}
	return NULL;
}

static void *until_input_ends(void *argument)
{
	char byte;
	(void)argument;
	while (read(0, &byte, 1) == 1)
		;
	exit(0);
}

static void serve_all(const char *certificate, const char *key, int threads)
{
	make_tls(TLS_server_method());
	if (SSL_CTX_use_certificate_file(tls, certificate, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) != 1)
		fail("certificate");
	SSL_CTX_set_num_tickets(tls, 0);
	int listener = listen_anywhere();
	in_thread(until_input_ends, NULL);
	for (int i = 1; i < threads; i++)
		in_thread(work, NULL);
	in_thread(accept_all, &listener);
	work(NULL);
}

static void ask_all(int port, int connections, int threads, const char *how)
{
	pthread_t others[64];
	char line[16];
	use_ex = strchr(how, 'x') != NULL;
	jump_too = strchr(how, 'j') != NULL;
	dropped_too = strchr(how, 'd') != NULL;
	use_loop = strchr(how, 'l') != NULL;
	make_tls(TLS_client_method());
	alive = 1; /* this function */
	for (int i = 1; i < threads; i++)
		others[i] = in_thread(work, &alive);
	for (int i = 0; i < connections; i++) {
		int own_port, fd = connect_to(port, &own_port);
		printf("%d\n", own_port);
		spawn(ask, fd, own_port);
		if (dropped_too) {
			fd = connect_to(port, &own_port);
			spawn(ask, fd, -own_port);
		}
	}
	pthread_t starter = in_thread(work, &alive);
	while (opened < connections * (1 + dropped_too))
		usleep(1000);
	printf("ready\n");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		fail("input");
	started = 1;
	while (right < connections * requests && alive > 1)
		usleep(1000);
	if (dropped_too)
		usleep(200000); /* their answers come, and nobody reads them */
	else
		while (alive > 1)
			usleep(1000);
	printf("%d\n", right);
	fflush(stdout);
	if (dropped_too)
		exit(0);
	alive = 0;
	pthread_join(starter, NULL);
	for (int i = 1; i < threads; i++)
		pthread_join(others[i], NULL);
}

int main(int count, char **arguments)
{
	signal(SIGPIPE, SIG_IGN);
	if (count == 5 && !strcmp(arguments[1], "serve"))
		serve_all(arguments[2], arguments[3], atoi(arguments[4]));
	else if (count >= 6 && !strcmp(arguments[1], "ask")) {
		requests = atoi(arguments[4]);
		ask_all(atoi(arguments[2]), atoi(arguments[3]), atoi(arguments[5]), count > 6 ? arguments[6] : "");
	} else
		return 2;
	return 0;
}
