/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Alerts that NSS received. Its reads and writes are in calls.bpf.h.
 */
#pragma once

#include "alerts.bpf.h"

#define BUFFER_LENGTH 8 /* of sslBuffer, after the address (lib/ssl/sslencode.h) */

/* ssl3_HandleNonApplicationData(object, type, epoch, number, buffer): a record of the handshake, or an alert */
SEC("uprobe")
int nss_record_enter(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	u64 buffer = PT_REGS_PARM5(ctx);
	if ((u8)PT_REGS_PARM2(ctx) != RECORD_ALERT)
		return 0;
	return report_received(ctx, read_pointer(buffer), read_u32(buffer + BUFFER_LENGTH), 0);
}
