/* Messages through OpenSSL in memory, both ends in one thread: `in_memory CERTIFICATE KEY`.
 *
 * For each line "COUNT BYTES RATE" on standard input it passes so many messages of so many bytes, at that rate a second (0: as
 * fast as they go), and prints the seconds that took and the calls of SSL_read.
 */
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>

#include "pace.h"

#define MOST_BYTES 16384

static SSL *open_end(SSL_CTX *context, BIO *bio)
{
	SSL *ssl = SSL_new(context);
	SSL_set_bio(ssl, bio, bio);
	return ssl;
}

static long pass(SSL *from, SSL *to, const char *message, char *got, int size)
{
	long reads = 0;
	if (SSL_write(from, message, size) != size)
		exit(4);
	for (int have = 0; have < size; reads++) {
		int part = SSL_read(to, got + have, size - have);
		if (part <= 0)
			exit(5);
		have += part;
	}
	return reads;
}

int main(int count, char **arguments)
{
	static char message[MOST_BYTES], got[MOST_BYTES];
	long messages;
	int size;
	double rate;
	BIO *one, *other;
	SSL_CTX *connects = SSL_CTX_new(TLS_client_method()), *accepts = SSL_CTX_new(TLS_server_method());
	if (count != 3 || SSL_CTX_use_certificate_file(accepts, arguments[1], SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_use_PrivateKey_file(accepts, arguments[2], SSL_FILETYPE_PEM) != 1)
		return 2;
	BIO_new_bio_pair(&one, 1 << 18, &other, 1 << 18);
	SSL *client = open_end(connects, one), *server = open_end(accepts, other);
	SSL_set_connect_state(client);
	SSL_set_accept_state(server);
	for (int ready = 0; ready != 2;)
		ready = (SSL_do_handshake(client) == 1) + (SSL_do_handshake(server) == 1);
	printf("ready\n");
	fflush(stdout);
	while (scanf("%ld %d %lf", &messages, &size, &rate) == 3) {
		long reads = 0;
		double began = seconds();
		for (long i = 0; i < messages; i++) {
			await_turn(began, rate, i);
			reads += pass(client, server, message, got, size);
		}
		printf("%f %ld\n", seconds() - began, reads);
		fflush(stdout);
	}
	return 0;
}
