/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * How handshakes fail in BoringSSL and AWS-LC. Their reads, writes and ends are OpenSSL's.
 */
#pragma once

#include "alerts.bpf.h"

/* include/openssl/err.h and ssl.h */
#define ERR_LIB_SSL 16
#define SSL_AD_REASON_OFFSET 1000 /* the reason of a received alert: its number is added */

/* SSL_do_handshake(object), by which each handshake goes on */
SEC("uprobe")
int boringssl_handshake_enter(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	struct thread *thread = get_thread();
	if (thread)
		thread->handshake = PT_REGS_PARM1(ctx);
	return 0;
}

/* A handshake that returns without success, and has raised an error, has failed: the queue of errors was empty at its entry
 * (ssl_reset_error_state), and SSL_get_error looks at it. */
SEC("uprobe")
int boringssl_handshake_return(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	struct outcome outcome;
	struct thread *thread = get_outcome(ctx, &outcome) ? get_thread() : 0;
	if (!thread)
		return 0;
	struct connection_key key = {.object = thread->handshake, .pid = thread->pid};
	struct connection *connection = map_lookup(connections, &key);
	thread->handshake = 0;
	if (!connection || !connection->verified)
		return 0;
	if ((s32)outcome.value <= 0)
		report_failure(key.object, layout_index(ctx), -1, 0);
	else if (is_entry_of(connection, &key))
		connection->verified = 0;
	return 0;
}

/* ERR_put_error(library, unused, reason, file, line): keep the first reason until the handshake returns, or sends an alert. */
SEC("uprobe")
int boringssl_error_enter(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	const struct thread *thread = (u32)PT_REGS_PARM1(ctx) == ERR_LIB_SSL ? get_thread() : 0;
	if (!thread || !thread->handshake)
		return 0;
	struct connection_key key = {.object = thread->handshake, .pid = thread->pid};
	struct connection *connection = map_lookup(connections, &key);
	u32 reason = PT_REGS_PARM3(ctx);
	if (connection && !connection->verified && is_entry_of(connection, &key))
		connection->verified = reason;
	return 0;
}

/* ssl_process_alert(object, alert to send, bytes, size) */
SEC("uprobe")
int boringssl_received_enter(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	return report_received(ctx, PT_REGS_PARM3(ctx), PT_REGS_PARM4(ctx), SSL_AD_REASON_OFFSET);
}

/* (object, level, number): an alert is sent. Like c_alert_enter: so no program of other libraries is loaded for BoringSSL. */
SEC("uprobe")
int boringssl_alert_enter(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	return report_sent(ctx);
}
