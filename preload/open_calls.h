/* SPDX-License-Identifier: MIT
 *
 * Calls of the library that have begun and not ended. A call is known by its stack pointer, whichever thread it is on:
 * coroutines switch inside of calls, and may end them on another thread.
 *
 * They are in buckets by the block of memory that the stack pointer is in. A bucket that is full of calls that never ended
 * (longjmp, coroutines that were dropped) gives one up.
 */
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

#define MOST_ENCLOSING (ENCLOSING_BUCKETS * BUCKET_CALLS)

/* Put the objects of the calls around `stack` into `objects`, that of the nearest first; return how many there are. A call
 * is not around another if it is a block away: another coroutine's stack may be between. */
static inline u32 enclosing_objects(u64 stack, u64 objects[MOST_ENCLOSING])
{
	u32 count = 0;
	u64 nearest = 1 << BLOCK_BITS;
	for (u32 block = 0; block < ENCLOSING_BUCKETS; block++) {
		const struct call_bucket *bucket = call_bucket((stack >> BLOCK_BITS) + block);
		for (u32 i = 0; i < BUCKET_CALLS; i++) {
			u64 above = __atomic_load_n(&bucket->calls[i].stack, __ATOMIC_RELAXED) - stack;
			if (!above || above >= 1 << BLOCK_BITS)
				continue;
			u64 object = __atomic_load_n(&bucket->calls[i].object, __ATOMIC_RELAXED);
			if (!object)
				continue;
			objects[count] = object;
			if (above < nearest) {
				nearest = above;
				objects[count] = objects[0];
				objects[0] = object;
			}
			count++;
		}
	}
	return count;
}

/* The object of the call around `stack` that is nearest; 0: there is none. */
static inline u64 innermost_object(u64 stack)
{
	u64 objects[MOST_ENCLOSING];
	return enclosing_objects(stack, objects) ? objects[0] : 0;
}
