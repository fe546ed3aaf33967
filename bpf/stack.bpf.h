/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Where a program's stack is.
 */

MAP_PROGRAMS(no_programs);

/* The first statement of every uprobe program. Since 6.13 kernels move a large stack of a probe's program away from the
 * thread's, to one for each CPU ("private stack": kernel/bpf/verifier.c, bpf_enable_priv_stack). A uprobe's program can
 * be preempted, and the next one on this CPU then writes over it: calls are missed, or the kernel panics. Programs with
 * a tail call keep the thread's stack. This one is never reached: the verifier knows, and takes it out; the compiler is
 * not told. */
static __always_inline void keep_thread_stack(struct pt_regs *ctx)
{
	u64 never = 0;
	asm volatile("" : "+r"(never));
	if (never)
		tail_call(ctx, no_programs);
}
