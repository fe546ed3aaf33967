/* TLS connections of which both ends are in this process. */
#define _GNU_SOURCE
#include <err.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "steps.h"

static void pump(BIO *from, BIO *to)
{
	char bytes[2048];
	for (int size; (size = BIO_read(from, bytes, sizeof(bytes))) > 0;)
		BIO_write(to, bytes, size);
}

int open_pair(struct pair *made)
{
	made->server = SSL_new(server_context);
	made->client = SSL_new(client_context);
	if (!made->server || !made->client)
		return 0;
	made->to_server = BIO_new(BIO_s_mem());
	made->from_server = BIO_new(BIO_s_mem());
	made->to_client = BIO_new(BIO_s_mem());
	made->from_client = BIO_new(BIO_s_mem());
	SSL_set_bio(made->server, made->to_server, made->from_server);
	SSL_set_bio(made->client, made->to_client, made->from_client);
	SSL_set_accept_state(made->server);
	SSL_set_connect_state(made->client);
	for (int round = 0; round < 6; round++) {
		SSL_do_handshake(made->client);
		pump(made->from_client, made->to_server);
		SSL_do_handshake(made->server);
		pump(made->from_server, made->to_client);
	}
	return SSL_is_init_finished(made->client) && SSL_is_init_finished(made->server);
}

static void close_pair(struct pair *made)
{
	SSL_free(made->client);
	SSL_free(made->server);
}

/* Returns how many of `messages` arrived whole. */
int pass(struct pair *over, int messages, int size)
{
	static _Thread_local char sent[MOST_BYTES], received[MOST_BYTES];
	int whole = 0;
	for (int each = 0; each < messages; each++) {
		memset(sent, 'a' + each % 26, size);
		if (SSL_write(over->client, sent, size) != size)
			continue;
		pump(over->from_client, over->to_server);
		int got = 0;
		for (int now; got < size && (now = SSL_read(over->server, received + got, size - got)) > 0;)
			got += now;
		whole += got == size && !memcmp(sent, received, size);
	}
	return whole;
}

int tls(int messages, int size)
{
	struct pair made;
	if (!open_pair(&made))
		return -1;
	int whole = pass(&made, messages, size);
	close_pair(&made);
	return whole;
}

void in_memory(void)
{
	int messages = 1 + below(40), size = 1 + below(MOST_BYTES);
	printf("memory: %d of %d\n", tls(messages, size), messages);
}

/* Over a socket pair, one thread an end. */
struct end {
	SSL_CTX *context;
	int fd, messages, size, done;
};

static void *serve(void *argument)
{
	struct end *end = argument;
	char bytes[4096];
	SSL *connection = SSL_new(end->context);
	SSL_set_fd(connection, end->fd);
	if (SSL_accept(connection) == 1)
		for (int got; (got = SSL_read(connection, bytes, sizeof(bytes))) > 0;) {
			end->done += got;
			if (end->done == end->messages * end->size)
				break;
		}
	SSL_write(connection, "end", 3);
	SSL_free(connection);
	return NULL;
}

void over_sockets(void)
{
	int fds[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		err(1, "socketpair");
	struct end server = {server_context, fds[0], 1 + below(30), 1 + below(MOST_BYTES), 0};
	pthread_t thread;
	pthread_create(&thread, NULL, serve, &server);
	SSL *connection = SSL_new(client_context);
	SSL_set_fd(connection, fds[1]);
	char *bytes = malloc(server.size), last[4];
	memset(bytes, 'x', server.size);
	int sent = 0;
	if (SSL_connect(connection) == 1)
		for (int each = 0; each < server.messages; each++)
			sent += SSL_write(connection, bytes, server.size);
	int got = SSL_read(connection, last, sizeof(last));
	SSL_free(connection);
	pthread_join(thread, NULL);
	close(fds[0]);
	close(fds[1]);
	free(bytes);
	printf("sockets: %d sent, %d received, %d at the end\n", sent, server.done, got);
}
