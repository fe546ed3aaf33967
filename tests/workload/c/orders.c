/* An HTTP/1.1 server with OpenSSL and a thread for each connection: `orders CERTIFICATE KEY` prints its port.
 *
 * GET /orders/N calls find_order(N), which calls price(N), sleeps, and calls price(N) twice more; then it calls answer(N),
 * which writes the response. */
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static SSL_CTX *context;

__attribute__((noinline)) long price(long number)
{
	__asm__ volatile("" : "+r"(number));
	return 3 * number;
}

__attribute__((noinline)) long find_order(long number)
{
	return price(number) / 3 + 0 * getpid();
}

__attribute__((noinline)) int answer(SSL *ssl, long number)
{
	char text[32], response[128];
	int size = snprintf(text, sizeof(text), "%ld", number);
	size = snprintf(response, sizeof(response), "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", size, text);
	return SSL_write(ssl, response, size);
}

static void serve_requests(SSL *ssl)
{
	char request[4096];
	int size;
	while ((size = SSL_read(ssl, request, sizeof(request) - 1)) > 0) {
		request[size] = 0;
		const char *path = strstr(request, "/orders/");
		long number = find_order(path ? atol(path + strlen("/orders/")) : -1);
		long total = 0;
		for (int round = 0; round < 2; round++) {
			usleep(1000 + 1000 * ((number + round) % 7));
			total += price(number);
		}
		answer(ssl, total);
	}
}

static void *serve(void *descriptor)
{
	SSL *ssl = SSL_new(context);
	SSL_set_fd(ssl, (int)(long)descriptor);
	if (SSL_accept(ssl) == 1)
		serve_requests(ssl);
	SSL_free(ssl);
	close((int)(long)descriptor);
	return NULL;
}

int main(int count, char **arguments)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	context = SSL_CTX_new(TLS_server_method());
	if (count != 3 || SSL_CTX_use_certificate_file(context, arguments[1], SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_use_PrivateKey_file(context, arguments[2], SSL_FILETYPE_PEM) != 1)
		return 1;
	if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 100) ||
	    getsockname(listener, (struct sockaddr *)&address, &size))
		return 1;
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	for (;;) {
		pthread_t thread;
		long descriptor = accept(listener, NULL, NULL);
		pthread_create(&thread, NULL, serve, (void *)descriptor);
		pthread_detach(thread);
	}
}
