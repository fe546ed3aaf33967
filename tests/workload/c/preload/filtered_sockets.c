/* Sets a filter that kills for all but what it does itself, then uses TLS on a socket. Argument: by what the filter is set. */
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../filter_rules.h"
#include "../tls_pair.h"

static int set_filter(const char *way)
{
	struct sock_filter rules[] = {
	    LOAD_NUMBER,
	    ALLOW(SYS_read),
	    ALLOW(SYS_write),
	    ALLOW(SYS_exit_group),
	    ALLOW(SYS_brk),
	    ALLOW(SYS_mmap),
	    KILL_OTHERS,
	};
	struct sock_fprog program = {sizeof(rules) / sizeof(*rules), rules};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (!strcmp(way, "prctl"))
		return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
	if (!strcmp(way, "syscall-prctl"))
		return (int)syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

int main(int count, char **arguments)
{
	int ends[2];
	SSL *both[2];
	if (count != 4 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) ||
	    !make_pair(both, arguments[2], arguments[3]))
		return 2;
	for (int i = 0; i < 2; i++)
		SSL_set_fd(both[i], ends[i]);
	shake_hands(both);
	if (set_filter(arguments[1]))
		return 3;
	for (int i = 0; i < 500; i++)
		if (!send_message(both))
			return 4;
	if (write(1, "done\n", 5) != 5)
		return 5;
	_exit(0);
}
