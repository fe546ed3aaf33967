/* Connects over TCP, sets a filter that kills for what the program does not do itself, and passes TLS between reads of a file. Nobody
 * sees the filter: it is set without libc. Argument: "named" if the program asks for the names of its sockets, before the filter;
 * else the filter lets one do that. Prints the ports of client and server. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../filter_rules.h"
#include "../tls_pair.h"

static long call_kernel(long number, long a, long b, long c)
{
	long result;
	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return result;
}

static int set_filter(int may_ask)
{
	struct sock_filter rules[] = {
	    LOAD_NUMBER,
	    ALLOW(SYS_read),
	    ALLOW(SYS_write),
	    ALLOW(SYS_exit_group),
	    ALLOW(SYS_brk),
	    ALLOW(SYS_mmap),
	    ALLOW(may_ask ? SYS_getsockname : SYS_exit_group),
	    KILL_OTHERS,
	};
	struct sock_fprog program = {sizeof(rules) / sizeof(*rules), rules};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return (int)call_kernel(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program);
}

/* Connect `ends`; the server's is the first. */
static int connect_ends(int ends[2], struct sockaddr_in *address)
{
	socklen_t size = sizeof(*address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	*address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	ends[1] = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)address, size) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)address, &size) ||
	    connect(ends[1], (struct sockaddr *)address, size))
		return 0;
	ends[0] = accept(listener, 0, 0);
	return !fcntl(ends[0], F_SETFL, O_NONBLOCK) && !fcntl(ends[1], F_SETFL, O_NONBLOCK) && !close(listener);
}

int main(int count, char **arguments)
{
	int ends[2], file = open("/proc/self/exe", O_RDONLY);
	char data[100], text[100];
	struct sockaddr_in address, client = {0};
	socklen_t size = sizeof(client);
	SSL *both[2];
	if (count != 4 || !connect_ends(ends, &address) || !make_pair(both, arguments[2], arguments[3]))
		return 2;
	for (int i = 0; i < 2; i++)
		SSL_set_fd(both[i], ends[i]);
	shake_hands(both);
	int is_named = !strcmp(arguments[1], "named");
	if (is_named && (getsockname(ends[1], (struct sockaddr *)&client, &size) ||
			 getsockname(ends[0], (struct sockaddr *)&address, &size)))
		return 2;
	/* What is sent may arrive later. */
	if (fcntl(ends[0], F_SETFL, 0) || set_filter(!is_named))
		return 3;
	for (int i = 0; i < 100; i++)
		if (SSL_write(both[1], "asked", 5) != 5 || read(file, data, 1) != 1 ||
		    SSL_read(both[0], data, sizeof(data)) != 5)
			return 4;
	int bytes = snprintf(text, sizeof(text), "%d %d\n", ntohs(client.sin_port), ntohs(address.sin_port));
	if (write(1, text, (size_t)bytes) != bytes)
		return 5;
	_exit(0);
}
