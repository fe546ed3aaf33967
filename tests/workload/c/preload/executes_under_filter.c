/* Executes its arguments under a filter that kills for what no program does when it begins. */
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../filter_rules.h"

int main(int count, char **arguments)
{
	struct sock_filter rules[] = {
	    LOAD_NUMBER,
	    KILL(SYS_gettid),
	    KILL(SYS_getpid),
	    KILL(SYS_memfd_create),
	    KILL(SYS_socket),
	    KILL(SYS_madvise),
	    ALLOW_OTHERS,
	};
	struct sock_fprog program = {sizeof(rules) / sizeof(*rules), rules};
	if (count < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
		return 2;
	execv(arguments[1], arguments + 1);
	return 3;
}
