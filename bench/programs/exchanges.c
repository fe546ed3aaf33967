/* Small exchanges of HTTP/1.1 through OpenSSL: a server, and its client in a process of its own.
 *
 *     exchanges CERTIFICATE KEY
 *
 * For each line "CONNECTIONS EXCHANGES OPEN RATE" on standard input the client opens CONNECTIONS, OPEN of
 * them at a time, and makes EXCHANGES on each: at RATE a second in all, 0 for as fast as they go. The
 * answer is the seconds that it took. An exchange is one call of SSL_read and one of SSL_write.
 */
#include "http.h"
#include "pace.h"
#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST_OPEN 10000

struct load {
	long connections, exchanges, open;
	double rate;
};

static SSL *connections[MOST_OPEN];

static SSL *begin(SSL_CTX *context, int socket)
{
	SSL *ssl = SSL_new(context);
	SSL_set_fd(ssl, socket);
	if (SSL_is_server(ssl) ? SSL_accept(ssl) != 1 : SSL_connect(ssl) != 1)
		exit(4);
	return ssl;
}

static void end(SSL *ssl)
{
	SSL_shutdown(ssl);
	close(SSL_get_fd(ssl));
	SSL_free(ssl);
}

static void serve(const struct load *load, SSL_CTX *context, int listener)
{
	char request[sizeof(REQUEST) + 32];
	for (long left = load->connections; left > 0; left -= load->open) {
		for (long each = 0; each < load->open; each++)
			connections[each] = begin(context, accept(listener, NULL, NULL));
		for (long turn = 0; turn < load->exchanges; turn++)
			for (long each = 0; each < load->open; each++)
				if (SSL_read(connections[each], request, sizeof(request)) <= 0 ||
				    SSL_write(connections[each], RESPONSE, sizeof(RESPONSE) - 1) <= 0)
					exit(5);
		for (long each = 0; each < load->open; each++)
			end(connections[each]);
	}
}

static void ask(const struct load *load, SSL_CTX *context, const struct sockaddr_in *server)
{
	char text[sizeof(REQUEST) + 32], response[sizeof(RESPONSE)];
	double started = seconds();
	long asked = 0;
	for (long left = load->connections; left > 0; left -= load->open) {
		for (long each = 0; each < load->open; each++) {
			int to = socket(AF_INET, SOCK_STREAM, 0);
			if (connect(to, (const struct sockaddr *)server, sizeof(*server)))
				exit(6);
			connections[each] = begin(context, to);
		}
		for (long turn = 0; turn < load->exchanges; turn++) {
			for (long each = 0; each < load->open; each++) {
				await_turn(started, load->rate, asked);
				int size = snprintf(text, sizeof(text), REQUEST, asked++);
				if (SSL_write(connections[each], text, size) != size)
					exit(7);
			}
			for (long each = 0; each < load->open; each++)
				if (SSL_read(connections[each], response, sizeof(response)) <= 0)
					exit(8);
		}
		for (long each = 0; each < load->open; each++)
			end(connections[each]);
	}
}

int main(int count, char **arguments)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	struct load load;
	int jobs[2];
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	if (count != 3 || bind(listener, (struct sockaddr *)&address, size) || listen(listener, MOST_OPEN) ||
	    getsockname(listener, (struct sockaddr *)&address, &size) || pipe(jobs))
		return 2;
	signal(SIGPIPE, SIG_IGN);
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		SSL_CTX *context = SSL_CTX_new(TLS_client_method());
		while (read(jobs[0], &load, sizeof(load)) == sizeof(load))
			ask(&load, context, &address);
		return 0;
	}
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());
	if (SSL_CTX_use_certificate_file(context, arguments[1], SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_use_PrivateKey_file(context, arguments[2], SSL_FILETYPE_PEM) != 1)
		return 2;
	SSL_CTX_set_num_tickets(context, 0);
	printf("ready\n");
	fflush(stdout);
	while (scanf("%ld %ld %ld %lf", &load.connections, &load.exchanges, &load.open, &load.rate) == 4) {
		if (load.open < 1 || load.open > MOST_OPEN || load.connections % load.open)
			return 2;
		double started = seconds();
		if (write(jobs[1], &load, sizeof(load)) != sizeof(load))
			return 3;
		serve(&load, context, listener);
		printf("%.6f\n", seconds() - started);
		fflush(stdout);
	}
	return 0;
}
