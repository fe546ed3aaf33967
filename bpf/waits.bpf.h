/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Whether a thread waited inside of a TLS read for its bytes. Then it is no event loop: that would stand still until the peer
 * sends. Only `--tree` asks for it.
 *
 * The first receive inside of the read counts. It waited if its socket blocks, and if the thread gave up the CPU of its own
 * accord since the read began. Kernels before 6.3 do not say whether a receive blocks (sock_recv_length, as args[2]).
 */
#pragma once

#include "process.bpf.h"

#define MSG_DONTWAIT 0x40 /* include/linux/socket.h; the kernel sets it where the file has O_NONBLOCK (net/socket.c) */

/* Of a call of the thread, in the highest byte of event_data.task. */
#define WAITS_SHIFT 56
enum waits {
	WAITS_RECEIVED = 1, /* a receive returned bytes inside */
	WAITS_BLOCKED = 2,  /* the first one waited for them */
	WAITS_NEVER = 4,    /* one was not allowed to wait */
};

/* How often the current thread gave up the CPU to wait. */
static __always_inline u64 voluntary_switches(void)
{
	const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();
	unsigned long switches = 0;
	bpf_probe_read_kernel(&switches, sizeof(switches), &task->nvcsw);
	return switches;
}

/* A TLS call begins, before it counts as open. Coroutines that run inside of each other's calls cannot be distinguished; and nothing
 * is known where the kernel's types are another one's. */
static __always_inline void begin_waits(struct thread *thread)
{
	const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();
	int is_known = !thread->open_calls && !thread->has_coroutines && types_are_reliable(task);
	thread->waits = is_known ? 0 : WAITS_NEVER;
	thread->switches = voluntary_switches();
}

/* A receive returned bytes: it counts inside of a TLS call. */
static __always_inline void note_wait(u32 flags)
{
	u64 id = bpf_get_current_pid_tgid();
	struct thread *thread = map_lookup(threads, &id);
	if (!thread || !thread->open_calls)
		return;
	if (flags & MSG_DONTWAIT)
		thread->waits |= WAITS_NEVER;
	else if (!thread->waits && thread->switches != voluntary_switches())
		thread->waits |= WAITS_BLOCKED;
	thread->waits |= WAITS_RECEIVED;
}
