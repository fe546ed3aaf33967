/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The probes of `sslsniff trace`: a program for each size of the data that a hit fetches.
 */
#pragma once

#include "stack.bpf.h"
#include "fetch.bpf.h"

/* How many hits are reported in a second. */
struct rate {
	u64 most; /* 0: all */
	u64 began_ns;
	u64 hits;
	u64 dropped; /* hits that were not reported */
};

MAP_ARRAY(rates, struct rate, 1);

/* A call that has begun. */
struct begun_key {
	u64 stack; /* stack pointer at its entry */
	u32 pid;
	u32 function;
};

/* How many calls took so many nanoseconds: each bucket ends at twice the time of the one before. */
#define BUCKETS 64
struct histogram {
	u64 buckets[BUCKETS];
};

/* User space sets how many entries these have before it loads. */
MAP_ARRAY(counts, u64, 1);
MAP_ARRAY(histograms, struct histogram, 1);
MAP_LRU_HASH(begun, struct begun_key, u64, 1);

#define SECOND_NS 1000000000ULL

static __always_inline struct rate *get_rate(void)
{
	u32 zero = 0;
	return map_lookup(rates, &zero);
}

/* Count a hit that is not reported, for `counter` too. */
SEPARATE void count_dropped(u32 counter)
{
	struct rate *rate = get_rate();
	if (rate)
		__atomic_fetch_add(&rate->dropped, 1, __ATOMIC_RELAXED);
	count(counter, 1);
}

SEPARATE u64 dropped_hits(void)
{
	const struct rate *rate = get_rate();
	return rate ? rate->dropped : 0;
}

/* Whether this second has had all its hits; counts the hit then. */
SEPARATE int is_limited(void)
{
	struct rate *rate = get_rate();
	if (!rate || !rate->most)
		return 0;
	u64 now = bpf_ktime_get_ns(), began = rate->began_ns;
	if (now - began >= SECOND_NS && __sync_val_compare_and_swap(&rate->began_ns, began, now) == began)
		rate->hits = 0;
	if (rate->hits < rate->most)
		return 0;
	count_dropped(COUNTER_LIMITED_HITS);
	return 1;
}

/* The process and the thread that hit a probe; 0: their hits do not count. */
static __always_inline u64 hitting_thread(void)
{
	const struct config *config = get_config();
	const struct thread *thread = config && !config->stopped ? get_thread() : 0;
	return thread ? (u64)thread->pid << 32 | thread->tid : 0;
}

/* The same where processes are chosen by their number alone, which is the same for sslsniff. */
static __always_inline u64 hitting_thread_by_number(void)
{
	const struct config *config = get_config();
	u64 id = bpf_get_current_pid_tgid();
	u32 pid = id >> 32;
	if (!config || config->stopped || pid == config->own_pid || (config->by_pid && !map_lookup(pids, &pid)))
		return 0;
	if (!map_lookup(watched, &pid))
		map_update(watched, &pid, &pid);
	return id;
}

/* The power of two below a number. */
static __always_inline u32 exponent(u64 value)
{
	u32 result = 0;
	for (u32 bits = 32; bits; bits /= 2) {
		if (value >> bits) {
			value >>= bits;
			result += bits;
		}
	}
	return result;
}

static __always_inline void count_duration(u32 function, u64 duration_ns)
{
	struct histogram *histogram = map_lookup(histograms, &function);
	u32 bucket = exponent(duration_ns);
	if (histogram)
		__atomic_fetch_add(&histogram->buckets[bucket & (BUCKETS - 1)], 1, __ATOMIC_RELAXED);
}

static __always_inline void end_begun(const struct begun_key *key, u64 now)
{
	const u64 *began = map_lookup(begun, key);
	if (!began)
		return;
	count_duration(key->function, now - *began);
	map_delete(begun, key);
}

/* Count a hit in the kernel. */
SEPARATE void tally(const struct fetch *fetch, u32 place, u32 pid, u64 stack, u64 now)
{
	struct begun_key key = {.stack = stack, .pid = pid, .function = fetch->function};
	if (fetch->action == ACTION_BEGIN) {
		now = bpf_ktime_get_ns(); /* the probe's own time does not count */
		map_update(begun, &key, &now);
	} else if (fetch->action == ACTION_END) {
		end_begun(&key, now);
	} else if (fetch->action == ACTION_BEGIN_AND_END) {
		count_duration(fetch->function, 0);
	} else {
		u64 *hits = map_lookup(counts, &place);
		if (hits)
			__atomic_fetch_add(hits, 1, __ATOMIC_RELAXED);
	}
}

static __always_inline void fill_hit(struct event_hit *event, u64 thread, u32 place, const struct fetch *fetch,
				     u64 stack)
{
	fill_header(&event->header, EVENT_HIT, (u32)thread, 0);
	event->pid = thread >> 32;
	event->place = place;
	event->stack = stack;
	event->task = 0;
	event->failed = 0;
	event->dropped = dropped_hits();
	event->data_bytes = fetch->data_bytes;
	event->stack_at = 0;
}

static __always_inline void copy_registers(u64 *registers, const struct pt_regs *ctx)
{
	registers[0] = ctx->r15;
	registers[1] = ctx->r14;
	registers[2] = ctx->r13;
	registers[3] = ctx->r12;
	registers[4] = ctx->bp;
	registers[5] = ctx->bx;
	registers[6] = ctx->r11;
	registers[7] = ctx->r10;
	registers[8] = ctx->r9;
	registers[9] = ctx->r8;
	registers[10] = ctx->ax;
	registers[11] = ctx->cx;
	registers[12] = ctx->dx;
	registers[13] = ctx->si;
	registers[14] = ctx->di;
	registers[15] = ctx->orig_ax;
	registers[16] = ctx->ip;
	registers[17] = ctx->cs;
	registers[18] = ctx->flags;
	registers[19] = ctx->sp;
	registers[20] = ctx->ss;
}

/* Copy the stack as far as it is mapped: 16 bytes of it may be missing at its end. */
SEPARATE void copy_stack(struct event_stack *stack, const struct pt_regs *ctx)
{
	stack->registers[0] = ctx->ax;
	stack->registers[1] = ctx->dx;
	stack->registers[2] = ctx->cx;
	stack->registers[3] = ctx->bx;
	stack->registers[4] = ctx->si;
	stack->registers[5] = ctx->di;
	stack->registers[6] = ctx->bp;
	stack->registers[7] = ctx->sp;
	stack->registers[8] = ctx->r8;
	stack->registers[9] = ctx->r9;
	stack->registers[10] = ctx->r10;
	stack->registers[11] = ctx->r11;
	stack->registers[12] = ctx->r12;
	stack->registers[13] = ctx->r13;
	stack->registers[14] = ctx->r14;
	stack->registers[15] = ctx->r15;
	stack->registers[16] = ctx->ip;
	u64 at = 0;
	if (!bpf_probe_read_user(stack->bytes, STACK_BYTES, (const void *)ctx->sp)) {
		stack->captured = STACK_BYTES;
		return;
	}
	for (u64 size = STACK_BYTES / 2; size >= 16; size /= 2) {
		/* The verifier of 6.1 does not follow the bits of a sum; those of the sizes before are the only ones. */
		u64 next = at & (STACK_BYTES - 2 * size);
		long error = bpf_probe_read_user(stack->bytes + next, size, (const void *)(ctx->sp + next));
		/* By a mask, so that the verifier need not look at each sum of sizes by itself. */
		u64 copied = error >> 63;
		asm volatile("" : "+r"(copied));
		at += ~copied & size;
		asm volatile("" : "+r"(at));
	}
	stack->captured = at;
}

static __always_inline void add_stack(struct event_hit *event, struct event_stack *stack, const struct pt_regs *ctx,
				      u32 at)
{
	event->stack_at = at;
	copy_stack(stack, ctx);
}

/* Count a hit in the kernel, or return whether it is to be reported. */
SEPARATE int is_reported(const struct fetch *fetch, const struct event_hit *event)
{
	struct rate *rate = get_rate();
	if (fetch->action != ACTION_REPORT) {
		tally(fetch, event->place, event->pid, event->stack, event->header.time_ns);
		return 0;
	}
	if (!rate || !rate->most || __atomic_fetch_add(&rate->hits, 1, __ATOMIC_RELAXED) < rate->most)
		return 1;
	count_dropped(COUNTER_LIMITED_HITS);
	return 0;
}

/* User memory that could not be read. */
struct missing {
	u64 address;
	u64 size;
};

/* Let the kernel map the pages of memory that was never used; 0: it could. An item has at most two. */
static __always_inline long map_missing(const struct missing *missing)
{
	u8 byte;
	long result = bpf_copy_from_user(&byte, 1, (const void *)missing->address);
	bpf_copy_from_user(&byte, 1, (const void *)(missing->address + missing->size - 1));
	return result;
}

/* How often a hit is tried again after memory that was missing was mapped. */
#define MOST_RETRIES 3

/* The size of a record has to be constant.  A step is a subprogram, so
 * that the verifier looks at it once and not in each turn of the loop.
 *
 * Of the two programs for each size, the second one can wait until memory is mapped. It has no tail call that keeps its stack
 * where it is (see stack.bpf.h): such programs must not have one. Its stack is so small that the kernel does not move it. */
#define HIT_PROGRAMS(name, capacity, fields, complete)                                                    \
	struct hit_##name {                                                                               \
		struct event_hit event;                                                                   \
		u8 data[capacity];                                                                        \
		struct machine machine;                                                                   \
		fields                                                                                    \
	};                                                                                                \
	SUBPROGRAM long copy_part_##name(struct hit_##name *hit, u64 kind, u64 at, u64 size, u64 address) \
	{                                                                                                 \
		return hit ? copy_part(kind, hit->data, capacity, at, size, address) : -1;                \
	}                                                                                                 \
	SEPARATE long copy_item_##name(void *hit, const struct step *step, u64 size, u64 address)         \
	{                                                                                                 \
		return copy_item(hit, (part_copier *)copy_part_##name, capacity, step, size, address);    \
	}                                                                                                 \
	SUBPROGRAM int run_step_##name(struct hit_##name *hit, u64 encoded)                               \
	{                                                                                                 \
		if (!hit)                                                                                 \
			return STEP_FINISH;                                                               \
		const struct step *step = (const struct step *)&encoded;                                  \
		return run_step(step, &hit->event, hit->data, &hit->machine, capacity, copy_item_##name); \
	}                                                                                                 \
	/* Report or count a hit. If memory is missing: only fill in which, unless `missing` is 0. */     \
	SEPARATE void handle_hit_##name(struct pt_regs *ctx, u64 thread, struct missing *missing)         \
	{                                                                                                 \
		u32 place = ATTACH_COOKIE(ctx);                                                           \
		const struct fetch *fetch = map_lookup(fetches, &place);                                  \
		if (!fetch || is_limited())                                                               \
			return;                                                                           \
		struct hit_##name *hit = ring_reserve(events, sizeof(*hit));                              \
		if (!hit) {                                                                               \
			count_dropped(COUNTER_LOST_HITS);                                                 \
			return;                                                                           \
		}                                                                                         \
		for (u32 at = 0; at < capacity; at += 8)                                                  \
			*(u64 *)(hit->data + at) = 0;                                                     \
		fill_hit(&hit->event, thread, place, fetch, ctx->sp);                                     \
		hit->machine.depth = 0;                                                                   \
		hit->machine.is_failed = 0;                                                               \
		hit->machine.missing = 0;                                                                 \
		copy_registers(hit->machine.registers, ctx);                                              \
		int outcome = STEP_CONTINUE;                                                              \
		for (u32 i = 0; i < MOST_STEPS && outcome == STEP_CONTINUE; i++)                          \
			outcome = run_step_##name(hit, *(const u64 *)&fetch->steps[i]);                   \
		if (missing && hit->machine.missing) {                                                    \
			missing->address = hit->machine.missing;                                          \
			missing->size = hit->machine.missing_bytes;                                       \
		} else if (outcome != STEP_DROP && is_reported(fetch, &hit->event)) {                     \
			complete;                                                                         \
			ring_submit(events, hit);                                                         \
			return;                                                                           \
		}                                                                                         \
		bpf_ringbuf_discard(hit, 0);                                                              \
	}                                                                                                 \
	SEC("uprobe")                                                                                     \
	int function_hit_##name(struct pt_regs *ctx)                                                      \
	{                                                                                                 \
		keep_thread_stack(ctx);                                                                   \
		u64 thread = hitting_thread();                                                            \
		if (thread)                                                                               \
			handle_hit_##name(ctx, thread, 0);                                                \
		return 0;                                                                                 \
	}                                                                                                 \
	SEC("uprobe.s")                                                                                   \
	int function_wait_##name(struct pt_regs *ctx)                                                     \
	{                                                                                                 \
		u64 thread = hitting_thread_by_number();                                                  \
		if (!thread)                                                                              \
			return 0;                                                                         \
		for (int i = 0; i < MOST_RETRIES; i++) {                                                  \
			struct missing missing = {};                                                      \
			handle_hit_##name(ctx, thread, &missing);                                         \
			if (!missing.address)                                                             \
				return 0;                                                                 \
			if (map_missing(&missing))                                                        \
				break;                                                                    \
		}                                                                                         \
		handle_hit_##name(ctx, thread, 0);                                                        \
		return 0;                                                                                 \
	}

HIT_PROGRAMS(64, 64, , )
HIT_PROGRAMS(192, 192, , )
HIT_PROGRAMS(384, 384, , )
HIT_PROGRAMS(1024, 1024, , )
HIT_PROGRAMS(4096, 4096, , )

/* The same with the stack of the thread. */
#define WITH_STACK(capacity)                                               \
	HIT_PROGRAMS(stack_##capacity, capacity, struct event_stack stack; \
		     ,                                                     \
		     add_stack(&hit->event, &hit->stack, ctx, __builtin_offsetof(struct hit_stack_##capacity, stack)))

WITH_STACK(256)
WITH_STACK(4096)

/* Counts hits of a place without any step. */
SEC("uprobe")
int function_count(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	u64 now = bpf_ktime_get_ns();
	u32 place = ATTACH_COOKIE(ctx);
	const struct fetch *fetch = map_lookup(fetches, &place);
	u64 thread = hitting_thread();
	if (fetch && thread)
		tally(fetch, place, thread >> 32, ctx->sp, now);
	return 0;
}
