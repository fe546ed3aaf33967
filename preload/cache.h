/* SPDX-License-Identifier: MIT
 *
 * Fetches memory that another processor wrote last into the cache of this one.
 */
#pragma once

#include "shared.h"

#define LINE_BYTES 64
#define FETCHED_BYTES 2048 /* the rest of a longer record the processor fetches by itself */

/* Fetch memory that is about to be written, perhaps after it was read, without waiting for it. */
static inline void fetch(const u8 *from, u64 bytes)
{
	for (u64 at = 0; at < bytes && at < FETCHED_BYTES; at += LINE_BYTES) {
#if defined(__x86_64__) /* what __builtin_prefetch is only for later processors */
		__asm__ volatile("prefetchw %0" : : "m"(from[at]));
#else
		__builtin_prefetch(from + at, 1);
#endif
	}
}
