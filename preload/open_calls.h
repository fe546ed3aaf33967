/* SPDX-License-Identifier: MIT
 *
 * Calls of the library that have begun and not ended. A call is known by its stack pointer, whichever thread it is on:
 * coroutines switch inside of calls, and may end them on another thread.
 *
 * They are in buckets by the block of memory that the stack pointer is in. A bucket that is full of calls that never ended
 * (longjmp, coroutines that were dropped) gives one up.
 */
#pragma once

#include "connections.h"

#define BLOCK_BITS 14 /* as in bpf/maps.bpf.h */
#define CALL_BUCKETS 4096
#define BUCKET_CALLS 8
#define ENCLOSING_BUCKETS 2

struct open_call {
	u64 stack; /* 0: free */
	u64 object;
};

struct call_bucket {
	struct open_call calls[BUCKET_CALLS];
};

#define CALL_BUCKETS_BYTES (sizeof(struct call_bucket) * CALL_BUCKETS)

static struct call_bucket *call_buckets;

static inline struct call_bucket *call_bucket(u64 block)
{
	return &call_buckets[mix(block) & (CALL_BUCKETS - 1)];
}

/* Note a call that begins; returns what close_call needs. The stack pointer is that of the wrapper, below its caller's. */
static inline struct open_call *open_call(u64 object, u64 stack)
{
	struct call_bucket *bucket = call_bucket(stack >> BLOCK_BITS);
	struct open_call *free = &bucket->calls[stack >> 4 & (BUCKET_CALLS - 1)];
	for (int i = 0; i < BUCKET_CALLS; i++) {
		u64 seen = __atomic_load_n(&bucket->calls[i].stack, __ATOMIC_RELAXED);
		if (!seen || seen == stack)
			free = &bucket->calls[i];
		if (seen == stack)
			break;
	}
	__atomic_store_n(&free->object, object, __ATOMIC_RELAXED);
	__atomic_store_n(&free->stack, stack, __ATOMIC_RELAXED);
	return free;
}

/* End a call, unless it has given its place up. */
static inline void close_call(struct open_call *call, u64 stack)
{
	if (__atomic_load_n(&call->stack, __ATOMIC_RELAXED) == stack)
		__atomic_store_n(&call->stack, 0, __ATOMIC_RELAXED);
}

/* The object of the next call around `stack`, from `place` on (first 0); 0: there is none left. A call is not around another if it
 * is a block away: another coroutine's stack may be between. `above`: how far away it is. */
static inline u64 next_enclosing(u64 stack, u32 *place, u64 *above)
{
	while (*place < ENCLOSING_BUCKETS * BUCKET_CALLS) {
		u32 i = (*place)++;
		const struct open_call *call =
		    &call_bucket((stack >> BLOCK_BITS) + i / BUCKET_CALLS)->calls[i % BUCKET_CALLS];
		*above = __atomic_load_n(&call->stack, __ATOMIC_RELAXED) - stack;
		u64 object = __atomic_load_n(&call->object, __ATOMIC_RELAXED);
		if (*above && *above < 1 << BLOCK_BITS && object)
			return object;
	}
	return 0;
}

/* The object of the call around `stack` that is nearest; 0: there is none. As next_enclosing, in a form that is fast: each write
 * asks for it. */
static inline u64 innermost_object(u64 stack)
{
	u64 nearest = 0, least = 1 << BLOCK_BITS;
	for (u32 block = 0; block < ENCLOSING_BUCKETS; block++) {
		const struct call_bucket *bucket = call_bucket((stack >> BLOCK_BITS) + block);
		for (u32 i = 0; i < BUCKET_CALLS; i++) {
			u64 above = __atomic_load_n(&bucket->calls[i].stack, __ATOMIC_RELAXED) - stack;
			u64 object = 0;
			if (above - 1 < least - 1)
				object = __atomic_load_n(&bucket->calls[i].object, __ATOMIC_RELAXED);
			if (object) {
				least = above;
				nearest = object;
			}
		}
	}
	return nearest;
}
