/* Limits that a process sets itself. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../c/filter_rules.h"
#include "steps.h"

/* Whether a child passes all messages. */
static int tls_of_child(int messages)
{
	int status = 1;
	pid_t child = fork();
	if (child == 0)
		_exit(tls(messages, 1000) != messages);
	waitpid(child, &status, 0);
	return !status;
}

void limits(void)
{
	int which = below(4), messages = 1 + below(10);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		struct rlimit few = {16, 16}, none = {0, 0}, room = {3UL << 30, 3UL << 30};
		if (which == 0)
			setrlimit(RLIMIT_NOFILE, &few);
		if (which == 1)
			setrlimit(RLIMIT_FSIZE, &none);
		if (which == 2)
			setrlimit(RLIMIT_AS, &room);
		if (which == 3 && mlockall(MCL_CURRENT | MCL_FUTURE))
			_exit(9);
		_exit(tls(messages, 1000) == messages && tls_of_child(messages) ? 5 : 6);
	}
	show_status("limits", child);
}

/* What OpenSSL itself needs to pass messages; any other call kills. */
void filtered(void)
{
	int messages = 1 + below(200);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		struct sock_filter rules[] = {
		    LOAD_NUMBER,
		    ALLOW(SYS_read),
		    ALLOW(SYS_write),
		    ALLOW(SYS_brk),
		    ALLOW(SYS_exit_group),
		    KILL_OTHERS,
		};
		struct sock_fprog program = {sizeof(rules) / sizeof(*rules), rules};
		struct pair made;
		if (!open_pair(&made) || pass(&made, 30, 1000) != 30)
			_exit(2);
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
			_exit(3);
		_exit(pass(&made, messages, 1000) == messages ? 4 : 5);
	}
	show_status("filtered", child);
}
