/* GnuTLS connections that four threads use at once: each end has one that only writes and one that only reads.
 *
 *     both_ways CONNECTIONS MESSAGES BYTES CERTIFICATE KEY
 *
 * So many times each end sends a message of so many bytes, whatever the other does. A message says connection and number,
 * "t3 n7 " from a client and "T3 N7 " from a server, over and over.
 */
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static gnutls_certificate_credentials_t credentials;
static long messages, size;

struct end {
	gnutls_session_t session;
	const char *form;  /* of its messages */
	const char *other; /* of those that it gets */
	long connection;
	pthread_t threads[2];
};

static void fill(char *message, const char *form, long connection, long number)
{
	char words[64];
	int length = snprintf(words, sizeof(words), form, connection, number);
	for (long i = 0; i < size; i++)
		message[i] = words[i % length];
}

static void *shake_hands(void *argument)
{
	struct end *end = argument;
	int result;
	do
		result = gnutls_handshake(end->session);
	while (result < 0 && !gnutls_error_is_fatal(result));
	return result ? "failed" : NULL;
}

static void *write_all(void *argument)
{
	struct end *end = argument;
	char *message = malloc(size);
	for (long number = 0; number < messages; number++) {
		fill(message, end->form, end->connection, number);
		for (long sent = 0; sent < size;) {
			ssize_t part = gnutls_record_send(end->session, message + sent, size - sent);
			if (part <= 0)
				exit(5);
			sent += part;
		}
	}
	free(message);
	return NULL;
}

static void *read_all(void *argument)
{
	struct end *end = argument;
	char *message = malloc(size), *got = malloc(size);
	for (long number = 0; number < messages; number++) {
		for (long have = 0; have < size;) {
			ssize_t part = gnutls_record_recv(end->session, got + have, size - have);
			if (part <= 0)
				exit(6);
			have += part;
		}
		fill(message, end->other, end->connection, number);
		if (memcmp(message, got, size))
			exit(7);
	}
	free(message);
	free(got);
	return NULL;
}

static void run_both(struct end *ends, int which, void *(*function)(void *))
{
	for (int i = 0; i < 2; i++)
		if (pthread_create(&ends[i].threads[which], NULL, function, &ends[i]))
			exit(4);
}

static void wait_for_both(struct end *ends, int which)
{
	void *failed;
	for (int i = 0; i < 2; i++)
		if (pthread_join(ends[i].threads[which], &failed) || failed)
			exit(8);
}

static void *connect_and_pass(void *argument)
{
	static const char *const forms[] = {"t%ld n%ld ", "T%ld N%ld "};
	struct end ends[2];
	int descriptors[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, descriptors))
		exit(3);
	for (int i = 0; i < 2; i++) {
		ends[i] = (struct end){.form = forms[i], .other = forms[!i], .connection = (long)argument};
		gnutls_init(&ends[i].session, i ? GNUTLS_SERVER : GNUTLS_CLIENT);
		gnutls_set_default_priority(ends[i].session);
		gnutls_credentials_set(ends[i].session, GNUTLS_CRD_CERTIFICATE, credentials);
		gnutls_transport_set_int(ends[i].session, descriptors[i]);
	}
	run_both(ends, 0, shake_hands);
	wait_for_both(ends, 0);
	run_both(ends, 0, write_all);
	run_both(ends, 1, read_all);
	wait_for_both(ends, 0);
	wait_for_both(ends, 1);
	for (int i = 0; i < 2; i++)
		gnutls_deinit(ends[i].session);
	return NULL;
}

int main(int count, char **arguments)
{
	if (count != 6)
		return 2;
	long connections = atol(arguments[1]);
	messages = atol(arguments[2]);
	size = atol(arguments[3]);
	gnutls_certificate_allocate_credentials(&credentials);
	if (gnutls_certificate_set_x509_key_file(credentials, arguments[4], arguments[5], GNUTLS_X509_FMT_PEM))
		return 3;
	pthread_t *all = calloc(connections, sizeof(*all));
	for (long i = 0; i < connections; i++)
		if (pthread_create(&all[i], NULL, connect_and_pass, (void *)i))
			return 4;
	for (long i = 0; i < connections; i++)
		pthread_join(all[i], NULL);
	free(all);
	return 0;
}
