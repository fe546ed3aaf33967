/* A client that opens its TLS library late, makes one request, and ends.
 *
 *   late_client PORT LIBRARY NONCE [OPTION...]
 *
 * Options, in their order: `block` blocks all signals; `unlink` removes the library once it is open; `thread` goes on
 * in a thread; `fork`, `vfork` (with exec) and `clone` (with CLONE_PARENT) in a child; `threaded-exec` becomes itself
 * again in a thread that is not the first; `urgent` counts each SIGURG and sends itself one; `wait` first waits for a
 * line, `pause` does so between opening the library and the request, and `linger`, which is last, for the end of input once it is done. It prints the response's status, and with `urgent` how many SIGURG came.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <err.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char **arguments;
static char **options;
static int counts_urgent;
static int lingers;
static int pauses;
static volatile sig_atomic_t urgent;

static void count_urgent(int number)
{
	urgent += number == SIGURG;
}

static void await_line(const char *said)
{
	printf("%s\n", said);
	fflush(stdout);
	while (getchar() != '\n')
		;
}

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);
	if (!found)
		errx(1, "%s", dlerror());
	return found;
}

static int connected(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1]))};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		err(1, "connect");
	return fd;
}

static void request(int unlinks)
{
	char head[512], answer[4096];
	void *library = dlopen(arguments[2], RTLD_NOW);
	if (!library)
		errx(1, "%s", dlerror());
	if (unlinks && unlink(arguments[2]))
		err(1, "unlink");
	if (pauses)
		await_line("open");
	const void *(*method)(void) = symbol(library, "TLS_client_method");
	void *(*new_context)(const void *) = symbol(library, "SSL_CTX_new");
	void *(*new_connection)(void *) = symbol(library, "SSL_new");
	int (*set_fd)(void *, int) = symbol(library, "SSL_set_fd");
	int (*handshake)(void *) = symbol(library, "SSL_connect");
	int (*write_to)(void *, const void *, int) = symbol(library, "SSL_write");
	int (*read_from)(void *, void *, int) = symbol(library, "SSL_read");
	void *connection = new_connection(new_context(method()));
	if (!set_fd(connection, connected()) || handshake(connection) != 1)
		errx(1, "SSL_connect");
	int size = snprintf(head, sizeof(head),
			    "GET /late HTTP/1.1\r\nHost: localhost\r\nx-nonce: %s\r\nConnection: close\r\n\r\n",
			    arguments[3]);
	if (write_to(connection, head, size) != size)
		errx(1, "SSL_write");
	int got = 0, most = sizeof(answer) - 1;
	for (int now; got < most && (now = read_from(connection, answer + got, most - got)) > 0;)
		got += now;
	answer[got] = 0;
	if (strlen(answer) < 12)
		errx(1, "no answer");
	printf("%.3s", answer + 9);
	if (counts_urgent)
		printf(" %d", urgent);
	printf("\n");
	fflush(stdout);
}

static void go_on(int unlinks);

static void *thread(void *unlinks)
{
	go_on(unlinks != 0);
	exit(0);
}

static void *become(void *name)
{
	execv("/proc/self/exe", name);
	err(1, "exec");
}

static void await(pid_t child)
{
	int status;
	if (child < 0 || waitpid(child, &status, 0) != child)
		err(1, "child");
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* This program's arguments without the option that is being followed. */
static char **rest(void)
{
	char **made = calloc(64, sizeof(*made));
	int count = 0;
	for (int i = 0; i < 4; i++)
		made[count++] = arguments[i];
	for (char **each = options; *each && count < 63; each++)
		made[count++] = *each;
	return made;
}

static void go_on(int unlinks)
{
	while (*options) {
		const char *option = *options++;
		pthread_t other;
		if (!strcmp(option, "block")) {
			sigset_t all;
			sigfillset(&all);
			pthread_sigmask(SIG_SETMASK, &all, 0);
		} else if (!strcmp(option, "unlink")) {
			unlinks = 1;
		} else if (!strcmp(option, "wait")) {
			await_line("ready");
		} else if (!strcmp(option, "pause")) {
			pauses = 1;
		} else if (!strcmp(option, "linger")) {
			lingers = 1;
		} else if (!strcmp(option, "urgent")) {
			counts_urgent = 1;
			signal(SIGURG, count_urgent);
			kill(getpid(), SIGURG);
			syscall(SYS_tgkill, getpid(), gettid(), SIGURG);
		} else if (!strcmp(option, "thread")) {
			pthread_create(&other, 0, thread, unlinks ? arguments : 0);
			pthread_join(other, 0);
		} else if (!strcmp(option, "threaded-exec")) {
			pthread_create(&other, 0, become, rest());
			pthread_join(other, 0);
		} else if (!strcmp(option, "fork")) {
			pid_t child = fork();
			if (child)
				await(child);
		} else if (!strcmp(option, "vfork")) {
			char **name = rest();
			pid_t child = vfork();
			if (child)
				await(child);
			execv("/proc/self/exe", name);
			_exit(1);
		} else if (!strcmp(option, "clone")) {
			pid_t child = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
			if (child)
				exit(child < 0); /* it is its parent's now */
		} else {
			errx(2, "no option %s", option);
		}
	}
	request(unlinks);
	while (lingers && getchar() != EOF)
		;
}

int main(int count, char **given)
{
	if (count < 4)
		errx(2, "PORT LIBRARY NONCE [OPTION...]");
	arguments = given;
	options = given + 4;
	go_on(0);
	return 0;
}
