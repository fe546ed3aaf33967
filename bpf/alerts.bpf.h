/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Functions of several libraries that send an alert, or handle one that was received.
 */
#pragma once

#include "handshake.bpf.h"
#include "stack.bpf.h"

#define ALERT_FATAL 2 /* as GnuTLS, BoringSSL and NSS number it */

/* Report an alert that is sent, by the arguments (object, level, number). */
static __always_inline int report_sent(struct pt_regs *ctx)
{
	const struct thread *thread = (u32)PT_REGS_PARM2(ctx) == ALERT_FATAL ? get_thread() : 0;
	if (thread)
		report_failure(PT_REGS_PARM1(ctx), layout_index(ctx), (u8)PT_REGS_PARM3(ctx), 0);
	return 0;
}

/* (object, level, number): GnuTLS or NSS sends an alert */
SEC("uprobe")
int c_alert_enter(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	return report_sent(ctx);
}

/* Report an alert that was received: so many bytes at `alert`; `base`: what its number is added to. */
static __always_inline int report_received(struct pt_regs *ctx, u64 alert, u64 size, u32 base)
{
	u8 number = size == ALERT_BYTES ? read_alert(alert) : CLOSE_NOTIFY;
	const struct thread *thread = number != CLOSE_NOTIFY ? get_thread() : 0;
	if (thread)
		report_failure(PT_REGS_PARM1(ctx), layout_index(ctx), -1, base + number);
	return 0;
}
