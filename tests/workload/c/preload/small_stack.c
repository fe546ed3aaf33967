/* Calls each socket function for the first time in a signal handler, on a stack with little more room than the kernel needs. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define ROOM 1024 /* for the handler, libc's function and what is around it */

static int ends[2];
static volatile int passed;

static void pass(int number)
{
	char byte = (char)number;
	struct iovec list = {&byte, 1};
	passed += (int)writev(ends[0], &list, 1);
	passed += (int)readv(ends[1], &list, 1);
	passed += (int)send(ends[0], &byte, 1, 0);
	passed += (int)recv(ends[1], &byte, 1, 0);
}

int main(void)
{
	size_t page = (size_t)getpagesize();
	size_t size = (getauxval(AT_MINSIGSTKSZ) + ROOM + 15) & ~(size_t)15;
	size_t whole = (size + 2 * page - 1) / page * page;
	char *memory = mmap(0, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) || socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 2;
	/* What is too deep is in the page without rights. */
	stack_t stack = {.ss_sp = memory + page, .ss_size = whole - page};
	char *top = memory + page + size;
	stack.ss_size = (size_t)(top - (memory + page));
	struct sigaction action = {.sa_handler = pass, .sa_flags = SA_ONSTACK};
	if (sigaltstack(&stack, 0) || sigaction(SIGUSR1, &action, 0) || raise(SIGUSR1))
		return 2;
	printf("%d\n", passed);
	return 0;
}
