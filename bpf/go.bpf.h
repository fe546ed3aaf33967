/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Go's crypto/tls. Goroutines go on on other threads, and their stacks move: so nothing is remembered from a call's entry
 * to its return. One probe sees all of a call; where its values are there is in the attach cookie
 * (sslsniff/libraries/go/places.py).
 */
#pragma once

#include "calls.bpf.h"
#include "handshake.bpf.h"

/* An interface is two words: the address of a table, which has the hash of the value's type, and that of the value
 * (runtime.iface and internal/abi.ITab). */
#define INTERFACE_VALUE 8
#define TABLE_HASH 16
/* net.TCPConn points to a net.netFD, which has its descriptor after a lock (internal/poll.FD). */
#define DESCRIPTOR 16
/* Other types that have a net.Conn as their first field, as tls.Conn itself does: TLS inside of TLS, for one. */
#define MOST_WRAPPED 4

#define FILE_TYPE 0170000
#define SOCKET_FILE 0140000

static __always_inline u64 socket_of(u32 descriptor)
{
	const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();
	const struct file *file = 0;
	const struct inode *inode = 0;
	const struct socket *socket = 0;
	struct sock *sock = 0;
	u16 mode = 0;
	if (!types_are_reliable(task))
		return 0;
	file = opened_file(task, descriptor);
	bpf_probe_read_kernel(&inode, sizeof(inode), &file->f_inode);
	bpf_probe_read_kernel(&mode, sizeof(mode), &inode->i_mode);
	if ((mode & FILE_TYPE) != SOCKET_FILE)
		return 0;
	bpf_probe_read_kernel(&socket, sizeof(socket), &file->private_data);
	bpf_probe_read_kernel(&sock, sizeof(sock), &socket->sk);
	return (u64)sock;
}

/* The socket that the object's net.Conn is; 0: it is something else. */
static __always_inline u64 go_socket(const struct layout *layout, u64 object)
{
	if (layout->socket_type == 0 || layout->socket_type == -1)
		return 0;
	for (int i = 0; i < MOST_WRAPPED; i++) {
		u64 table = read_pointer(object);
		object = read_pointer(object + INTERFACE_VALUE);
		if (!table || !object)
			return 0;
		if (read_u32(table + TABLE_HASH) == (u32)layout->socket_type)
			return socket_of(read_u32(read_pointer(object) + DESCRIPTOR));
	}
	return 0;
}

/* The connection of the object, with its socket if the object names it. */
static __always_inline struct connection *go_connection(struct pt_regs *ctx, const struct thread *thread,
							const struct connection_key *key)
{
	u32 index = layout_index(ctx);
	const struct layout *layout = map_lookup(layouts, &index);
	struct connection *connection = get_connection(key);
	if (!connection || !layout || connection->socket)
		return connection;
	u64 socket = go_socket(layout, key->object);
	if (socket && has_addresses(socket)) {
		bind(thread, key, connection, socket, EVIDENCE_DIRECT);
		if (is_entry_of(connection, key))
			connection->is_fixed = 1;
	}
	return connection;
}

static __always_inline int pass_go_data(struct pt_regs *ctx, struct call *call, u64 size)
{
	struct thread *thread = get_thread();
	const struct config *config = get_config();
	if (!thread || !config || config->stopped || (__s64)size <= 0)
		return 0;
	struct connection_key key = {.object = call->object, .pid = thread->pid};
	struct connection *connection = go_connection(ctx, thread, &key);
	call->received = thread->received;
	call->cut = CUT_CALL_LIMIT;
	if (connection)
		pass_data(ctx, thread, &key, connection, call, size, config->call_limit_bytes, 0, 1);
	return 0;
}

/* (*Conn).Read, where its bytes are in its buffer and counted: conn, buffer, count */
SEC("uprobe")
int go_read(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	u64 rest = convention(ctx);
	if (!counts_here(ctx, &rest))
		return 0;
	struct call call = {.direction = DIRECTION_READ};
	call.object = take_value(ctx, &rest);
	call.buffer = take_value(ctx, &rest);
	return pass_go_data(ctx, &call, take_value(ctx, &rest));
}

/* An alert is sent; if it was one that closes, nothing failed. */
static __always_inline void report_go_alert(struct pt_regs *ctx, u64 object, u64 alert)
{
	const struct thread *thread = get_thread();
	u8 number = read_alert(alert);
	if (!thread || number == CLOSE_NOTIFY)
		return;
	struct connection_key key = {.object = object, .pid = thread->pid};
	if (go_connection(ctx, thread, &key))
		report_failure(object, layout_index(ctx), number, 0);
}

/* (*Conn).writeRecordLocked: conn, data, size, type. Write has found the connection whole when it calls this; if the socket
 * then fails, the connection is over. */
SEC("uprobe")
int go_write(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	u64 rest = convention(ctx);
	if (!counts_here(ctx, &rest))
		return 0;
	struct call call = {.direction = DIRECTION_WRITE};
	call.object = take_value(ctx, &rest);
	call.buffer = take_value(ctx, &rest);
	u64 size = take_value(ctx, &rest);
	u8 type = take_value(ctx, &rest);
	if (type == RECORD_ALERT && size == ALERT_BYTES)
		report_go_alert(ctx, call.object, call.buffer);
	return type == RECORD_APPLICATION_DATA ? pass_go_data(ctx, &call, size) : 0;
}

/* (*Conn).clientHandshake or serverHandshake: a connection begins, unless it agrees on new keys. */
SEC("uprobe")
int go_handshake(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	u64 rest = convention(ctx);
	u32 index = layout_index(ctx);
	const struct layout *layout = map_lookup(layouts, &index);
	struct thread *thread = counts_here(ctx, &rest) ? get_thread() : 0;
	if (!thread || !layout)
		return 0;
	struct connection_key key = {.object = take_value(ctx, &rest), .pid = thread->pid};
	if (layout->handshakes < 0 || read_pointer(key.object + layout->handshakes))
		return 0;
	close_connection(thread->tid, &key, 0);
	make_connection(&key, 1, HALF_NONE);
	return 0;
}

/* An error may be about another one, and so on. */
#define MOST_ERRORS 4
#define TEXT_LENGTH 8
/* A table has the address of the value's type, which has its hash; the table's own is 0 if the runtime made it. */
#define TABLE_TYPE 8
#define TYPE_HASH 16

/* What an error that is at `error` says: the hash of its type, or of the type that it is about, and a number; 0: nothing that
 * is known. */
static __always_inline u32 read_go_error(u64 error, u32 *number)
{
	for (int i = 0; i < MOST_ERRORS; i++) {
		u64 table = read_pointer(error);
		u64 value = read_pointer(error + INTERFACE_VALUE);
		if (!table || !value)
			return 0;
		u32 hash = read_u32(read_pointer(table + TABLE_TYPE) + TYPE_HASH);
		const struct go_error *known = map_lookup(go_errors, &hash);
		if (!known || (known->text_bytes && read_pointer(value + TEXT_LENGTH) != known->text_bytes))
			return 0;
		if (known->inner < 0) {
			*number = read_u32(value + known->number);
			return hash;
		}
		error = value + known->inner;
	}
	return 0;
}

/* Report the error at this offset of a connection's object, if there is one, and it says why. */
static __always_inline void report_go_error(struct pt_regs *ctx, const struct thread *thread,
					    const struct connection_key *key, s32 offset)
{
	u32 number = 0;
	u32 hash = offset < 0 ? 0 : read_go_error(key->object + offset, &number);
	struct connection *connection = hash ? go_connection(ctx, thread, key) : 0;
	if (!connection)
		return;
	if (is_entry_of(connection, key))
		connection->verified = number;
	report_failure(key->object, layout_index(ctx), -1, hash);
}

/* Report the error that the receiver, a Conn, has: that of its handshake, or that of its reads. Returns the thread, and fills in `key`;
 * 0: the call is not watched. */
static __always_inline struct thread *report_conn_error(struct pt_regs *ctx, struct connection_key *key,
							int is_of_handshake)
{
	keep_thread_stack(ctx);
	u64 rest = convention(ctx);
	u32 index = layout_index(ctx);
	const struct layout *layout = map_lookup(layouts, &index);
	struct thread *thread = counts_here(ctx, &rest) ? get_thread() : 0;
	if (!thread || !layout)
		return 0;
	*key = (struct connection_key){.object = take_value(ctx, &rest), .pid = thread->pid};
	report_go_error(ctx, thread, key, is_of_handshake ? layout->handshake_error : layout->read_error);
	return thread;
}

/* (*Conn).flush, which is also called when a handshake has failed */
SEC("uprobe")
int go_flush(struct pt_regs *ctx)
{
	struct connection_key key;
	report_conn_error(ctx, &key, 1);
	return 0;
}

/* (*Conn).Close. An alert of TLS 1.3 may have been received after the handshake: then no more could be read. */
SEC("uprobe")
int go_close(struct pt_regs *ctx)
{
	struct connection_key key;
	const struct thread *thread = report_conn_error(ctx, &key, 0);
	if (thread)
		close_connection(thread->tid, &key, 0);
	return 0;
}
