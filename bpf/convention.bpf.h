/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Where a probe finds the values of a call: data, which sslsniff/machine_code/conventions.py packs into the attach cookie above the
 * index of the layout. 0: as the calling convention has it. Kernels without cookies always have 0, and the verifier
 * drops what is for others.
 */
#pragma once

#include "maps.bpf.h"

#define LAYOUT_BITS 10

_Static_assert(MOST_LAYOUTS == 1 << LAYOUT_BITS, "an index of a layout has so many bits");

/* This bit distinguishes a number from a missing one. */
#define GIVEN 16

enum result_place {
	RESULT_USUAL, /* where the calling convention has it */
	RESULT_IN_REGISTER,
	RESULT_ON_STACK,
	RESULT_NOWHERE, /* the call fails */
};

static __always_inline u32 layout_index(void *ctx)
{
	return ATTACH_COOKIE(ctx) & ((1 << LAYOUT_BITS) - 1);
}

static __always_inline u64 convention(void *ctx)
{
	return (u64)ATTACH_COOKIE(ctx) >> LAYOUT_BITS;
}

/* Return the lowest bits of a convention, and shift them out. */
static __always_inline u32 take_bits(u64 *convention, u32 bits)
{
	u32 value = *convention & ((1 << bits) - 1);
	*convention >>= bits;
	return value;
}

/* The stack pointer at the call's entry: it identifies the call. A convention's first bits say how far below it stands. */
static __always_inline u64 entry_stack(struct pt_regs *ctx, u64 *convention)
{
	return PT_REGS_SP(ctx) + 8 * take_bits(convention, 12);
}

/* Load a register where its number is known, so that the compiler keeps the loads apart: the verifier wants to know the
 * offset of each. A helper that reads at any offset takes 0.1 us. */
#define REGISTER(number, field)                               \
	case number:                                          \
		value = ctx->field;                           \
		asm volatile("" : "+r"(value) : "i"(number)); \
		break

/* A register by its number in struct pt_regs. */
static __always_inline u64 register_value(const struct pt_regs *ctx, u32 number)
{
	u64 value = 0;
	switch (number) {
		REGISTER(0, r15);
		REGISTER(1, r14);
		REGISTER(2, r13);
		REGISTER(3, r12);
		REGISTER(4, bp);
		REGISTER(5, bx);
		REGISTER(6, r11);
		REGISTER(7, r10);
		REGISTER(8, r9);
		REGISTER(9, r8);
		REGISTER(10, ax);
		REGISTER(11, cx);
		REGISTER(12, dx);
		REGISTER(13, si);
		REGISTER(14, di);
	}
	return value;
}

/* Whether a condition of x86 holds: the number that jumps and others have in their encoding. */
static __always_inline int holds(u32 condition, u64 flags)
{
	u32 carry = flags & 1, parity = flags >> 2 & 1, zero = flags >> 6 & 1, sign = flags >> 7 & 1;
	u32 overflow = flags >> 11 & 1;
	u32 is_less = sign ^ overflow;
	u32 all = overflow | carry << 1 | zero << 2 | (carry | zero) << 3 | sign << 4 | parity << 5 | is_less << 6 |
		  (is_less | zero) << 7;
	return (all >> (condition >> 1 & 7) & 1) != (condition & 1);
}

/* A value that a convention says the place of: a register, or the stack so many words above its pointer. */
#define PLACE_ON_STACK 1024
#define PLACE_BITS 11
static __always_inline u64 take_value(const struct pt_regs *ctx, u64 *convention)
{
	u32 place = take_bits(convention, PLACE_BITS);
	u64 value = 0;
	if (!(place & PLACE_ON_STACK))
		return register_value(ctx, place);
	bpf_probe_read_user(&value, sizeof(value),
			    (const void *)(PT_REGS_SP(ctx) + 8 * (place & (PLACE_ON_STACK - 1))));
	return value;
}

/* Whether the probe counts here: a convention may begin with the condition of a jump, under which it does. */
static __always_inline int counts_here(const struct pt_regs *ctx, u64 *convention)
{
	u32 condition = take_bits(convention, 5);
	return !(condition & GIVEN) || holds(condition & (GIVEN - 1), PT_REGS_FLAGS(ctx));
}

/* How a call ended. */
struct outcome {
	u64 stack; /* the stack pointer at its entry */
	u64 value; /* what it returns: a pointer, or in the low half an int */
};

/* Fill in how a call ends at this probe; 0: the call does not end here. */
static __always_inline int get_outcome(struct pt_regs *ctx, struct outcome *outcome)
{
	u64 rest = convention(ctx);
	outcome->stack = entry_stack(ctx, &rest);
	outcome->value = 0;
	if (!counts_here(ctx, &rest))
		return 0;
	u32 place = take_bits(&rest, 2);
	u32 number = take_bits(&rest, 4);
	if (place == RESULT_USUAL)
		outcome->value = PT_REGS_RC(ctx);
	else if (place == RESULT_IN_REGISTER)
		outcome->value = register_value(ctx, number);
	else if (place == RESULT_ON_STACK)
		bpf_probe_read_user(&outcome->value, sizeof(outcome->value),
				    (const void *)(outcome->stack - 4 * take_bits(&rest, 12)));
	else
		outcome->value = -1;
	return 1;
}
