/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Keeps the stack of a BPF program where the kernel cannot overwrite it.
 */
#pragma once

#include "kernel.h"

MAP_PROGRAMS(no_programs);

/* The first statement of every uprobe program. Since 6.13 kernels move a large stack of a probe's program away from the
 * thread's, to one for each CPU ("private stack": kernel/bpf/verifier.c, bpf_enable_priv_stack). A uprobe's program can
 * be preempted, and the next one on this CPU then overwrites that stack: calls are missed, or the kernel panics.
 * Programs with a tail call keep the thread's stack. This tail call is never reached: the verifier finds that out and
 * removes it, but the compiler cannot know. */
static __always_inline void keep_thread_stack(struct pt_regs *ctx)
{
	u64 never = 0;
	asm volatile("" : "+r"(never));
	if (never)
		tail_call(ctx, no_programs);
}
