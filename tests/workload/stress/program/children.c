/* Children, however they are made. */
#define _GNU_SOURCE
#include <err.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steps.h"

extern char **environ;

void show_status(const char *what, pid_t child)
{
	int status = 0;
	if (waitpid(child, &status, 0) != child)
		err(1, "wait");
	printf("%s: %s %d\n", what, WIFSIGNALED(status) ? "signal" : "exit",
	       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* A child goes on with TLS, then ends in one of several ways. */
void forked(void)
{
	int way = below(6), messages = 1 + below(20);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		struct rlimit no_core = {0, 0};
		setrlimit(RLIMIT_CORE, &no_core);
		int whole = tls(messages, 512);
		if (way == 0)
			abort();
		if (way == 1)
			kill(getpid(), SIGKILL);
		if (way == 2)
			*(volatile int *)NULL = whole;
		_exit(whole == messages ? 7 : 8);
	}
	show_status("fork", child);
}

static volatile int goes_on;

static void *busy(void *argument)
{
	(void)argument;
	while (goes_on)
		tls(2, 64);
	return NULL;
}

void forked_beside_threads(void)
{
	pthread_t threads[3];
	goes_on = 1;
	for (int each = 0; each < 3; each++)
		pthread_create(&threads[each], NULL, busy, NULL);
	fflush(stdout);
	for (int each = 0; each < 5; each++) {
		int fds[2];
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
			err(1, "socketpair");
		pid_t child = fork();
		if (child == 0) {
			/* Only what may be called after a fork of a process with threads. */
			char byte = 0;
			_exit(write(fds[0], "x", 1) == 1 && send(fds[0], "y", 1, 0) == 1 && read(fds[1], &byte, 1) == 1
				  ? byte
				  : 1);
		}
		show_status("fork beside threads", child);
		close(fds[0]);
		close(fds[1]);
	}
	goes_on = 0;
	for (int each = 0; each < 3; each++)
		pthread_join(threads[each], NULL);
}

void spawned(void)
{
	char *words[] = {"true", NULL};
	pid_t child;
	fflush(stdout);
	if (below(2)) {
		child = vfork();
		if (child == 0) {
			execv("/bin/true", words);
			_exit(127);
		}
	} else if (posix_spawn(&child, "/bin/true", NULL, NULL, words, environ))
		err(1, "posix_spawn");
	show_status("spawn", child);
}

/* A process that lets go of all that it was started with. */
void daemonised(void)
{
	int messages = 1 + below(20);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		setsid();
		umask(0);
		if (chdir("/") || close_range(3, ~0U, 0))
			_exit(2);
		pid_t grandchild = fork();
		if (grandchild == 0)
			_exit(tls(messages, 700) == messages ? 3 : 4);
		int status;
		waitpid(grandchild, &status, 0);
		if (setresuid(65534, 65534, 65534))
			_exit(5);
		_exit(tls(messages, 10) == messages && WEXITSTATUS(status) == 3 ? 6 : 7);
	}
	show_status("daemon", child);
}
