/* SPDX-License-Identifier: MIT
 *
 * Notes that this process sets a filter of system calls (seccomp), which may kill for each call that the program does not make
 * itself: from then on this library makes none.
 */
#pragma once

#include <linux/prctl.h>

#include "real_functions.h"
#include "library.h"

static u8 is_filtered;

/* Whether a system call that the program does not make itself can do no harm. */
static inline int may_ask_kernel(void)
{
	return !__atomic_load_n(&is_filtered, __ATOMIC_RELAXED);
}

/* Note a filter. One without rules sets none: browsers ask so whether the kernel has filters (seccomp(2), EFAULT). */
static inline void note_filter(int is_strict, unsigned long rules)
{
	if (is_strict || rules)
		__atomic_store_n(&is_filtered, 1, __ATOMIC_RELAXED);
}

EXPORTED int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	if (option == PR_SET_SECCOMP)
		note_filter(a == 1, b);
	JUMP return ((int (*)(int, unsigned long, unsigned long, unsigned long, unsigned long))real_function(
	    REAL_PRCTL))(option, a, b, c, d);
}

/* How many filters this process has, and was started with: only calls that the dynamic linker makes, too. */
static u32 filter_count(void)
{
	char text[4096];
	long file = system_call(__NR_openat, AT_FDCWD, (long)"/proc/self/status", O_RDONLY | O_CLOEXEC, 0, 0, 0);
	long size = file < 0 ? 0 : system_call(__NR_read, file, (long)text, sizeof(text), 0, 0, 0);
	u32 modes[2] = {0}; /* "Seccomp:" and, since Linux 5.9, "Seccomp_filters:" */
	u32 found = 0;
	if (file >= 0)
		system_call(__NR_close, file, 0, 0, 0, 0, 0);
	for (long i = 0; i + 8 < size && found < 2; i++) {
		if (memcmp(text + i, "\nSeccomp", 8))
			continue;
		for (i += 8; i < size && text[i] != '\t';)
			i++;
		for (i++; i < size && text[i] >= '0' && text[i] <= '9'; i++)
			modes[found] = modes[found] * 10 + (u32)(text[i] - '0');
		found++;
		i--;
	}
	return modes[1] ? modes[1] : modes[0] != 0;
}
