/* Signal handlers, and calls that fail. */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "steps.h"

/* A handler on a small stack writes to a socket. */
static int handler_fd;
static volatile sig_atomic_t handled, failed;

static void handle(int number)
{
	(void)number;
	int before = errno;
	struct iovec parts[2] = {{"a", 1}, {"b", 1}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	failed |= writev(handler_fd, parts, 2) != 2;
	failed |= sendmsg(handler_fd, &message, MSG_DONTWAIT) != 2;
	failed |= send(handler_fd, "c", 1, MSG_DONTWAIT) != 1;
	handled++;
	errno = before;
}

static void *drain(void *argument)
{
	char bytes[4096];
	while (read(*(int *)argument, bytes, sizeof(bytes)) > 0)
		;
	return NULL;
}

void handlers(void)
{
	int fds[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		err(1, "socketpair");
	size_t size = sysconf(_SC_MINSIGSTKSZ) + 1024;
	stack_t small = {.ss_sp = malloc(size), .ss_size = size}, none = {.ss_flags = SS_DISABLE};
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK | SA_RESTART}, old;
	struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
	pthread_t thread;
	handler_fd = fds[0];
	handled = failed = 0;
	sigset_t only_alarm;
	sigemptyset(&only_alarm);
	sigaddset(&only_alarm, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &only_alarm, NULL);
	pthread_create(&thread, NULL, drain, &fds[1]);
	sigaltstack(&small, NULL);
	pthread_sigmask(SIG_UNBLOCK, &only_alarm, NULL);
	sigaction(SIGALRM, &action, &old);
	setitimer(ITIMER_REAL, &often, NULL);
	int whole = 0, rounds = 0;
	for (; handled < 20; rounds++)
		whole += tls(1, 100) == 1;
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &old, NULL);
	sigaltstack(&none, NULL);
	free(small.ss_sp);
	shutdown(fds[0], SHUT_RDWR);
	pthread_join(thread, NULL);
	close(fds[0]);
	close(fds[1]);
	printf("handlers: %s, TLS beside them: %s\n", failed ? "failed" : "well", whole == rounds ? "well" : "failed");
}

/* Results and errno of calls that fail. */
void failures(void)
{
	int fds[2];
	char byte;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds))
		err(1, "socketpair");
	int got = recv(fds[0], &byte, 1, 0), empty = errno;
	close(fds[1]);
	int sent = send(fds[0], "x", 1, MSG_NOSIGNAL), gone = errno;
	close(fds[0]);
	int again = close(fds[0]), closed = errno;
	int wrong = write(fds[0], "x", 1), none = errno;
	printf("failures: %d %d, %d %d, %d %d, %d %d\n", got, empty, sent, gone, again, closed, wrong, none);
}
