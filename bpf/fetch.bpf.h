/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Interprets fetch programs: what a probe of `sslsniff trace` reads within its hit. sslsniff/fetching/fetch_steps.py
 * says what each step does.
 *
 * The state of the interpreter lies in the record of the ring buffer. The verifier does not follow values there, so all
 * states of a turn of the loop look alike to it. The stack of a BPF program is too small, and a buffer for each CPU would
 * be overwritten: a uprobe's program can be preempted.
 */
#pragma once

#include "tasks.bpf.h"

#define MOST_STEPS 128
#define MOST_DATA_BYTES 4096
#define PART_BYTES 256 /* what is copied at once */
/* Values on the stack; a power of two. */
#define MOST_DEPTH 8
#define REGISTERS 21 /* of struct pt_regs */

enum step_kind {
	STEP_END,
	STEP_REGISTER,
	STEP_CONSTANT,
	STEP_HIGH_HALF,
	STEP_THREAD_POINTER,
	STEP_LOAD,
	STEP_PICK,
	STEP_SWAP,
	STEP_POP,
	STEP_ADD_CONSTANT,
	STEP_READ,
	STEP_ADD, /* the first that pops two values and pushes one */
	STEP_SUBTRACT,
	STEP_MULTIPLY,
	STEP_DIVIDE,
	STEP_AND,
	STEP_OR,
	STEP_XOR,
	STEP_SHIFT_LEFT,
	STEP_SHIFT_RIGHT,
	STEP_SHIFT_RIGHT_SIGNED,
	STEP_EQUAL,
	STEP_NOT_EQUAL,
	STEP_LESS,
	STEP_LESS_OR_EQUAL,
	STEP_LESS_SIGNED,
	STEP_LESS_OR_EQUAL_SIGNED, /* the last one */
	STEP_NEGATE,
	STEP_COMPLEMENT,
	STEP_STORE,
	STEP_COPY,
	STEP_COPY_SIZED,
	STEP_COPY_TEXT,
	STEP_KEEP_IF,
	STEP_TASK,
	STEP_STACK,
};

struct step {
	u8 kind; /* enum step_kind */
	u8 item;
	u16 offset;
	s32 value;
};

/* A place that is probed; its index is the cookie of the probe. */
struct fetch {
	u32 data_bytes; /* that the steps write */
	u32 action;	/* enum action */
	u32 function;	/* index of its histogram */
	u32 pad;
	struct step steps[MOST_STEPS]; /* up to the first STEP_END */
};

/* What a hit does, if its condition holds. */
enum action {
	ACTION_REPORT,
	ACTION_COUNT,
	ACTION_BEGIN, /* of a call whose time counts for a histogram */
	ACTION_END,
	ACTION_BEGIN_AND_END, /* the first instruction of the function is its return */
};

MAP_ARRAY(fetches, struct fetch, 1); /* user space sets how many before it loads */

struct machine {
	u64 registers[REGISTERS];
	u64 values[MOST_DEPTH];
	u64 depth;     /* how many of `values` are used; only its lowest bits count */
	u64 is_failed; /* a read for the current item failed */
	u64 missing;   /* address of the first read that failed; 0: none did */
	u64 missing_bytes;
};

_Static_assert(sizeof(struct machine) >= PART_BYTES, "room for the verifier, see copy_part()");

/* A function of its own, so that the stack of each is small; see HIT_PROGRAMS. */
#define SEPARATE static __attribute__((noinline))

/* An index that the verifier knows to be in the array. */
#define TOP(machine, below) (machine)->values[((machine)->depth - 1 - (below)) & (MOST_DEPTH - 1)]

static __always_inline u64 divide_signed(u64 first, u64 second)
{
	u64 quotient;
	if (!second)
		return 0;
	quotient = ((__s64)first < 0 ? -first : first) / ((__s64)second < 0 ? -second : second);
	return (__s64)(first ^ second) < 0 ? -quotient : quotient;
}

static __always_inline u64 combine(u32 kind, u64 first, u64 second)
{
	switch (kind) {
	case STEP_ADD:
		return first + second;
	case STEP_SUBTRACT:
		return first - second;
	case STEP_MULTIPLY:
		return first * second;
	case STEP_DIVIDE:
		return divide_signed(first, second);
	case STEP_AND:
		return first & second;
	case STEP_OR:
		return first | second;
	case STEP_XOR:
		return first ^ second;
	case STEP_SHIFT_LEFT:
		return second > 63 ? 0 : first << (second & 63);
	case STEP_SHIFT_RIGHT:
		return second > 63 ? 0 : first >> (second & 63);
	case STEP_SHIFT_RIGHT_SIGNED:
		return (__s64)first >> (second > 63 ? 63 : second & 63);
	case STEP_EQUAL:
		return first == second;
	case STEP_NOT_EQUAL:
		return first != second;
	case STEP_LESS:
		return first < second;
	case STEP_LESS_OR_EQUAL:
		return first <= second;
	case STEP_LESS_SIGNED:
		return (__s64)first < (__s64)second;
	default:
		return (__s64)first <= (__s64)second;
	}
}

/* Note that `size` bytes at an address could not be read, unless it is null, with or without an offset. */
#define FIRST_ADDRESS 65536 /* vm.mmap_min_addr */
static __always_inline void note_missing(struct machine *machine, u64 address, u64 size)
{
	if (machine->missing || address < FIRST_ADDRESS)
		return;
	machine->missing = address;
	machine->missing_bytes = size;
}

/* Copy at most PART_BYTES to offset `at`: `size` bytes, or a text. Returns how many, fewer if a text ended, or a negative
 * number. For the verifier `data` has PART_BYTES more than `capacity`: it does not know how an offset and a size depend on
 * each other. */
static __always_inline long copy_part(u32 kind, u8 *data, u64 capacity, u64 at, u64 size, u64 address)
{
	/* Keep them unsigned in registers, so that the verifier uses these comparisons. */
	asm volatile("" : "+r"(at));
	asm volatile("" : "+r"(size));
	if (at >= capacity || !size)
		return -1;
	/* The compiler would compare `size - 1` alone, from which the verifier of 6.1 learns nothing about `size`. */
	asm volatile("" : "+r"(size));
	if (size > PART_BYTES)
		return -1;
	if (kind != STEP_COPY_TEXT)
		return bpf_probe_read_user(data + at, size, (const void *)address) ? -1 : (long)size;
	long copied = bpf_probe_read_user_str(data + at, size, (const void *)address);
	if (copied < 0 || (u64)copied != size)
		return copied;
	/* The helper ends a longer text by a zero byte, too. */
	u64 last_at = size - 1;
	asm volatile("" : "+r"(last_at));
	u8 *last = data + at + (last_at & (PART_BYTES - 1)); /* that verifier does not know that `size` is not 0 */
	if (bpf_probe_read_user(last, 1, (const void *)(address + size - 1)))
		return -1;
	return *last ? (long)size : (long)size - 1;
}

/* Fill PART_BYTES at most with zero bytes. */
static __always_inline void clear_part(u8 *data, u64 capacity, u64 at, u64 size)
{
	asm volatile("" : "+r"(at));
	asm volatile("" : "+r"(size));
	if (at < capacity && size <= PART_BYTES)
		bpf_probe_read_kernel(data + at, size, 0); /* fails, and clears what it did not fill */
}

/* Copies a part of an item as copy_part() does: for one size of records, in a subprogram that the verifier looks at once. */
typedef long part_copier(void *hit, u64 kind, u64 at, u64 size, u64 address);

/* Copy the bytes of an item to its place; returns a negative number if they could not be read. */
static __always_inline long copy_item(void *hit, part_copier *copy, u64 capacity, const struct step *step, u64 size,
				      u64 address)
{
	u64 at = step->offset, end = at + size;
	if (end > capacity)
		return -1;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i <= capacity / PART_BYTES && at < end; i++) {
		u64 part = end - at < PART_BYTES ? end - at : PART_BYTES;
		long copied = copy(hit, step->kind, at, part, address);
		if (copied < 0)
			return copied;
		if ((u64)copied < part)
			break;
		at += part;
		address += part;
	}
	return 0;
}

/* Copies an item: copy_item() for one size of records. */
typedef long item_copier(void *hit, const struct step *step, u64 size, u64 address);

/* Clear the bytes of an item, of which some may have been read. */
SEPARATE void clear_item(u8 *data, u64 capacity, const struct step *step, u64 size)
{
	u64 at = step->offset, end = at + size;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i <= capacity / PART_BYTES && at < end && end <= capacity; i++) {
		clear_part(data, capacity, at, end - at < PART_BYTES ? end - at : PART_BYTES);
		at += PART_BYTES;
	}
}

/* End the item of a step: write its bytes, or set its bit in `failed`. */
static __always_inline void end_item(struct event_hit *event, u8 *data, struct machine *machine, u64 capacity,
				     const struct step *step, item_copier *copy)
{
	u32 kind = step->kind;
	u64 at = step->offset, size = (u32)step->value, value = TOP(machine, 0);
	long result = machine->is_failed ? -1 : 0;
	if (!result && kind == STEP_STORE) {
		asm volatile("" : "+r"(at));
		if (at <= capacity - sizeof(value))
			*(u64 *)(data + at) = value;
		else
			result = -1;
	} else if (!result) {
		if (kind == STEP_COPY_SIZED) {
			size = value < size ? value : size;
			value = TOP(machine, 1);
		}
		result = copy(event, step, size, value);
		if (result < 0) {
			clear_item(data, capacity, step, size);
			note_missing(machine, value, size);
		}
	}
	if (result < 0)
		event->failed |= 1ULL << (step->item & 63);
	machine->depth = 0;
	machine->is_failed = 0;
}

static __always_inline void push(struct machine *machine, u64 value)
{
	machine->values[machine->depth & (MOST_DEPTH - 1)] = value;
	machine->depth++;
}

/* Replace the top by the bytes of user memory at it. */
static __always_inline void read_top(struct machine *machine, const struct step *step)
{
	u64 address = TOP(machine, 0) + (__s64)step->value;
	u64 *value = &TOP(machine, 0);
	u32 size = step->item & 15;
	*value = 0;
	if (size <= sizeof(*value) && !bpf_probe_read_user(value, size, (const void *)address))
		return;
	machine->is_failed = 1;
	note_missing(machine, address, size);
}

/* What follows a step. */
enum outcome_of_step {
	STEP_CONTINUE,
	STEP_FINISH,
	STEP_DROP, /* the condition does not hold: the hit does not count */
};

/* Run a step. `data` is all zero at first. */
static __always_inline int run_step(const struct step *step, struct event_hit *event, u8 *data, struct machine *machine,
				    u64 capacity, item_copier *copy)
{
	u32 kind = step->kind;
	__s64 constant = step->value;
	switch (kind) {
	case STEP_END:
		return STEP_FINISH;
	case STEP_REGISTER: {
		u64 number = constant;
		asm volatile("" : "+r"(number));
		if (number < REGISTERS)
			push(machine, machine->registers[number]);
		break;
	}
	case STEP_CONSTANT:
		push(machine, constant);
		break;
	case STEP_HIGH_HALF:
		TOP(machine, 0) = (u32)TOP(machine, 0) | (u64)constant << 32;
		break;
	case STEP_THREAD_POINTER:
		push(machine, thread_pointer());
		break;
	case STEP_LOAD: {
		u64 at = step->offset;
		asm volatile("" : "+r"(at));
		push(machine, at <= capacity - 8 ? *(u64 *)(data + at) : 0);
		break;
	}
	case STEP_PICK:
		push(machine, TOP(machine, constant));
		break;
	case STEP_SWAP: {
		u64 top = TOP(machine, 0);
		TOP(machine, 0) = TOP(machine, 1);
		TOP(machine, 1) = top;
		break;
	}
	case STEP_POP:
		machine->depth--;
		break;
	case STEP_ADD_CONSTANT:
		TOP(machine, 0) += constant;
		break;
	case STEP_READ:
		read_top(machine, step);
		break;
	case STEP_NEGATE:
		TOP(machine, 0) = -TOP(machine, 0);
		break;
	case STEP_COMPLEMENT:
		TOP(machine, 0) = ~TOP(machine, 0);
		break;
	case STEP_STORE:
	case STEP_COPY:
	case STEP_COPY_SIZED:
	case STEP_COPY_TEXT:
		end_item(event, data, machine, capacity, step, copy);
		break;
	case STEP_KEEP_IF:
		if (machine->is_failed || !TOP(machine, 0))
			return STEP_DROP;
		machine->depth--;
		break;
	case STEP_TASK:
		event->task = machine->is_failed ? 0 : TOP(machine, 0);
		machine->is_failed = 0;
		machine->depth--;
		break;
	case STEP_STACK:
		if (!machine->is_failed)
			event->stack = TOP(machine, 0);
		machine->is_failed = 0;
		machine->depth--;
		break;
	default:
		if (kind > STEP_LESS_OR_EQUAL_SIGNED)
			return STEP_FINISH;
		TOP(machine, 1) = combine(kind, TOP(machine, 1), TOP(machine, 0));
		machine->depth--;
	}
	return STEP_CONTINUE;
}
