/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The goroutine, or task of an async runtime, that a thread runs. Only captures that show calls beside exchanges set where
 * its number is: sslsniff/fetching/task_location.py.
 */
#pragma once

#include "announce.bpf.h"

/* The base of the segment fs. glibc and Go set it by a system call, so that the kernel knows it. */
static __always_inline u64 thread_pointer(void)
{
	const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();
	u64 base = 0;
	bpf_probe_read_kernel(&base, sizeof(base), &task->thread.fsbase);
	return base;
}

/* Whether an address is that of the current goroutine: struct runtime.g begins with the bounds of its stack. Before Go 1.17,
 * the register has something else. */
static __always_inline int is_goroutine(u64 address, u64 stack_pointer)
{
	u64 bounds[2] = {};
	bpf_probe_read_user(bounds, sizeof(bounds), (const void *)address);
	return bounds[0] < stack_pointer && stack_pointer < bounds[1];
}

/* The number of the task that the caller runs; 0: unknown, or there is none. In code that is not Go's, no register leads to
 * the goroutine. */
static __always_inline u64 served_task(const struct pt_regs *ctx, int is_go)
{
	const struct config *config = get_config();
	u64 value = 0;
	if (!config || !config->task_reads || (config->task_in_register && !is_go))
		return 0;
	value = config->task_in_register ? ctx->r14 : thread_pointer();
	if (config->task_in_register && !is_goroutine(value, ctx->sp))
		return 0;
	value = read_pointer(value + (__s64)config->task_first);
	return config->task_reads > 1 ? read_pointer(value + (__s64)config->task_second) : value;
}
