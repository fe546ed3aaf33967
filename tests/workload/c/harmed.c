/* A client of HTTP/1.1 through OpenSSL to which something happens in the middle of a call.
 *
 *     harmed PORT FAULT
 *
 * It asks for /before, then for /FAULT, and prints what it got. FAULT happens inside the SSL_read that waits
 * for the second answer, where OpenSSL is about to read from the socket: see `faults`.
 */
#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define GO_ON 1
#define FAIL -1

static char *port;

static SSL *open_connection(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
		exit(3);
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(context);
	SSL_CTX_free(context);
	SSL_set_fd(ssl, fd);
	if (SSL_connect(ssl) != 1)
		exit(4);
	return ssl;
}

static void ask(SSL *ssl, const char *target)
{
	char request[256];
	int size = snprintf(request, sizeof(request), "GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n", target);
	if (SSL_write(ssl, request, size) != size)
		exit(5);
}

/* Print the body, which is the end of an answer that ends in a line. */
static void tell_answer(SSL *ssl)
{
	char answer[4096] = "";
	int size = 0, got = 1;
	while (!strstr(answer, "hello from") || answer[size - 1] != '\n') {
		if ((got = SSL_read(ssl, answer + size, sizeof(answer) - 1 - size)) <= 0)
			exit(6);
		size += got;
		answer[size] = 0;
	}
	printf("%s", strstr(answer, "hello from"));
	fflush(stdout);
}

static int crash(void)
{
	volatile int *nowhere = 0;
	return *nowhere;
}

static int be_killed(void)
{
	return kill(getpid(), SIGKILL);
}

static int become_another(void)
{
	return execlp("echo", "echo", "another program", NULL);
}

static void *end_by_thread(void *unused)
{
	SSL *ssl = open_connection(); /* a thread that is known for its own calls */
	ask(ssl, "thread");
	tell_answer(ssl);
	become_another();
	return unused;
}

static int become_another_by_thread(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, end_by_thread, NULL);
	return pause();
}

static int fork_in_two(void)
{
	if (fork() == 0)
		return FAIL; /* both return from SSL_read */
	wait(NULL);
	return GO_ON;
}

static const struct {
	const char *name;
	int (*happen)(void);
} faults[] = {
	{"crash", crash},
	{"kill", be_killed},
	{"exec", become_another},
	{"thread-exec", become_another_by_thread},
	{"fork", fork_in_two},
};

static long before_read(BIO *bio, int operation, const char *data, size_t size, int argument, long number, int result,
			size_t *processed)
{
	(void)data, (void)size, (void)argument, (void)number, (void)processed;
	if (operation != BIO_CB_READ)
		return result;
	int (*happen)(void) = (int (*)(void))BIO_get_callback_arg(bio);
	BIO_set_callback_ex(bio, NULL);
	return happen();
}

int main(int count, char **arguments)
{
	if (count != 3)
		return 2;
	port = arguments[1];
	SSL *ssl = open_connection();
	ask(ssl, "before");
	tell_answer(ssl);
	ask(ssl, arguments[2]);
	for (size_t each = 0; each < sizeof(faults) / sizeof(*faults); each++) {
		if (!strcmp(faults[each].name, arguments[2])) {
			BIO_set_callback_arg(SSL_get_rbio(ssl), (char *)faults[each].happen);
			BIO_set_callback_ex(SSL_get_rbio(ssl), before_read);
		}
	}
	tell_answer(ssl);
	SSL_shutdown(ssl);
	SSL_free(ssl);
	return 0;
}
