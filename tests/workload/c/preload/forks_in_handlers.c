/* Forks in the handlers of a timer's signals, wherever these meet its TLS calls; each child goes on from there. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tls_pair.h"

#define FORKS 150
#define PERIOD_US 2003
#define CALLS_OF_A_CHILD 20

static volatile int forks, failed, is_child;

static void fork_here(int signal)
{
	int status = 0;
	pid_t child = forks < FORKS ? fork() : -1;
	(void)signal;
	if (!child)
		is_child = 1;
	if (child <= 0)
		return;
	forks++;
	waitpid(child, &status, 0);
	failed += status != 0;
}

int main(int count, char **arguments)
{
	SSL *ends[2];
	if (count != 3 || !make_pair(ends, arguments[1], arguments[2]))
		return 2;
	connect_by_memory(ends);
	shake_hands(ends);
	struct sigaction action = {.sa_handler = fork_here};
	struct itimerval timer = {{0, PERIOD_US}, {0, PERIOD_US}};
	sigaction(SIGALRM, &action, 0);
	setitimer(ITIMER_REAL, &timer, 0);
	char data[16384];
	for (int calls = 0; forks < FORKS; calls = is_child ? calls + 1 : 0) {
		if (SSL_write(ends[1], data, 1) != 1)
			_exit(3);
		if (SSL_read(ends[0], data, sizeof(data)) != 1)
			_exit(4);
		if (calls == CALLS_OF_A_CHILD)
			_exit(0);
	}
	printf("%d forks, %d failed\n", forks, failed);
	return 0;
}
