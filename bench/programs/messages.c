/* Messages through OpenSSL as fast as they go: two threads of one process, on a socket pair.
 *
 *     messages CERTIFICATE KEY
 *
 * For each line "COUNT SIZE RATE" on standard input the one thread makes COUNT calls of SSL_write with SIZE bytes, RATE
 * a second, or 0 for as fast as they go; the other reads them in calls of SIZE bytes at most. The answer is the seconds
 * that it took, and how many calls of SSL_read.
 */
#include "pace.h"
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

struct end {
	SSL *ssl;
	long count;
	int size;
	double rate;
	long calls;
};

static void *writer(void *argument)
{
	struct end *end = argument;
	char *data = calloc(1, end->size);
	double started = seconds();
	for (; end->calls < end->count; end->calls++) {
		await_turn(started, end->rate, end->calls);
		if (SSL_write(end->ssl, data, end->size) != end->size)
			exit(3);
	}
	free(data);
	return NULL;
}

static void *reader(void *argument)
{
	struct end *end = argument;
	char *data = malloc(end->size);
	for (long left = end->count * end->size; left > 0; end->calls++) {
		int got = SSL_read(end->ssl, data, end->size);
		if (got <= 0)
			exit(4);
		left -= got;
	}
	free(data);
	return NULL;
}

static void *accept_one(void *argument)
{
	struct end *end = argument;
	if (SSL_accept(end->ssl) != 1)
		exit(5);
	return NULL;
}

int main(int count, char **arguments)
{
	int sockets[2];
	pthread_t other;
	if (count != 3 || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		return 2;
	SSL_CTX *server = SSL_CTX_new(TLS_server_method());
	SSL_CTX *client = SSL_CTX_new(TLS_client_method());
	if (SSL_CTX_use_certificate_file(server, arguments[1], SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_use_PrivateKey_file(server, arguments[2], SSL_FILETYPE_PEM) != 1)
		return 2;
	SSL_CTX_set_num_tickets(server, 0);
	struct end writes = {.ssl = SSL_new(client)}, reads = {.ssl = SSL_new(server)};
	SSL_set_fd(writes.ssl, sockets[0]);
	SSL_set_fd(reads.ssl, sockets[1]);
	pthread_create(&other, NULL, accept_one, &reads);
	if (SSL_connect(writes.ssl) != 1)
		return 6;
	pthread_join(other, NULL);
	printf("ready\n");
	fflush(stdout);
	long messages;
	int size;
	double rate;
	while (scanf("%ld %d %lf", &messages, &size, &rate) == 3) {
		writes.count = reads.count = messages;
		writes.size = reads.size = size;
		writes.rate = rate;
		writes.calls = reads.calls = 0;
		double started = seconds();
		pthread_create(&other, NULL, reader, &reads);
		writer(&writes);
		pthread_join(other, NULL);
		printf("%.6f %ld\n", seconds() - started, reads.calls);
		fflush(stdout);
	}
	return 0;
}
