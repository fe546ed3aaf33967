/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * How handshakes end in GnuTLS. Its reads and writes are in calls.bpf.h.
 */
#pragma once

#include "calls.bpf.h"
#include "stack.bpf.h"

/* _gnutls_x509_cert_verify_peers(session, data, elements, unsigned *status), which all public functions call */
SEC("uprobe")
int gnutls_verify_enter(struct pt_regs *ctx)
{
	return enter_call(ctx, DIRECTION_NONE, PT_REGS_PARM4(ctx), CUT_NONE);
}

SEC("uprobe")
int gnutls_verify_return(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	struct call call;
	struct outcome outcome;
	if (!get_outcome(ctx, &outcome) || !leave_call(outcome.stack, &call))
		return 0;
	struct thread *thread = get_thread();
	if (!thread)
		return 0;
	end_call(thread, &call);
	struct connection_key key = {.object = call.object, .pid = thread->pid};
	struct connection *connection = map_lookup(connections, &key);
	u32 status = read_u32(call.count);
	if (connection && is_entry_of(connection, &key))
		connection->verified = status;
	return 0;
}
