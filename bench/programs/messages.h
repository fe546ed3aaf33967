/* Messages through a TLS library as fast as they go: two threads of one process, on a socket pair.
 *
 *     PROGRAM CERTIFICATE KEY
 *
 * For each line "COUNT SIZE RATE" on standard input the one thread makes COUNT calls that write SIZE bytes, RATE a second,
 * or 0 for as fast as they go; the other reads them in calls of SIZE bytes at most. The answer is the seconds that it took,
 * and how many calls that read.
 *
 * A program for a library defines the functions that are only declared here.
 */
#include "pace.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

struct end {
	void *session;
	long count;
	int size;
	double rate;
	long calls;
};

/* Make the sessions of both ends; returns whether it did. */
static int open_sessions(const char *certificate, const char *key, int client_socket, int server_socket, void **client,
			 void **server);
/* Returns whether it is done. */
static int shake_hands(void *session, int is_server);
/* Both return how many bytes, as the library does. */
static long write_bytes(void *session, const char *data, int size);
static long read_bytes(void *session, char *data, int size);

static void *writer(void *argument)
{
	struct end *end = argument;
	char *data = calloc(1, end->size);
	double started = seconds();
	for (; end->calls < end->count; end->calls++) {
		await_turn(started, end->rate, end->calls);
		if (write_bytes(end->session, data, end->size) != end->size)
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
		long got = read_bytes(end->session, data, end->size);
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
	if (!shake_hands(end->session, 1))
		exit(5);
	return NULL;
}

int main(int count, char **arguments)
{
	int sockets[2];
	pthread_t other;
	struct end writes = {0}, reads = {0};
	if (count != 3 || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) ||
	    !open_sessions(arguments[1], arguments[2], sockets[0], sockets[1], &writes.session, &reads.session))
		return 2;
	pthread_create(&other, NULL, accept_one, &reads);
	if (!shake_hands(writes.session, 0))
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
