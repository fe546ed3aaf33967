/* SPDX-License-Identifier: MIT
 *
 * System calls without libc's functions for them: those set errno, which belongs to the program.
 */
#pragma once

#include "c_library.h"
#include "shared.h"

#include <asm/resource.h>
#include <asm/unistd.h>

#if defined(__x86_64__)
static inline long system_call(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}
#elif defined(__aarch64__)
static inline long system_call(long number, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
}
#endif

/* Map memory; 0: there is none. */
static inline void *map_memory(void *at, u64 size, int protection, int flags, int fd, u64 offset)
{
	long result = system_call(__NR_mmap, (long)at, (long)size, protection, flags, fd, (long)offset);
	return result < 0 && result > -PAGE_BYTES ? 0 : (void *)result;
}

static inline void *empty_memory(u64 size)
{
	return map_memory(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

#define WITHOUT_LIMIT (~0ULL)

struct limit {
	u64 current, most;
};

/* What this process may use of a resource (getrlimit(2)); 0: it is not known. */
static inline u64 own_limit(int resource)
{
	struct limit limit;
	return system_call(__NR_prlimit64, 0, resource, 0, (long)&limit, 0, 0) ? 0 : limit.current;
}
