/* Sets a filter that kills for all but what it does itself, then uses TLS on a socket. Argument: by what the filter is set. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../tls_pair.h"

#define ALLOW(number)                                  \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), \
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int set_filter(const char *way)
{
	struct sock_filter rules[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    ALLOW(SYS_read),
	    ALLOW(SYS_write),
	    ALLOW(SYS_exit_group),
	    ALLOW(SYS_brk),
	    ALLOW(SYS_mmap),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
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
