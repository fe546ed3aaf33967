/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Read and write calls of libraries with C's calling convention: arguments at the
 * entry, the result at the return, the plaintext in between. There is one program for each
 * place of the count, and one for all returns, except those of calls with a list of buffers.
 */
#pragma once

#include "addresses.bpf.h"
#include "losses.bpf.h"
#include "stack.bpf.h"
#include "tasks.bpf.h"

/* The direction of a call whose bytes do not count. */
#define DIRECTION_NONE DIRECTIONS

/* A read that returns a packet: the buffer is the address of a pointer to it. The lowest bit is DIRECTION_READ. */
#define DIRECTION_PACKET (DIRECTIONS << 1)

/* Open the call that has this stack pointer at its entry; 0: it is not watched, or there is no room. */
static __always_inline struct call *begin_call(u64 stack)
{
	struct thread *thread = get_thread();
	struct call *call = thread ? open_call(thread, stack) : 0;
	if (notes_waits && call)
		begin_waits(thread);
	if (call && !call->is_replaced)
		thread->open_calls++;
	return call;
}

/* Remember a call's arguments: (object, buffer, ...), and where it will store its count. */
static __always_inline int enter_call(struct pt_regs *ctx, u8 direction, u64 count_pointer, u8 cut)
{
	keep_thread_stack(ctx);
	u64 rest = convention(ctx);
	struct call *call = begin_call(entry_stack(ctx, &rest));
	if (!call)
		return 0;
	call->object = PT_REGS_PARM1(ctx);
	call->buffer = PT_REGS_PARM2(ctx);
	call->count = count_pointer;
	call->direction = direction;
	call->cut = cut;
	return 0;
}

/* Note that a call ended on this thread. */
static __always_inline void end_call(struct thread *thread, const struct call *call)
{
	if (call->tid != (u32)bpf_get_current_pid_tgid())
		thread->has_coroutines = 1;
	else if (thread->open_calls)
		thread->open_calls--;
}

/* Emit the `size` bytes that a call moved: `limit` of them at most, and the reason why the rest is missing. `has_list`: the
 * call's buffer is a list of buffers. */
static __always_inline void pass_data(struct pt_regs *ctx, struct thread *thread, const struct connection_key *key,
				      struct connection *connection, const struct call *call, u64 size, u64 limit,
				      int has_list, int is_go)
{
	u32 direction = call->direction & 1;
	u64 id = connection->id;
	u64 position = connection->positions[direction];
	if (!is_entry_of(connection, key)) {
		lose(CUT_EVICTED, size);
		return;
	}
	connection->positions[direction] = position + size;
	note_data(connection);
	if (direction == DIRECTION_READ)
		bind_received(thread, call, key, connection);
	else if (!call->socket && keeps_order(thread))
		thread->written = call->object;
	if (leave_out(thread->tid, key, connection))
		return;
	thread->piece = (struct piece){
	    .connection = id,
	    .buffer = call->buffer,
	    .size = size < limit ? size : limit,
	    .span = size,
	    .position = position,
	    .task = served_task(ctx, is_go) | (notes_waits && !is_go ? (u64)thread->waits << WAITS_SHIFT : 0),
	    .direction = direction,
	    .cut = size <= limit ? CUT_NONE : call->cut,
	};
	if (!announce(ctx, thread, key, connection)) {
		lose(CUT_NONE, size);
	} else if (has_list) {
		thread->plaintext = (struct plaintext){
		    .list = call->buffer,
		    .count = call->buffers,
		    .skipped = call->skipped,
		    .left = size,
		};
		emit_plaintext(thread, limit);
	} else {
		emit_piece(thread);
	}
}

/* (object, buffer, size, size_t *count) */
SEC("uprobe")
int c_read_enter(struct pt_regs *ctx)
{
	return enter_call(ctx, DIRECTION_READ, PT_REGS_PARM4(ctx), CUT_CALL_LIMIT);
}

SEC("uprobe")
int c_write_enter(struct pt_regs *ctx)
{
	return enter_call(ctx, DIRECTION_WRITE, PT_REGS_PARM4(ctx), CUT_CALL_LIMIT);
}

/* (object, buffer, size, flags, size_t *count) */
SEC("uprobe")
int c_write_flags_enter(struct pt_regs *ctx)
{
	return enter_call(ctx, DIRECTION_WRITE, PT_REGS_PARM5(ctx), CUT_CALL_LIMIT);
}

/* (object, buffer, size), the result is the count */
SEC("uprobe")
int c_read_plain_enter(struct pt_regs *ctx)
{
	return enter_call(ctx, DIRECTION_READ, 0, CUT_CALL_LIMIT);
}

SEC("uprobe")
int c_write_plain_enter(struct pt_regs *ctx)
{
	return enter_call(ctx, DIRECTION_WRITE, 0, CUT_CALL_LIMIT);
}

/* gnutls_record_recv_packet(object, packet **), the result is the count */
SEC("uprobe")
int gnutls_packet_enter(struct pt_regs *ctx)
{
	return enter_call(ctx, DIRECTION_PACKET, 0, CUT_CALL_LIMIT);
}

/* The beginning of GnuTLS's struct mbuffer_st (lib/gnutls_int.h, 3.0 to 3.8). */
struct gnutls_packet {
	u64 next, previous;
	u64 mark; /* bytes that were read before */
	u64 data;
	u32 size;
};

/* The plaintext of the packet that a call returned through `pointer`; 0: the packet does not have `size` bytes. */
static __always_inline u64 packet_data(u64 pointer, u64 size)
{
	struct gnutls_packet packet = {};
	bpf_probe_read_user(&packet, sizeof(packet), (const void *)read_pointer(pointer));
	return packet.size - packet.mark == size ? packet.data + packet.mark : 0;
}

/* (object, fd, ...), the result is the count: the kernel moves a file's bytes, which the process never has */
SEC("uprobe")
int c_sendfile_enter(struct pt_regs *ctx)
{
	return enter_call(ctx, DIRECTION_WRITE, 0, CUT_SENDFILE);
}

/* Remember the arguments of a call with a list of buffers: (object, list, count). */
static __always_inline int enter_list_call(struct pt_regs *ctx, u64 skipped)
{
	keep_thread_stack(ctx);
	u64 rest = convention(ctx);
	struct call *call = begin_call(entry_stack(ctx, &rest));
	if (!call)
		return 0;
	call->object = PT_REGS_PARM1(ctx);
	call->buffer = PT_REGS_PARM2(ctx);
	call->buffers = (u32)PT_REGS_PARM3(ctx);
	call->skipped = skipped;
	call->direction = DIRECTION_WRITE;
	call->cut = CUT_CALL_LIMIT;
	return 0;
}

/* (object, struct iovec *list, count), the result is the count of bytes */
SEC("uprobe")
int c_write_list_enter(struct pt_regs *ctx)
{
	return enter_list_call(ctx, 0);
}

/* (object, struct iovec *list, count, offset): so many bytes of the list are not written */
SEC("uprobe")
int c_write_list_offset_enter(struct pt_regs *ctx)
{
	return enter_list_call(ctx, PT_REGS_PARM4(ctx));
}

/* Arguments as the convention says. Calls of the same function for another purpose have another value in the argument
 * `kind`. They are opened all the same: the return probe looks them up. */
SEC("uprobe")
int c_call_enter(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	u64 rest = convention(ctx);
	struct call *call = begin_call(entry_stack(ctx, &rest));
	if (!call)
		return 0;
	call->object = register_value(ctx, take_bits(&rest, 4));
	call->buffer = register_value(ctx, take_bits(&rest, 4));
	u32 count = take_bits(&rest, 5);
	call->count = count & GIVEN ? register_value(ctx, count & (GIVEN - 1)) : 0;
	u32 kind = take_bits(&rest, 5);
	u8 value = take_bits(&rest, 8);
	call->direction = take_bits(&rest, 1);
	if (kind & GIVEN && (u8)register_value(ctx, kind & (GIVEN - 1)) != value)
		call->direction = DIRECTION_NONE;
	call->cut = CUT_CALL_LIMIT;
	return 0;
}

/* Arguments as the convention says, the count itself among them: a record is about to be encrypted. Its bytes count now, because
 * the call that sends it may return later than the program keeps the bytes (GNUTLS_E_AGAIN). */
SEC("uprobe")
int c_record_enter(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	u64 rest = convention(ctx);
	entry_stack(ctx, &rest);
	struct thread *thread = get_thread();
	const struct config *config = get_config();
	if (!thread || !config || config->stopped)
		return 0;
	struct call call = {.cut = CUT_CALL_LIMIT};
	call.object = register_value(ctx, take_bits(&rest, 4));
	call.buffer = register_value(ctx, take_bits(&rest, 4));
	u64 size = register_value(ctx, take_bits(&rest, 5) & (GIVEN - 1));
	u32 kind = take_bits(&rest, 5);
	u8 value = take_bits(&rest, 8);
	call.direction = take_bits(&rest, 1);
	if (!size || (u8)register_value(ctx, kind & (GIVEN - 1)) != value)
		return 0;
	struct connection_key key = {.object = call.object, .pid = thread->pid};
	struct connection *connection = get_connection(&key);
	if (connection)
		pass_data(ctx, thread, &key, connection, &call, size, config->call_limit_bytes, 0, 0);
	return 0;
}

/* (object): a handshake begins or goes on. A connection of which nothing is known yet is seen from its start. */
SEC("uprobe")
int c_handshake_enter(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	struct thread *thread = get_thread();
	if (!thread)
		return 0;
	struct connection_key key = {.object = PT_REGS_PARM1(ctx), .pid = thread->pid};
	if (!map_lookup(connections, &key))
		make_connection(&key, 1, HALF_NONE);
	return 0;
}

/* Count a call that moved bytes and whose entry was not seen. Only in watched threads, and not while probes are being
 * detached: those of entries may be detached first. */
static __always_inline void count_unmatched(s32 result)
{
	u64 id = bpf_get_current_pid_tgid();
	const struct config *config = get_config();
	const struct thread *thread = map_lookup(threads, &id);
	if (result <= 0 || !config || config->stopped || !thread || thread->is_undecided)
		return;
	count(COUNTER_UNMATCHED_CALLS, 1);
	u32 pid = thread->pid;
	u64 none = 0;
	map_insert(unmatched, &pid, &none); /* only the first one does: two at once would count one */
	u64 *calls = map_lookup(unmatched, &pid);
	if (calls)
		__atomic_fetch_add(calls, 1, __ATOMIC_RELAXED);
}

#define MOST_ALERT_BYTES 64 /* of an encrypted alert, with a record's header and padding; a session ticket has more */

/* Why a call that read nothing ended: enum ended_by. OpenSSL sets the flag of a received close_notify also where the peer
 * only closed the TCP connection, if the program asks for that (SSL_OP_IGNORE_UNEXPECTED_EOF): then the call received
 * nothing. Where the program receives for the library, it is not known. */
static __always_inline u8 received_end(const struct connection_key *key, const struct call *call)
{
	const struct connection *connection = map_lookup(connections, key);
	if (!connection || connection->direct != CERTAIN)
		return ENDED_UNSURE;
	if (!call->received_bytes)
		return ENDED_BY_SOCKET;
	return call->received_bytes > RECORD_HEADER_BYTES && call->received_bytes <= MOST_ALERT_BYTES ? ENDED_BY_NOTIFY
												      : ENDED_UNSURE;
}

/* A call returns. Only bytes of successful calls count: one that would block is called again with the same bytes. */
static __always_inline int finish_call(struct pt_regs *ctx, int has_list)
{
	keep_thread_stack(ctx);
	struct call call;
	struct outcome outcome;
	if (!get_outcome(ctx, &outcome))
		return 0;
	/* An int, or a ssize_t that the kernel keeps below 2^31: the low half says it all. */
	s32 result = (s32)outcome.value;
	if (!leave_call(outcome.stack, &call)) {
		count_unmatched(result);
		return 0;
	}
	struct thread *thread = get_thread();
	const struct config *config = get_config();
	if (!thread || !config)
		return 0;
	end_call(thread, &call);
	struct connection_key key = {.object = call.object, .pid = thread->pid};
	struct connection *connection = call.socket ? bind_direct(thread, &key, call.socket) : 0;
	if (call.direction == DIRECTION_NONE)
		return 0;
	if (!result)
		check_ends(thread, call.object, ENDED_UNSURE, received_end(&key, &call));
	if (result <= 0 || config->stopped)
		return 0;
	u64 size = !has_list && call.count ? read_pointer(call.count) : (u64)(u32)result;
	u64 limit = call.cut == CUT_SENDFILE ? 0 : config->call_limit_bytes;
	if (!size)
		return 0;
	if (call.direction == DIRECTION_PACKET)
		call.buffer = packet_data(call.buffer, size);
	if (!connection)
		connection = get_connection(&key);
	if (connection)
		pass_data(ctx, thread, &key, connection, &call, size, limit, has_list, 0);
	return 0;
}

/* The return of any of these calls, except those with a list of buffers. */
SEC("uprobe")
int c_return(struct pt_regs *ctx)
{
	return finish_call(ctx, 0);
}

SEC("uprobe")
int c_list_return(struct pt_regs *ctx)
{
	return finish_call(ctx, 1);
}
