/* SPDX-License-Identifier: MIT
 *
 * The number of the calling thread, without a system call: libc keeps it in the thread's control block, also in the child of a
 * fork. It is at the same place in all versions; the constructor looks whether it is there.
 */
#pragma once

#include "system_calls.h"

#if defined(__x86_64__)
/* struct pthread of glibc (nptl/descr.h) and of musl (src/internal/pthread_impl.h). */
static const u16 number_offsets[] = {0x2d0, 0x30};
#else
static const u16 number_offsets[] = {};
#endif

static u16 number_offset; /* 0: the kernel has to be asked */

static inline u32 kept_number(u16 offset)
{
	return __atomic_load_n((const u32 *)((const u8 *)__builtin_thread_pointer() + offset), __ATOMIC_RELAXED);
}

/* Find where libc keeps the number. Called by the constructor, on the program's first thread. */
static void find_number(void)
{
	u32 number = (u32)system_call(__NR_gettid, 0, 0, 0, 0, 0, 0);
	for (u32 i = 0; i < sizeof(number_offsets) / sizeof(*number_offsets); i++)
		if (kept_number(number_offsets[i]) == number)
			number_offset = number_offsets[i];
}

static inline u32 thread_number(void)
{
	return number_offset ? kept_number(number_offset) : (u32)system_call(__NR_gettid, 0, 0, 0, 0, 0, 0);
}
