/* TLS connections in many threads, in memory or through sockets:
 *
 *     many_threads memory|sockets THREADS MESSAGES BYTES CERTIFICATE KEY
 *
 * Each thread has a connection, both ends. So many times its client sends a message of so many bytes, and its server answers
 * with another. A message says thread and number, "t3 n7 " from a client and "T3 N7 " from a server, over and over.
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
static long messages, size;
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

static void *run(void *argument)
{
	long thread = (long)argument;
	char *message = malloc(size), *got = malloc(size);
	SSL *client = SSL_new(clients), *server = SSL_new(servers);
	int descriptors[2];
	if (by_sockets)
		connect_by_sockets(client, server, descriptors);
	else
		connect_in_memory(client, server);
	SSL_set_connect_state(client);
	SSL_set_accept_state(server);
	for (int ready = 0; ready != 2;)
		ready = (SSL_do_handshake(client) == 1) + (SSL_do_handshake(server) == 1);
	for (long number = 0; number < messages; number++) {
		fill(message, "t%ld n%ld ", thread, number);
		pass(client, server, message, got);
		fill(message, "T%ld N%ld ", thread, number);
		pass(server, client, message, got);
	}
	SSL_shutdown(client);
	SSL_shutdown(server);
	SSL_free(client);
	SSL_free(server);
	for (int i = 0; by_sockets && i < 2; i++)
		close(descriptors[i]);
	free(message);
	free(got);
	return NULL;
}

int main(int count, char **arguments)
{
	if (count != 7)
		return 2;
	by_sockets = !strcmp(arguments[1], "sockets");
	long threads = atol(arguments[2]);
	messages = atol(arguments[3]);
	size = atol(arguments[4]);
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
