/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * TLS calls that have begun and not ended. A call is found again by its process and its stack pointer: threads may
 * have many open calls at once (coroutines that switch inside of a call), and end those of others.
 */
#pragma once

#include "entries.bpf.h"
#include "unknown.bpf.h"
#include "user_registers.bpf.h"

/* USER_CS of x86-64, arch/x86/include/asm/segment.h: the task entered the kernel from 64-bit user code. */
#define USER_CODE_SEGMENT 0x33

/* The task's user stack pointer as it was when it entered the kernel; 0: unknown, or there is none. */
static __always_inline u64 user_stack(void)
{
	u16 segment = 0;
	u64 stack = 0;
	read_user_stack(&segment, &stack);
	return segment == USER_CODE_SEGMENT ? stack : 0;
}

/* Remember a new block in place of the oldest, which stays in the table until it is the least recently used. */
static __always_inline void remember_block(struct thread *thread, u64 block)
{
	thread->blocks[thread->next_block++ & (THREAD_BLOCKS - 1)] = block;
}

/* Delete the blocks of a thread that ends. */
static __always_inline void forget_blocks(const struct thread *thread, u64 tgid)
{
	for (int i = 0; i < THREAD_BLOCKS; i++) {
		struct call_block_key key = {.block = thread->blocks[i], .tgid = tgid};
		if (key.block)
			map_delete(call_blocks, &key);
	}
}

static __always_inline struct call_block_key block_of(u64 stack)
{
	struct call_block_key key = {
	    .block = stack >> BLOCK_BITS,
	    .tgid = bpf_get_current_pid_tgid() >> 32,
	};
	return key;
}

static __always_inline struct call_block *find_block(u64 stack)
{
	struct call_block_key key = block_of(stack);
	return map_lookup(call_blocks, &key);
}

static __always_inline struct call_block *get_block(struct thread *thread, u64 stack)
{
	struct call_block_key key = block_of(stack);
	struct call_block *block = map_lookup(call_blocks, &key);
	if (block)
		return block;
	u32 zero = 0;
	const struct call_block *blank = map_lookup(blank_blocks, &zero);
	if (!blank)
		return 0;
	map_update(call_blocks, &key, blank);
	remember_block(thread, key.block);
	return map_lookup(call_blocks, &key);
}

/* Return the slot for a call that begins; 0: there is no room, which is counted. An open call with the same stack pointer
 * never returned (longjmp, a coroutine that was dropped): the new call replaces it. */
static __always_inline struct call *open_call(struct thread *thread, u64 stack)
{
	struct call_block *block = get_block(thread, stack);
	int slot = -1;
	if (block) {
		for (int i = BLOCK_CALLS - 1; i >= 0; i--)
			if (!block->calls[i].stack)
				slot = i;
		for (int i = 0; i < BLOCK_CALLS; i++)
			if (block->calls[i].stack == stack)
				slot = i;
	}
	if (slot < 0) {
		count(COUNTER_UNTRACKED_CALLS, 1);
		return 0;
	}
	struct call *call = &block->calls[slot & (BLOCK_CALLS - 1)];
	call->is_replaced = call->stack != 0;
	call->stack = stack;
	u64 id = bpf_get_current_pid_tgid();
	call->tid = id;
	call->tgid = id >> 32;
	call->received = thread->received;
	call->socket = 0;
	call->received_bytes = 0;
	call->has_no_io = 0;
	return call;
}

static __always_inline int take_call(struct call_block *block, u64 stack, struct call *call)
{
	for (int i = 0; block && i < BLOCK_CALLS; i++) {
		struct call *open = &block->calls[i];
		u64 entry = open->stack;
		if (!entry || (entry != stack && entry != stack - 8))
			continue;
		*call = *open;
		if (!is_call_at(open, entry))
			continue;
		open->stack = 0;
		return 1;
	}
	return 0;
}

/* Move the call that ends out of its slot into `call`; 0 where its entry was not seen. The stack pointer is that of the
 * entry, or, in a return probe, 8 above it: the return address is gone by then. */
static __always_inline int leave_call(u64 stack, struct call *call)
{
	if (take_call(find_block(stack - 8), stack, call))
		return 1;
	return !(stack & ((1 << BLOCK_BITS) - 1)) && take_call(find_block(stack), stack, call);
}

/* Find the open call around `stack`: the nearest one above it, because stacks grow down and those of coroutines do not
 * overlap. A call more than a block away does not count: another coroutine's stack may be between. Returns how many
 * open calls are found above `stack`, which may be those of one block only, unless the thread has several; 0: there is
 * none, and `innermost` is 0. Which slot it is, and how many there are, is unknown to the verifier: else it would follow each
 * combination to the end of the program. */
static __always_inline u64 enclosing_calls(const struct thread *thread, u64 stack, struct call **innermost)
{
	struct call_block *nearest = 0;
	u64 calls = 0, slot = 0, least = ~0ULL;
	for (u64 offset = 0; offset < 2; offset++) {
		struct call_block *block = find_block(stack + (offset << BLOCK_BITS));
		for (int i = 0; block && i < BLOCK_CALLS; i++) {
			const struct call *open = &block->calls[i];
			u64 entry = open->stack;
			if (entry <= stack || open->has_no_io)
				continue;
			calls++;
			if (entry >= least)
				continue;
			nearest = block;
			least = entry;
			slot = i;
		}
		if (nearest && thread->open_calls < 2)
			break;
	}
	slot = unknown(slot);
	*innermost = nearest ? &nearest->calls[slot & (BLOCK_CALLS - 1)] : 0;
	return nearest ? unknown(calls) : 0;
}
