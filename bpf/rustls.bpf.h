/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * rustls: its record layer calls MessageEncrypter::encrypt and MessageDecrypter::decrypt through a vtable, so
 * they exist in every build. Each works on a cipher object of one direction, which does not move but is
 * replaced when keys change. The records of one such object, from sequence number 0 on, are a half of a connection.
 *
 * The offsets are data (sslsniff/libraries/rustls/plan.py), and each record is checked against them.
 */
#pragma once

#include "handshake.bpf.h"
#include "losses.bpf.h"
#include "stack.bpf.h"
#include "tasks.bpf.h"

/* A layout with more misfits than fits is not used any more, except for a few records that did not decrypt. */
#define MISFITS_ALLOWED 8

/* The layout of the probe's library; 0: it has none, or traffic proved it wrong. */
static __always_inline struct rustls_layout *rustls_layout(void *ctx)
{
	u32 index = layout_index(ctx);
	struct rustls_layout *layout = map_lookup(rustls_layouts, &index);
	if (!layout || layout->application_data < 0 || layout->misfits > layout->fits + MISFITS_ALLOWED)
		return 0;
	return layout;
}

/* Whether a type and a size that were read by the layout can be a record's. The types are change_cipher_spec, alert,
 * handshake, application_data and heartbeat, in this order, with any numbers. */
static __always_inline int is_record(struct rustls_layout *layout, u8 type, u64 size)
{
	u8 kind = type - (u8)layout->application_data + 3;
	int fits = kind <= 4 && size <= MOST_RECORD_BYTES;
	__atomic_fetch_add(fits ? &layout->fits : &layout->misfits, 1, __ATOMIC_RELAXED);
	return fits;
}

static __always_inline u8 read_u8(u64 address)
{
	u8 value = 0;
	bpf_probe_read_user(&value, sizeof(value), (const void *)address);
	return value;
}

/* The half of the record with this sequence number: a new half if the numbers begin again. */
static __always_inline struct connection *take_record(const struct thread *thread, const struct connection_key *key,
						      u8 half, u64 sequence)
{
	struct connection *connection = map_lookup(connections, key);
	if (connection && (connection->half != half || sequence < connection->sequence)) {
		close_connection(thread->tid, key, 0);
		connection = 0;
	}
	if (!connection) {
		connection = make_connection(key, sequence == 0, half);
		if (!connection)
			return 0;
		if (is_entry_of(connection, key))
			connection->sequence = sequence;
	}
	if (is_entry_of(connection, key)) {
		connection->missed += sequence - connection->sequence;
		connection->sequence = sequence + 1;
	}
	return connection;
}

/* Emit the thread's plaintext. */
static __always_inline void pass_plaintext(struct pt_regs *ctx, struct thread *thread, const struct connection_key *key,
					   struct connection *connection)
{
	struct plaintext *plaintext = &thread->plaintext;
	const struct config *config = get_config();
	if (plaintext->left)
		note_data(connection);
	if (!config || config->stopped || !plaintext->left || leave_out(thread->tid, key, connection))
		return;
	u32 direction = connection->half == HALF_WRITE;
	u64 id = connection->id;
	u64 position = connection->positions[direction];
	u64 missed = connection->missed;
	if (!is_entry_of(connection, key)) {
		lose(CUT_EVICTED, plaintext->left);
		return;
	}
	connection->positions[direction] = position + missed + plaintext->left;
	connection->missed = 0;
	thread->piece = (struct piece){
	    .connection = id,
	    .position = position,
	    .task = served_task(ctx, 0),
	    .direction = direction,
	};
	if (!announce(ctx, thread, key, connection)) {
		lose(CUT_NONE, missed + plaintext->left);
		return;
	}
	emit_gap(thread, missed);
	emit_plaintext(thread, config->call_limit_bytes);
}

/* enum OutboundChunks (0.23; OutboundPlain in 0.24): its first word is 0 for a slice, which follows; else it is the
 * address of a list: address, count, start, end. Before 0.23 it was a slice. */
static __always_inline void read_plaintext(struct thread *thread, const struct rustls_layout *layout, u64 message)
{
	struct plaintext *plaintext = &thread->plaintext;
	u64 words[4] = {};
	bpf_probe_read_user(words, sizeof(words), (const void *)message);
	*plaintext = (struct plaintext){.count = 1};
	if (layout->has_slices <= 0) {
		plaintext->only = (struct slice){words[0], words[1]};
	} else if (!words[0]) {
		plaintext->only = (struct slice){words[1], words[2]};
	} else {
		plaintext->list = words[0];
		plaintext->count = words[1];
		plaintext->skipped = words[2];
	}
	plaintext->left = plaintext->list ? words[3] - words[2] : plaintext->only.size;
}

/* Note a record for the thread's next send, which should have it and earlier records of the same half. */
static __always_inline void note_written(struct thread *thread, u64 object, u64 size)
{
	if (thread->written != object) {
		thread->written = object;
		thread->written_bytes = 0;
		thread->written_first = size;
		thread->written_records = 0;
	}
	thread->written_bytes += size;
	thread->written_records++;
}

/* Whether a record has an alert. */
static __always_inline int is_alert(const struct rustls_layout *layout, u8 type, u64 size)
{
	return (u8)(type - (u8)layout->application_data + 3) == 1 && size == ALERT_BYTES;
}

/* (result, cipher, message, sequence) */
SEC("uprobe")
int rustls_encrypt_enter(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	struct rustls_layout *layout = rustls_layout(ctx);
	struct thread *thread = layout ? get_thread() : 0;
	if (!thread)
		return 0;
	u64 message = PT_REGS_PARM3(ctx);
	u8 type = read_u8(message + layout->message_type);
	read_plaintext(thread, layout, message);
	if (!is_record(layout, type, thread->plaintext.left))
		return 0;
	struct connection_key key = {.object = PT_REGS_PARM2(ctx), .pid = thread->pid};
	struct connection *connection = take_record(thread, &key, HALF_WRITE, PT_REGS_PARM4(ctx));
	note_written(thread, key.object, thread->plaintext.left);
	if (is_alert(layout, type, thread->plaintext.left)) {
		u64 only = thread->plaintext.only.address;
		u8 number = only ? read_alert(only) : CLOSE_NOTIFY;
		if (number != CLOSE_NOTIFY)
			report_failure(key.object, layout_index(ctx), number, 0);
	}
	if (connection && type == layout->application_data)
		pass_plaintext(ctx, thread, &key, connection);
	return 0;
}

/* (result, cipher, message, sequence) */
SEC("uprobe")
int rustls_decrypt_enter(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	struct thread *thread = rustls_layout(ctx) ? get_thread() : 0;
	if (!thread)
		return 0;
	struct call *call = open_call(thread, PT_REGS_SP(ctx));
	if (!call)
		return 0;
	call->object = PT_REGS_PARM2(ctx);
	call->buffer = PT_REGS_PARM1(ctx);
	call->sequence = PT_REGS_PARM4(ctx);
	call->has_no_io = 1;
	return 0;
}

/* If a record does not decrypt, the result has any bytes, and the library uses the same number again. */
SEC("uprobe")
int rustls_decrypt_return(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	struct call call;
	struct rustls_layout *layout = rustls_layout(ctx);
	if (!leave_call(PT_REGS_SP(ctx), &call) || !layout)
		return 0;
	struct thread *thread = get_thread();
	if (!thread)
		return 0;
	u8 type = read_u8(call.buffer + layout->result_type);
	u64 size = read_pointer(call.buffer + layout->result_size);
	if (!is_record(layout, type, size))
		return 0;
	struct connection_key key = {.object = call.object, .pid = thread->pid};
	struct connection *connection = take_record(thread, &key, HALF_READ, call.sequence);
	if (!connection)
		return 0;
	bind_received(thread, &call, &key, connection);
	u64 data = read_pointer(call.buffer + layout->result_data);
	if (is_alert(layout, type, size) && read_alert(data) != CLOSE_NOTIFY)
		report_failure(key.object, layout_index(ctx), -1, read_alert(data));
	struct slice only = {data, size};
	thread->plaintext = (struct plaintext){.count = 1, .left = size, .only = only};
	if (type == layout->application_data)
		pass_plaintext(ctx, thread, &key, connection);
	return 0;
}

/* CommonState::take_received_plaintext(state, payload): the state has both cipher objects. */
SEC("uprobe")
int rustls_received_enter(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	const struct rustls_layout *layout = rustls_layout(ctx);
	struct thread *thread = layout && layout->encrypter >= 0 ? get_thread() : 0;
	if (!thread)
		return 0;
	u64 state = PT_REGS_PARM1(ctx);
	struct connection_key writes_key = {.object = read_pointer(state + layout->encrypter), .pid = thread->pid};
	struct connection_key reads_key = {.object = read_pointer(state + layout->decrypter), .pid = thread->pid};
	struct connection *writes = map_lookup(connections, &writes_key);
	const struct connection *reads = map_lookup(connections, &reads_key);
	if (!writes || !reads || writes->half != HALF_WRITE || reads->half != HALF_READ)
		return 0;
	u64 writes_id = writes->id;
	u64 reads_id = reads->id;
	if (writes->partner == reads_id || !is_entry_of(writes, &writes_key) || !is_entry_of(reads, &reads_key))
		return 0;
	struct event_paired *event = ring_reserve(events, sizeof(struct event_paired));
	if (!event)
		return 0;
	fill_header(&event->header, EVENT_PAIRED, thread->tid, writes_id);
	event->reads = reads_id;
	ring_submit(events, event);
	if (is_entry_of(writes, &writes_key))
		writes->partner = reads_id;
	return 0;
}
