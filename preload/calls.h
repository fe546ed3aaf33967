/* SPDX-License-Identifier: MIT
 *
 * What the wrappers of all libraries do around the real call. Only bytes of successful calls count: one that would block
 * is called again with the same bytes.
 */
#pragma once

#include "sockets.h"

/* A call that is being wrapped. */
struct wrapped {
	struct library *library;
	u64 object, stack;
	struct open_call *open; /* 0: nobody watches */
};

/* Begin a call on `object`. Not inlined, as all that runs beside the real function: what a wrapper keeps on the stack is below
 * that function's, and a stack may be small. */
static __attribute__((noinline)) struct wrapped begin_call(struct library *library, const void *object,
							   const void *stack)
{
	struct wrapped call = {.library = library, .object = (u64)object, .stack = (u64)stack};
	if (is_watched())
		call.open = open_call(call.object, call.stack);
	return call;
}

/* Whether what a call did is noted. */
static inline int counts(const struct wrapped *call)
{
	return call->open && connections;
}

static inline struct connection *connection_of(const struct wrapped *call)
{
	struct connection *connection = find_connection(call->object);
	return connection ? connection : add_connection(call->object, call->library, 0);
}

/* A call before any data moved none. If no socket call was inside, the library gets the bytes through memory: from what the thread
 * received last, and it sends what the library wrote next. */
static __attribute__((noinline)) void note_empty_call(const struct wrapped *call, struct connection *connection,
						      struct thread *thread, int inside)
{
	int received = thread->received;
	if (inside || innermost_object(call->stack)) {
		note_call(connection, 0);
		return;
	}
	thread->received = 0;
	if (received)
		bind_descriptor(connection, received - 1, 0);
	thread->written = call->object;
	pass_through_memory(connection);
	note_call(connection, received ? thread->received_bytes : 0);
}

/* End a call that moved `size` bytes; 0: none. Returns its connection; 0: it does not count, or there is no room. */
static __attribute__((noinline)) struct connection *end_call(const struct wrapped *call, u32 direction,
							     const void *data, u64 size, u8 cut)
{
	if (!counts(call))
		return 0;
	struct thread *thread = this_thread();
	close_call(call->open, call->stack);
	struct connection *connection = connection_of(call);
	if (!connection)
		return 0;
	int inside = GET(connection->inside);
	if (inside)
		bind_inside(connection, inside - 1);
	u8 phase = direction == DIRECTION_READ ? PHASE_ANSWERED : PHASE_SENT;
	if (size && GET(connection->phase) < phase)
		begin_phase(connection, phase);
	if (!size) {
		if (GET(connection->phase) == PHASE_HANDSHAKE)
			note_empty_call(call, connection, thread, inside);
		return connection;
	}
	if (direction == DIRECTION_READ) {
		int received = thread->received;
		thread->received = 0;
		if (received && !inside)
			bind_descriptor(connection, received - 1, 0);
	} else if (!inside && !innermost_object(call->stack)) {
		thread->written = call->object;
	}
	u64 most = cut == CUT_SENDFILE ? 0 : control->call_limit_bytes;
	u64 captured = size < most ? size : most;
	emit_plaintext(connection, thread->tid, direction, data, captured, size, captured == size ? (u8)CUT_NONE : cut);
	return connection;
}

/* An object for a new connection: one that had the same address is over. */
static struct connection *new_object(struct library *library, const void *object)
{
	if (!object || !is_watched())
		return 0;
	struct connection *connection = find_connection((u64)object);
	if (connection)
		close_connection(connection, this_thread()->tid);
	return add_connection((u64)object, library, 1);
}

/* An object is about to be freed, or one reference to it. */
static void free_object(const void *object)
{
	struct connection *connection = control && object ? find_connection((u64)object) : 0;
	if (connection && __atomic_sub_fetch(&connection->references, 1, __ATOMIC_RELAXED) <= 0)
		close_connection(connection, this_thread()->tid);
}
