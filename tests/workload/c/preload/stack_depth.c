/* Says of each call how much of the stack it takes, if that is more than MOST: the first call of a connection each, as that has most
 * to do. The library is made from shallow_plugin.c. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

enum { MOST = 512, STACK_BYTES = 65536, PAINT = 0xa5 };

extern void *SSL_new(void *context);
extern int SSL_set_fd(void *ssl, int fd);
extern int SSL_read(void *ssl, void *buffer, int size);
extern int SSL_write(void *ssl, const void *buffer, int size);
extern int SSL_read_ex(void *ssl, void *buffer, size_t size, size_t *count);
extern int SSL_write_ex(void *ssl, const void *buffer, size_t size, size_t *count);

static int ends[2];
static void *ssl;
static char byte = 'x';
static size_t count;
static ssize_t result;
static int listener, made, pair[2];
static struct sockaddr_in address = {.sin_family = AF_INET}, name;
static socklen_t name_bytes = sizeof(name);
static struct iovec list = {&byte, 1};
static struct msghdr message = {.msg_iov = &list, .msg_iovlen = 1};

static void nothing(void)
{
}

#define CALL(name, expression)                  \
	static void call_##name(void)           \
	{                                       \
		result = (ssize_t)(expression); \
	}

CALL(SSL_write, SSL_write(ssl, &byte, 1))
CALL(SSL_read, SSL_read(ssl, &byte, 1))
CALL(SSL_write_ex, SSL_write_ex(ssl, &byte, 1, &count))
CALL(SSL_read_ex, SSL_read_ex(ssl, &byte, 1, &count))
CALL(write, write(ends[0], &byte, 1))
CALL(read, read(ends[1], &byte, 1))
CALL(writev, writev(ends[0], &list, 1))
CALL(readv, readv(ends[1], &list, 1))
CALL(send, send(ends[0], &byte, 1, 0))
CALL(recv, recv(ends[1], &byte, 1, 0))
CALL(sendto, sendto(ends[0], &byte, 1, 0, 0, 0))
CALL(recvfrom, recvfrom(ends[1], &byte, 1, 0, 0, 0))
CALL(sendmsg, sendmsg(ends[0], &message, 0))
CALL(recvmsg, recvmsg(ends[1], &message, 0))
CALL(socket, made = socket(AF_INET, SOCK_STREAM, 0))
CALL(connect, connect(made, (struct sockaddr *)&address, sizeof(address)))
CALL(accept, accept(listener, 0, 0))
CALL(accept4, accept4(listener, (struct sockaddr *)&name, &name_bytes, SOCK_CLOEXEC))
CALL(getsockname, getsockname(made, (struct sockaddr *)&name, &name_bytes))
CALL(getpeername, getpeername(made, (struct sockaddr *)&name, &name_bytes))
CALL(dup, dup(made))
CALL(dup2, dup2(made, 50))
CALL(dup3, dup3(made, 51, 0))
CALL(close, close(made))
CALL(socketpair, socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
CALL(SSL_new, (ssl = SSL_new(0)) != 0)

/* Each of the first ones sends a byte or receives the one that was sent before. `is_new`: on a connection of its own. */
static const struct {
	const char *name;
	void (*call)(void);
	int is_new, end;
} calls[] = {
    {"SSL_write", call_SSL_write, 1, 0},
    {"SSL_read", call_SSL_read, 1, 1},
    {"SSL_write_ex", call_SSL_write_ex, 1, 0},
    {"SSL_read_ex", call_SSL_read_ex, 1, 1},
    {"write", call_write, 0, 0},
    {"read", call_read, 0, 0},
    {"writev", call_writev, 0, 0},
    {"readv", call_readv, 0, 0},
    {"send", call_send, 0, 0},
    {"recv", call_recv, 0, 0},
    {"sendto", call_sendto, 0, 0},
    {"recvfrom", call_recvfrom, 0, 0},
    {"sendmsg", call_sendmsg, 0, 0},
    {"recvmsg", call_recvmsg, 0, 0},
    {"socket", call_socket, 0, 0},
    {"connect", call_connect, 0, 0},
    {"accept", call_accept, 0, 0},
    {"socket", call_socket, 0, 0},
    {"connect", call_connect, 0, 0},
    {"accept4", call_accept4, 0, 0},
    {"getsockname", call_getsockname, 0, 0},
    {"getpeername", call_getpeername, 0, 0},
    {"dup", call_dup, 0, 0},
    {"dup2", call_dup2, 0, 0},
    {"dup3", call_dup3, 0, 0},
    {"close", call_close, 0, 0},
    {"socketpair", call_socketpair, 0, 0},
    {"SSL_new", call_SSL_new, 0, 0},
};

/* How much of a stack of its own a call touches. */
static size_t depth(void (*call)(void))
{
	static unsigned char stack[STACK_BYTES] __attribute__((aligned(64)));
	static ucontext_t back, there;
	size_t untouched = 0;
	memset(stack, PAINT, sizeof(stack));
	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = sizeof(stack);
	there.uc_link = &back;
	makecontext(&there, call, 0);
	swapcontext(&back, &there);
	while (stack[untouched] == PAINT)
		untouched++;
	return sizeof(stack) - untouched;
}

static void begin_to_listen(void)
{
	socklen_t size = sizeof(address);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &size))
		err(1, "listen");
}

/* Connect over TCP: a connection has addresses. */
static void connect_ends(void)
{
	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(ends[0], (struct sockaddr *)&address, sizeof(address)))
		err(1, "connect");
	ends[1] = accept(listener, 0, 0);
}

int main(void)
{
	size_t least = depth(nothing);
	begin_to_listen();
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		if (calls[i].is_new && !calls[i].end)
			connect_ends();
		if (calls[i].is_new) {
			ssl = SSL_new(0);
			SSL_set_fd(ssl, ends[calls[i].end]);
		}
		result = 0;
		size_t taken = depth(calls[i].call) - least;
		printf("%s: %zd, ", calls[i].name, result);
		printf(taken <= MOST ? "fits\n" : "takes %zu bytes of stack\n", taken);
	}
	return 0;
}
