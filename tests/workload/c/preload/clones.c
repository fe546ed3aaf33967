/* Makes a child in the way that the argument names; parent and child pass bytes on a connection each. The library is made from
 * shallow_plugin.c. */
#define _GNU_SOURCE
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern void *SSL_new(void *context);
extern int SSL_set_fd(void *ssl, int fd);
extern int SSL_write(void *ssl, const void *buffer, int size);

static int ends[2];
static char stack[65536] __attribute__((aligned(64)));

static int pass(void *text)
{
	void *ssl = SSL_new(0);
	int size = (int)strlen(text);
	SSL_set_fd(ssl, ends[1]);
	return SSL_write(ssl, text, size) == size ? 7 : 8;
}

static pid_t make_child(const char *way)
{
	struct clone_args arguments = {.exit_signal = SIGCHLD};
	if (!strcmp(way, "function"))
		return clone(pass, stack + sizeof(stack), SIGCHLD, "child");
	if (!strcmp(way, "clone"))
		return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (!strcmp(way, "clone3"))
		return (pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments));
	return (pid_t)syscall(SYS_fork);
}

int main(int count, char **arguments)
{
	int status = 0;
	if (count != 2 || pipe(ends) || pass("parent") != 7)
		return 2;
	pid_t child = make_child(arguments[1]);
	if (!child)
		_exit(pass("child"));
	if (waitpid(child, &status, 0) != child)
		return 3;
	printf("%d\n", WEXITSTATUS(status));
	return 0;
}
