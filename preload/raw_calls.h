/* SPDX-License-Identifier: MIT
 *
 * Wraps the system calls that a program makes by their number, for those that this library has to know of, and clone.
 */
#pragma once

#include <linux/sched.h>

#include "joining.h"

static void note_raw_call(long number, long a, long b, long c)
{
	if (number == __NR_seccomp)
		note_filter(a == 0, (unsigned long)c);
	else if (number == __NR_prctl && a == PR_SET_SECCOMP)
		note_filter(b == 1, (unsigned long)c);
	else if (number == __NR_close)
		set_kind((int)a, DESCRIPTOR_UNKNOWN);
	else if (number == __NR_io_uring_setup)
		forget_descriptors();
}

/* Whether a system call makes a process with memory of its own that goes on as its parent does: like fork. */
static int is_fork(long number, long a, long b)
{
	const u64 *clone_arguments = (const u64 *)a; /* struct clone_args of linux/sched.h */
	switch (number) {
#ifdef __NR_fork
	case __NR_fork:
		return 1;
#endif
	case __NR_clone:
		return !(a & CLONE_VM) && !b;
	case __NR_clone3:
		return b >= CLONE_ARGS_SIZE_VER0 && !(clone_arguments[0] & CLONE_VM) && !clone_arguments[5];
	}
	return 0;
}

/* Leave errno as the kernel's answer to the program's own call left it: nothing here calls libc. */
static long call_and_begin_child(long number, long a, long b, long c, long d, long e, long f)
{
	long made =
	    ((long (*)(long, long, long, long, long, long, long))real_function(REAL_SYSCALL))(number, a, b, c, d, e, f);
	if (!made)
		begin_child();
	return made;
}

EXPORTED long syscall(long number, long a, long b, long c, long d, long e, long f)
{
	note_raw_call(number, a, b, c);
	if (is_fork(number, a, b))
		return call_and_begin_child(number, a, b, c, d, e, f);
	JUMP return ((long (*)(long, long, long, long, long, long, long))real_function(REAL_SYSCALL))(number, a, b, c,
												      d, e, f);
}

/* What a child that clone makes begins with. */
struct first_call {
	int (*function)(void *);
	void *argument;
};

static int run_child(void *state)
{
	struct first_call first = *(const struct first_call *)state; /* in the child's copy of the parent's stack */
	begin_child();
	return first.function(first.argument);
}

/* clone(2) leaves arguments out that the flags do not ask for. */
EXPORTED int clone(int (*function)(void *), void *stack, int flags, void *argument, void *parent, void *tls,
		   void *child)
{
	int (*real)(int (*)(void *), void *, int, void *, void *, void *, void *) = real_function(REAL_CLONE);
	if (flags & CLONE_VM || !function || !stack)
		JUMP return real(function, stack, flags, argument, parent, tls, child);
	struct first_call first = {function, argument};
	return real(run_child, stack, flags, &first, parent, tls, child);
}
