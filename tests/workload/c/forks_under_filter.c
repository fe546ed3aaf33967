/* Sets a filter that kills for the calls by which a ring is made, by the function that is named, and forks. */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "filter_rules.h"

int main(int count, char **arguments)
{
	struct sock_filter filter[] = {
	    LOAD_NUMBER,
	    KILL(SYS_memfd_create),
	    KILL(SYS_ftruncate),
	    KILL(SYS_fcntl),
	    KILL(SYS_mmap),
	    KILL(SYS_munmap),
	    KILL(SYS_mprotect),
	    KILL(SYS_madvise),
	    KILL(SYS_socket),
	    KILL(SYS_connect),
	    KILL(SYS_sendmsg),
	    KILL(SYS_prctl),
	    KILL(SYS_prlimit64),
	    KILL(SYS_getsockopt),
	    KILL(SYS_openat),
	    KILL(SYS_read),
	    KILL(SYS_close),
	    KILL(SYS_getpid),
	    KILL(SYS_gettid),
	    ALLOW_OTHERS,
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};
	int is_set = count == 2 && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (is_set && !strcmp(arguments[1], "prctl"))
		is_set = !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
	else if (is_set)
		is_set = !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
	pid_t child = is_set ? fork() : -1;
	if (!child)
		_exit(0);
	int status = 0;
	waitpid(child, &status, 0);
	printf(WIFSIGNALED(status) ? "killed %d\n" : "exit %d\n",
	       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return !is_set;
}
