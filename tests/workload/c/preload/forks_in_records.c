/* Forks inside of a wrapper, while that copies what SSL_write passed: the BIO below takes the right to read it away, and the handler
 * of SIGSEGV gives it back and forks. Parent and child go on from there. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tls_pair.h"

#define PAGE 4096
#define FORKS 5
#define CALLS 3 /* of each process, after a fork */

static char *text;
static volatile int armed, is_child;
static volatile pid_t child;

static void fork_here(int signal)
{
	(void)signal;
	mprotect(text, PAGE, PROT_READ | PROT_WRITE);
	child = fork();
	is_child = !child;
}

static int pass(BIO *bio, const char *data, int size)
{
	BIO *peer = BIO_get_data(bio);
	if (armed)
		mprotect(text, PAGE, PROT_NONE);
	armed = 0;
	return BIO_write(peer, data, size);
}

static int receive(BIO *bio, char *data, int size)
{
	(void)bio;
	(void)data;
	(void)size;
	return -1;
}

static long control(BIO *bio, int command, long number, void *pointer)
{
	(void)bio;
	(void)number;
	(void)pointer;
	return command == BIO_CTRL_FLUSH;
}

/* Send a text that says which process it is, and has the number of the call. */
static int say(SSL *ssl, int call)
{
	int size = snprintf(text, PAGE, "%s %d", is_child ? "child" : "parent", call);
	return SSL_write(ssl, text, size) == size;
}

int main(int count, char **arguments)
{
	SSL *ends[2];
	if (count != 3 || !make_pair(ends, arguments[1], arguments[2]))
		return 2;
	connect_by_memory(ends);
	shake_hands(ends);
	BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "passing on");
	BIO_meth_set_write(method, pass);
	BIO_meth_set_read(method, receive);
	BIO_meth_set_ctrl(method, control);
	BIO *passing = BIO_new(method);
	BIO_set_data(passing, BIO_new(BIO_s_mem()));
	BIO_set_init(passing, 1);
	SSL_set0_wbio(ends[1], passing);
	text = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sigaction action = {.sa_handler = fork_here};
	sigaction(SIGSEGV, &action, 0);
	int failed = 0, forks = 0;
	while (forks < FORKS && !is_child) {
		armed = 1;
		failed += !say(ends[1], 0);
		if (!child && !is_child) /* nobody watches: nothing read it */
			fork_here(0);
		for (int i = 1; i <= CALLS; i++)
			failed += !say(ends[1], i);
		if (is_child)
			_exit(failed);
		int status;
		waitpid(child, &status, 0);
		failed += status != 0;
		child = 0;
		forks++;
	}
	printf("%d forks, %d failed\n", forks, failed);
	return 0;
}
