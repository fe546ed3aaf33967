/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The user's registers as they were when the task entered the kernel. Each reader reads only what it needs: the verifier of
 * Linux 5.10 follows every path to here, and has little room on the stack.
 */
#pragma once

#include "maps.bpf.h"

/* Where they are without help of the kernel: at the top of the task's kernel stack (arch/x86/include/asm/processor.h,
 * task_pt_regs); 0: unknown. */
static __always_inline const struct pt_regs *saved_registers(void)
{
	const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();
	void *bottom = 0;
	bpf_probe_read_kernel(&bottom, sizeof(bottom), &task->stack);
	return bottom ? (const struct pt_regs *)(bottom + KERNEL_STACK_BYTES) - 1 : 0;
}

/* Read the registers that tell where the user's stack is. */
static __always_inline void read_user_stack(u16 *segment, u64 *stack)
{
	if (HAS_KNOWN_REGISTERS()) {
		const struct pt_regs *known = KNOWN_REGISTERS();
		*segment = *(const u16 *)&known->cs;
		*stack = known->sp;
		return;
	}
	const struct pt_regs *saved = saved_registers();
	if (!saved)
		return;
	bpf_probe_read_kernel(segment, sizeof(*segment), &saved->cs);
	bpf_probe_read_kernel(stack, sizeof(*stack), &saved->sp);
}

/* The system call that the task is in. */
struct syscall_arguments {
	u64 number;
	u64 second;
	u16 segment;
};

/* `segment` stays 0 where it is unknown. */
static __always_inline void read_syscall(struct syscall_arguments *call)
{
	if (HAS_KNOWN_REGISTERS()) {
		const struct pt_regs *known = KNOWN_REGISTERS();
		call->segment = *(const u16 *)&known->cs;
		call->number = known->orig_ax;
		call->second = known->si;
		return;
	}
	const struct pt_regs *saved = saved_registers();
	if (!saved)
		return;
	bpf_probe_read_kernel(&call->segment, sizeof(call->segment), &saved->cs);
	bpf_probe_read_kernel(&call->number, sizeof(call->number), &saved->orig_ax);
	bpf_probe_read_kernel(&call->second, sizeof(call->second), &saved->si);
}
