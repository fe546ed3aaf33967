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

/* The call of this index, if it is around `stack`: higher, and not so far away that another coroutine's stack may be
 * between. The object of a call that is not: 0. */
static inline struct open_call enclosing_call(u64 stack, int index)
{
	const struct call_bucket *bucket = call_bucket((stack >> BLOCK_BITS) + (u64)(index / BUCKET_CALLS));
	const struct open_call *call = &bucket->calls[index % BUCKET_CALLS];
	u64 at = __atomic_load_n(&call->stack, __ATOMIC_RELAXED);
	int is_around = at > stack && at - stack < 1 << BLOCK_BITS;
	return (struct open_call){at, is_around ? __atomic_load_n(&call->object, __ATOMIC_RELAXED) : 0};
}

#define ENCLOSING_CALLS (ENCLOSING_BUCKETS * BUCKET_CALLS)

/* The object of the call around `stack` that is nearest; 0: there is none. */
static inline u64 innermost_object(u64 stack)
{
	struct open_call nearest = {~0ULL, 0};
	for (int i = 0; i < ENCLOSING_CALLS; i++) {
		struct open_call call = enclosing_call(stack, i);
		if (call.object && call.stack < nearest.stack)
			nearest = call;
	}
	return nearest.object;
}
