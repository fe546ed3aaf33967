/* A library whose relocation takes a while: it has a function that is chosen meanwhile (IFUNC), which says so to the program and waits.
 * It refers to OpenSSL, first of all. With ALONE it does not: a library that needs it is not relocated meanwhile. */
#include <linux/time_types.h>
#include <sys/syscall.h>

#define RELOCATING 100 /* a pipe of the program */
#define WAIT_NS 300000000

static int answer(void)
{
	return 1;
}

static long call_kernel(long number, long a, long b, long c)
{
	long result;
	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return result;
}

/* Calls no function of another file: none is bound yet. */
static __attribute__((used)) int (*choose(void))(void)
{
	struct __kernel_timespec wait = {.tv_nsec = WAIT_NS};
	call_kernel(SYS_write, RELOCATING, (long)&(char){'r'}, 1);
	call_kernel(SYS_nanosleep, (long)&wait, 0, 0);
	return answer;
}

int chosen(void) __attribute__((ifunc("choose")));

int get_answer(void)
{
	return chosen();
}

#ifndef ALONE
#include "tls_plugin.c"

/* Addresses in data are bound first. */
void *const bound_first[] = {(void *)SSL_read};
#endif
