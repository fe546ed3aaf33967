/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * A connection's life in OpenSSL and in libraries with its interface (BoringSSL, LibreSSL). Its
 * reads and writes are in calls.bpf.h; which function gets which program is data:
 * sslsniff/libraries/openssl/plan.py.
 */
#pragma once

#include "stack.bpf.h"
#include "handshake.bpf.h"

/* SSL_new returned an object: a connection that had the same address is over. Only for libraries that do not call
 * SSL_clear before a handshake. */
SEC("uprobe")
int openssl_new_return(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	struct thread *thread = get_thread();
	u64 object = PT_REGS_RC(ctx);
	if (!thread || !object)
		return 0;
	struct connection_key key = {.object = object, .pid = thread->pid};
	close_connection(thread->tid, &key, 0);
	make_connection(&key, 1, HALF_NONE);
	return 0;
}

/* SSL_free only counts down while others hold the object. */
SEC("uprobe")
int openssl_free_enter(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	struct thread *thread = get_thread();
	u64 object = PT_REGS_PARM1(ctx);
	if (!thread || !object)
		return 0;
	u32 index = layout_index(ctx);
	const struct layout *layout = map_lookup(layouts, &index);
	if (layout && layout->references >= 0 && (s32)read_u32(object + layout->references) > 1)
		return 0;
	struct connection_key key = {.object = object, .pid = thread->pid};
	report_unused(ctx, thread, object);
	const struct connection *connection = map_lookup(connections, &key);
	close_connection(thread->tid, &key, connection ? read_closing(connection, object) : 0);
	return 0;
}

/* SSL_clear makes the object ready for another connection. The library also calls it when a first handshake begins
 * (state_machine in ssl/statem/statem.c since 1.1.0, ssl3_connect and ssl3_accept before): so the object has a
 * connection from its start, whether or not it is known yet. */
SEC("uprobe")
int openssl_clear_enter(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	struct thread *thread = get_thread();
	if (!thread)
		return 0;
	struct connection_key key = {.object = PT_REGS_PARM1(ctx), .pid = thread->pid};
	struct connection *connection = map_lookup(connections, &key);
	if (connection && !(connection->positions[DIRECTION_READ] | connection->positions[DIRECTION_WRITE]) &&
	    is_entry_of(connection, &key)) {
		connection->from_start |= !connection->announced;
		return 0;
	}
	close_connection(thread->tid, &key, connection ? read_closing(connection, key.object) : 0);
	make_connection(&key, 1, HALF_NONE);
	return 0;
}

/* SSL_shutdown sets a flag in the object before it sends the close_notify. So the flag is read at the thread's next send.
 * If the call sends nothing (SSL_set_quiet_shutdown, or a second call, which only reads), a later check reads it. */
SEC("uprobe")
int openssl_shutdown_enter(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	struct thread *thread = get_thread();
	if (!thread)
		return 0;
	thread->shut = PT_REGS_PARM1(ctx);
	check_ends(thread, thread->shut, ENDED_UNSURE, ENDED_UNSURE);
	return 0;
}

/* ossl_statem_fatal(object, alert, reason, ...), which is called once when a connection cannot go on. */
SEC("uprobe")
int openssl_fatal_enter(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	const struct thread *thread = get_thread();
	if (thread)
		report_failure(PT_REGS_PARM1(ctx), layout_index(ctx), PT_REGS_PARM2(ctx), PT_REGS_PARM3(ctx));
	return 0;
}

/* The same in 1.1.1: (object, alert, function, reason, file, line) */
SEC("uprobe")
int openssl_fatal_line_enter(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	const struct thread *thread = get_thread();
	if (thread)
		report_failure(PT_REGS_PARM1(ctx), layout_index(ctx), PT_REGS_PARM2(ctx), PT_REGS_PARM4(ctx));
	return 0;
}
