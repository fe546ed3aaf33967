/* TLS connections in many threads, in memory or through sockets:
 *
 *     many_threads memory|sockets THREADS MESSAGES BYTES CERTIFICATE KEY [CONNECTIONS]
 *
 * Each thread has so many connections, one by itself, and both ends of each. So many times a client sends a message of so many
 * bytes, and its server answers with another; the connections take turns. A message says thread and number, "t3 n7 " from a
 * client and "T3 N7 " from a server, over and over.
 */
#define _GNU_SOURCE
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static SSL_CTX *clients, *servers;
static long messages, size, connections = 1;
static int by_sockets;

static void fill(char *message, const char *form, long thread, long number)
{
	char words[64];
	int length = snprintf(words, sizeof(words), form, thread, number);
	for (long i = 0; i < size; i++)
		message[i] = words[i % length];
}

static void pass(SSL *from, SSL *to, const char *message, char *got)
{
	if (SSL_write(from, message, size) != size)
		exit(5);
	for (long have = 0; have < size;) {
		int part = SSL_read(to, got + have, size - have);
		if (part <= 0)
			exit(6);
		have += part;
	}
	if (memcmp(message, got, size))
		exit(7);
}

static void connect_in_memory(SSL *client, SSL *server)
{
	BIO *one, *other;
	BIO_new_bio_pair(&one, 1 << 16, &other, 1 << 16);
	SSL_set_bio(client, one, one);
	SSL_set_bio(server, other, other);
}

static void connect_by_sockets(SSL *client, SSL *server, int *descriptors)
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, descriptors))
		exit(8);
	SSL_set_fd(client, descriptors[0]);
	SSL_set_fd(server, descriptors[1]);
}

struct pair {
	SSL *client, *server;
	int descriptors[2];
};

static void begin(struct pair *pair)
{
	pair->client = SSL_new(clients);
	pair->server = SSL_new(servers);
	if (by_sockets)
		connect_by_sockets(pair->client, pair->server, pair->descriptors);
	else
		connect_in_memory(pair->client, pair->server);
	SSL_set_connect_state(pair->client);
	SSL_set_accept_state(pair->server);
	for (int ready = 0; ready != 2;)
		ready = (SSL_do_handshake(pair->client) == 1) + (SSL_do_handshake(pair->server) == 1);
}

static void end(const struct pair *pair)
{
	SSL_shutdown(pair->client);
	SSL_shutdown(pair->server);
	SSL_free(pair->client);
	SSL_free(pair->server);
	for (int i = 0; by_sockets && i < 2; i++)
		close(pair->descriptors[i]);
}

static void *run(void *argument)
{
	long thread = (long)argument;
	char *message = malloc(size), *got = malloc(size);
	struct pair *pairs = calloc(connections, sizeof(*pairs));
	for (long i = 0; i < connections; i++)
		begin(&pairs[i]);
	for (long number = 0; number < messages; number++) {
		const struct pair *pair = &pairs[number % connections];
		fill(message, "t%ld n%ld ", thread, number);
		pass(pair->client, pair->server, message, got);
		fill(message, "T%ld N%ld ", thread, number);
		pass(pair->server, pair->client, message, got);
	}
	for (long i = 0; i < connections; i++)
		end(&pairs[i]);
	free(pairs);
	free(message);
	free(got);
	return NULL;
}

int main(int count, char **arguments)
{
	if (count != 7 && count != 8)
		return 2;
	by_sockets = !strcmp(arguments[1], "sockets");
	long threads = atol(arguments[2]);
	messages = atol(arguments[3]);
	size = atol(arguments[4]);
	if (count == 8)
		connections = atol(arguments[7]);
	clients = SSL_CTX_new(TLS_client_method());
	servers = SSL_CTX_new(TLS_server_method());
	if (SSL_CTX_use_certificate_file(servers, arguments[5], SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_use_PrivateKey_file(servers, arguments[6], SSL_FILETYPE_PEM) != 1)
		return 3;
	pthread_t *all = calloc(threads, sizeof(*all));
	for (long i = 0; i < threads; i++)
		if (pthread_create(&all[i], NULL, run, (void *)i))
			return 4;
	for (long i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	free(all);
	return 0;
}
