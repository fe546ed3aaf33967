/* Coroutines, each with a TLS connection whose BIO lets others run while it waits for its socket. */
#ifndef SCHEDULER_H
#define SCHEDULER_H

#include <openssl/ssl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <ucontext.h>

#define INBOX_BYTES (1 << 16)

struct coroutine {
	ucontext_t context;
	ucontext_t *loop; /* of the thread that runs it */
	void (*body)(struct coroutine *);
	int fd;
	int port;
	uint32_t waits_for; /* EPOLLIN or EPOLLOUT; 0: it ended; */
	int is_dropped;	    /* it never goes on */
	int may_jump;
	sigjmp_buf jump;
	char inbox[INBOX_BYTES]; /* what the loop received */
	size_t inbox_size;
};

/* The coroutines that did not end; who calls work() may count itself. */
extern atomic_int alive;
/* Whether the loop receives all bytes, and hands them to coroutines in batches. */
extern int use_loop;
extern SSL_CTX *tls;

/* Say what failed, and end. */
void fail(const char *what);
/* Make `tls`, and what coroutines wait with. Comes first. */
void make_tls(const SSL_METHOD *kind);
/* Return a connection whose bytes pass through the socket of `coroutine`. */
SSL *new_tls(struct coroutine *coroutine);
/* Begin a coroutine with a connected socket that does not block. */
void spawn(void (*body)(struct coroutine *), int fd, int port);
/* Let others run until the socket of this coroutine is ready for `what`, EPOLLIN or EPOLLOUT. */
void wait_for(struct coroutine *coroutine, uint32_t what);
/* Run coroutines until none is alive; with no `argument` for ever. */
void *work(void *argument);
pthread_t in_thread(void *(*function)(void *), void *argument);

#endif
