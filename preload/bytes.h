/* SPDX-License-Identifier: MIT
 *
 * Copies and clears memory by code of this library, also where the compiler asks for memcpy or memset. Those of the process
 * may be a sanitizer's: ThreadSanitizer takes note of each byte that its memcpy writes, but of no atomic operation in here.
 * So it would take what two threads write in turn, such as a record of the ring in two laps, for a data race of the program.
 */
#pragma once

#include "c_library.h"
#include "shared.h"

typedef u8 vector __attribute__((vector_size(16), aligned(1), may_alias));

/* Keep the compiler from seeing a loop as memcpy or memset, which would be a call of the function that it is in. */
#define NOT_A_CALL() __asm__ volatile("" ::: "memory")

__attribute__((visibility("hidden"))) void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
	u8 *put = to;
	const u8 *get = from;
	for (; size >= 4 * sizeof(vector); size -= 4 * sizeof(vector)) {
		const vector *source = (const vector *)get;
		vector first = source[0], second = source[1], third = source[2], fourth = source[3];
		vector *into = (vector *)put;
		into[0] = first, into[1] = second, into[2] = third, into[3] = fourth;
		put += 4 * sizeof(vector), get += 4 * sizeof(vector);
	}
	for (; size >= sizeof(vector); size -= sizeof(vector)) {
		NOT_A_CALL();
		*(vector *)put = *(const vector *)get;
		put += sizeof(vector), get += sizeof(vector);
	}
	for (; size; size--) {
		NOT_A_CALL();
		*put++ = *get++;
	}
	return to;
}

__attribute__((visibility("hidden"))) void *memset(void *to, int value, size_t size)
{
	u8 *put = to;
	vector filled = (vector){0} + (u8)value;
	for (; size >= sizeof(vector); size -= sizeof(vector)) {
		NOT_A_CALL();
		*(vector *)put = filled;
		put += sizeof(vector);
	}
	for (; size; size--) {
		NOT_A_CALL();
		*put++ = (u8)value;
	}
	return to;
}

/* Copy a text, as much of it as fits; `to` is zero. */
static inline void copy_text(char *to, const char *from, u64 room)
{
	for (u64 i = 0; from && from[i] && i < room - 1; i++)
		to[i] = from[i];
}
