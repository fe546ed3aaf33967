/* Messages through GnuTLS as fast as they go: two threads of one process, on a socket pair.
 *
 *     messages_gnutls CERTIFICATE KEY
 *
 * For each line "COUNT SIZE RATE" on standard input the one thread makes COUNT calls of gnutls_record_send with SIZE bytes, RATE
 * a second, or 0 for as fast as they go; the other reads them in calls of SIZE bytes at most. The answer is the seconds
 * that it took, and how many calls of gnutls_record_recv.
 */
#include "pace.h"
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

struct end {
	gnutls_session_t session;
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
		if (gnutls_record_send(end->session, data, end->size) != end->size)
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
		long got = gnutls_record_recv(end->session, data, end->size);
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
	if (gnutls_handshake(end->session) != GNUTLS_E_SUCCESS)
		exit(5);
	return NULL;
}

static void prepare(struct end *end, gnutls_certificate_credentials_t credentials, int fd)
{
	gnutls_set_default_priority(end->session);
	gnutls_credentials_set(end->session, GNUTLS_CRD_CERTIFICATE, credentials);
	gnutls_transport_set_int(end->session, fd);
}

int main(int count, char **arguments)
{
	int sockets[2];
	pthread_t other;
	if (count != 3 || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		return 2;
	gnutls_certificate_credentials_t credentials;
	gnutls_certificate_allocate_credentials(&credentials);
	if (gnutls_certificate_set_x509_key_file(credentials, arguments[1], arguments[2], GNUTLS_X509_FMT_PEM) < 0)
		return 2;
	struct end writes = {0}, reads = {0};
	gnutls_init(&writes.session, GNUTLS_CLIENT);
	gnutls_init(&reads.session, GNUTLS_SERVER | GNUTLS_NO_TICKETS);
	prepare(&writes, credentials, sockets[0]);
	prepare(&reads, credentials, sockets[1]);
	pthread_create(&other, NULL, accept_one, &reads);
	if (gnutls_handshake(writes.session) != GNUTLS_E_SUCCESS)
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
