/* Runs coroutines on any number of threads: one goes on on whichever finds its socket ready. See coroutines.c. */
#define _GNU_SOURCE
#include "scheduler.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define STACK_BYTES (128 << 10)
#define MOST_EVENTS 256

atomic_int alive;
int use_loop;
SSL_CTX *tls;
static int poller;
static BIO_METHOD *method;

void fail(const char *what)
{
	perror(what);
	ERR_print_errors_fp(stderr);
	exit(1);
}

/* Errno's address is of the thread: compilers may keep it over a switch, so it is read in functions of their own. */
static __attribute__((noinline)) int would_block(void)
{
	return errno == EAGAIN || errno == EINTR;
}

void wait_for(struct coroutine *coroutine, uint32_t what)
{
	coroutine->waits_for = what;
	swapcontext(&coroutine->context, coroutine->loop);
}

static __attribute__((noinline)) int receive(struct coroutine *coroutine, char *data, int size)
{
	if (!use_loop)
		return recv(coroutine->fd, data, size, MSG_DONTWAIT);
	if (!coroutine->inbox_size) {
		errno = EAGAIN;
		return -1;
	}
	int got = (size_t)size < coroutine->inbox_size ? size : (int)coroutine->inbox_size;
	memcpy(data, coroutine->inbox, got);
	coroutine->inbox_size -= got;
	memmove(coroutine->inbox, coroutine->inbox + got, coroutine->inbox_size);
	return got;
}

static int bio_read(BIO *bio, char *data, int size)
{
	struct coroutine *coroutine = BIO_get_data(bio);
	if (coroutine->is_dropped)
		wait_for(coroutine, EPOLLIN);
	for (;;) {
		if (coroutine->may_jump) {
			coroutine->may_jump = 0;
			siglongjmp(coroutine->jump, 1);
		}
		int got = receive(coroutine, data, size);
		if (got >= 0 || !would_block())
			return got;
		wait_for(coroutine, EPOLLIN);
	}
}

static int bio_write(BIO *bio, const char *data, int size)
{
	struct coroutine *coroutine = BIO_get_data(bio);
	for (;;) {
		wait_for(coroutine, EPOLLOUT); /* always: so that calls of many coroutines are open */
		int sent = send(coroutine->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent >= 0 || !would_block())
			return sent;
	}
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
	(void)bio, (void)number, (void)pointer;
	return command == BIO_CTRL_FLUSH;
}

SSL *new_tls(struct coroutine *coroutine)
{
	BIO *bio = BIO_new(method);
	SSL *ssl = SSL_new(tls);
	BIO_set_data(bio, coroutine);
	BIO_set_init(bio, 1);
	SSL_set_bio(ssl, bio, bio);
	return ssl;
}

void make_tls(const SSL_METHOD *kind)
{
	tls = SSL_CTX_new(kind);
	method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "coroutine");
	BIO_meth_set_read(method, bio_read);
	BIO_meth_set_write(method, bio_write);
	BIO_meth_set_ctrl(method, bio_control);
	poller = epoll_create1(EPOLL_CLOEXEC);
}

static void run(ucontext_t *loop, struct coroutine *coroutine)
{
	if (use_loop && coroutine->waits_for == EPOLLIN) {
		int room = INBOX_BYTES - coroutine->inbox_size;
		int got = recv(coroutine->fd, coroutine->inbox + coroutine->inbox_size, room, MSG_DONTWAIT);
		if (got > 0)
			coroutine->inbox_size += got;
	}
	coroutine->loop = loop;
	swapcontext(loop, &coroutine->context);
	struct epoll_event event = {.events = coroutine->waits_for | EPOLLONESHOT, .data.ptr = coroutine};
	if (coroutine->is_dropped)
		return;
	if (coroutine->waits_for) {
		if (epoll_ctl(poller, EPOLL_CTL_MOD, coroutine->fd, &event))
			fail("epoll_ctl");
		return;
	}
	close(coroutine->fd);
	munmap(coroutine->context.uc_stack.ss_sp, STACK_BYTES);
	free(coroutine);
	alive--;
}

static void begin(int low, int high)
{
	struct coroutine *coroutine = (void *)((uintptr_t)(unsigned)high << 32 | (unsigned)low);
	coroutine->body(coroutine);
	wait_for(coroutine, 0);
}

void spawn(void (*body)(struct coroutine *), int fd, int port)
{
	struct coroutine *coroutine = calloc(1, sizeof(*coroutine));
	char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!coroutine || stack == MAP_FAILED)
		fail("memory");
	*coroutine = (struct coroutine){.body = body, .fd = fd, .port = port};
	getcontext(&coroutine->context);
	coroutine->context.uc_stack.ss_sp = stack;
	coroutine->context.uc_stack.ss_size = STACK_BYTES;
	makecontext(&coroutine->context, (void (*)(void))begin, 2, (int)(uintptr_t)coroutine,
		    (int)((uintptr_t)coroutine >> 32));
	struct epoll_event event = {.events = EPOLLOUT | EPOLLONESHOT, .data.ptr = coroutine};
	alive++;
	if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event))
		fail("epoll_ctl");
}

void *work(void *argument)
{
	ucontext_t loop;
	struct epoll_event events[MOST_EVENTS];
	/* In turns: one thread should not take all that is ready. */
	while (!argument || alive > 0) {
		int count = epoll_wait(poller, events, argument ? 4 : MOST_EVENTS, 10);
		for (int i = 0; i < count; i++)
			run(&loop, events[i].data.ptr);
	}
	return NULL;
}

pthread_t in_thread(void *(*function)(void *), void *argument)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, function, argument))
		fail("pthread_create");
	return thread;
}
