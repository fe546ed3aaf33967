/* Small exchanges of HTTP/1.1 through OpenSSL, both ends in one thread: no system call passes a byte on, so that
 * next to nothing but what is watched takes CPU.
 *
 *     pairs CERTIFICATE KEY
 *
 * For each line "CONNECTIONS EXCHANGES RATE" on standard input it opens CONNECTIONS, and makes EXCHANGES on each, in
 * turn: at RATE a second in all, 0 for as fast as they go. The answer is the seconds that it took. Each exchange passes
 * two calls of SSL_write and two of SSL_read, and is seen at both ends.
 */
#include "http.h"
#include "pace.h"
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CONNECTIONS 1000

struct pair {
	SSL *client, *server;
};

static struct pair pairs[MOST_CONNECTIONS];

static void begin(struct pair *pair, SSL_CTX *clients, SSL_CTX *servers)
{
	BIO *near, *far;
	pair->client = SSL_new(clients);
	pair->server = SSL_new(servers);
	BIO_new_bio_pair(&near, 0, &far, 0);
	SSL_set_bio(pair->client, near, near);
	SSL_set_bio(pair->server, far, far);
	SSL_set_connect_state(pair->client);
	SSL_set_accept_state(pair->server);
	int done;
	do
		done = (SSL_do_handshake(pair->client) == 1) + (SSL_do_handshake(pair->server) == 1);
	while (done < 2);
}

static void end(struct pair *pair)
{
	SSL_free(pair->client);
	SSL_free(pair->server);
}

static void exchange(struct pair *pair, long number)
{
	char text[sizeof(REQUEST) + 32];
	int size = snprintf(text, sizeof(text), REQUEST, number);
	if (SSL_write(pair->client, text, size) != size || SSL_read(pair->server, text, sizeof(text)) != size)
		exit(4);
	size = sizeof(RESPONSE) - 1;
	char answer[sizeof(RESPONSE)];
	if (SSL_write(pair->server, RESPONSE, size) != size || SSL_read(pair->client, answer, size) != size)
		exit(5);
}

int main(int count, char **arguments)
{
	long connections, exchanges;
	double rate;
	SSL_CTX *clients = SSL_CTX_new(TLS_client_method());
	SSL_CTX *servers = SSL_CTX_new(TLS_server_method());
	if (count != 3 || SSL_CTX_use_certificate_file(servers, arguments[1], SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_use_PrivateKey_file(servers, arguments[2], SSL_FILETYPE_PEM) != 1)
		return 2;
	SSL_CTX_set_num_tickets(servers, 0);
	printf("ready\n");
	fflush(stdout);
	while (scanf("%ld %ld %lf", &connections, &exchanges, &rate) == 3) {
		if (connections < 1 || connections > MOST_CONNECTIONS)
			return 2;
		for (long each = 0; each < connections; each++)
			begin(&pairs[each], clients, servers);
		double started = seconds();
		for (long made = 0; made < connections * exchanges; made++) {
			await_turn(started, rate, made);
			exchange(&pairs[made % connections], made);
		}
		printf("%.6f\n", seconds() - started);
		fflush(stdout);
		for (long each = 0; each < connections; each++)
			end(&pairs[each]);
	}
	return 0;
}
