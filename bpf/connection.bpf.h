/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * TLS connections: created when a TLS object is seen for the first time. A close_notify ends a direction, the
 * library's free call ends the connection.
 */
#pragma once

#include "sample.bpf.h"
#include "announce.bpf.h"
#include "socket_end.bpf.h"

/* openssl/ssl.h, SSL_get_shutdown */
#define SSL_SENT_SHUTDOWN 1
#define SSL_RECEIVED_SHUTDOWN 2

static __always_inline struct connection *make_connection(const struct connection_key *key, u8 from_start, u8 half)
{
	struct connection fresh = {
	    .key = *key,
	    .id = new_connection_id(),
	    .from_start = from_start,
	    .half = half,
	};
	if (!half)
		fresh.left_out = choose(fresh.id);
	/* One that was there may be another thread's, which was faster, unless a new one begins. */
	if (from_start)
		map_update(connections, key, &fresh);
	else
		map_insert(connections, key, &fresh);
	struct connection *connection = map_lookup(connections, key);
	if (!connection)
		count(COUNTER_UNTRACKED_CALLS, 1);
	return connection;
}

static __always_inline struct connection *get_connection(const struct connection_key *key)
{
	struct connection *connection = map_lookup(connections, key);
	return connection ? connection : make_connection(key, 0, HALF_NONE);
}

/* Emit the end of `direction`, once. `by`: enum ended_by. */
static __always_inline void end_direction(const struct thread *thread, const struct connection_key *key,
					  struct connection *connection, u32 direction, u8 by)
{
	u64 id = connection->id;
	u64 position = connection->positions[direction];
	if (!connection->announced || connection->ended & (1 << direction) || !is_entry_of(connection, key))
		return;
	struct event_ended *event = ring_reserve(events, sizeof(struct event_ended));
	if (!event)
		return;
	fill_header(&event->header, EVENT_ENDED, thread->tid, id);
	event->header.direction = direction;
	event->header.cut = by;
	event->position = position;
	ring_submit(events, event);
	if (is_entry_of(connection, key))
		connection->ended |= 1 << direction;
}

/* Which close_notify alerts passed by the flags of the library's object: bits of enum closing; 0: unknown. */
static __always_inline u8 read_closing(const struct connection *connection, u64 object)
{
	u32 index = connection->layout;
	const struct layout *layout = connection->announced ? map_lookup(layouts, &index) : 0;
	if (!layout || layout->shutdown < 0 || !has_layout(layout, object))
		return 0;
	u32 flags = read_u32(object + layout->shutdown);
	return CLOSING_FLAGS_KNOWN | (flags & SSL_SENT_SHUTDOWN ? CLOSING_SENT : 0) |
	       (flags & SSL_RECEIVED_SHUTDOWN ? CLOSING_RECEIVED : 0);
}

/* Emit the ends of the directions that are over by the flags of the library's object, each with why: enum ended_by. */
static __always_inline void check_ends(const struct thread *thread, u64 object, u8 sent_by, u8 received_by)
{
	struct connection_key key = {.object = object, .pid = thread->pid};
	struct connection *connection = map_lookup(connections, &key);
	if (!connection)
		return;
	u8 closing = read_closing(connection, object);
	if (closing & CLOSING_SENT)
		end_direction(thread, &key, connection, DIRECTION_WRITE, sent_by);
	if (closing & CLOSING_RECEIVED)
		end_direction(thread, &key, connection, DIRECTION_READ, received_by);
}

/* Report how the TCP connection ended before. Returns whether its end will be reported. */
static __always_inline u8 report_end_before(const struct connection *connection)
{
	u64 socket = connection->socket;
	u64 id = connection->id;
	const struct tls_socket *tls = socket ? map_lookup(tls_sockets, &socket) : 0;
	if (!tls || !connection->has_data)
		return 0;
	if (!tls->ending)
		return CLOSING_SOCKET_ENDS;
	report_socket_end(socket, id);
	return 0;
}

/* Close a connection. `closing`: what the library's object says. */
static __always_inline void close_connection(u32 tid, const struct connection_key *key, u8 closing)
{
	const struct connection *connection = map_lookup(connections, key);
	if (!connection)
		return;
	const struct connection last = *connection;
	if (!is_entry_of(connection, key))
		return;
	if (last.announced) {
		if (!last.half)
			closing |= report_end_before(&last);
		struct event_closed *event = ring_reserve(events, sizeof(struct event_closed));
		if (event) {
			fill_header(&event->header, EVENT_CLOSED, tid, last.id);
			event->header.cut = closing;
			event->positions[DIRECTION_READ] = last.positions[DIRECTION_READ];
			event->positions[DIRECTION_WRITE] = last.positions[DIRECTION_WRITE];
			ring_submit(events, event);
		} else {
			count(COUNTER_LOST_CLOSES, 1);
			if (!last.half)
				count(COUNTER_LOST_ENDS, 1);
		}
	}
	map_delete(connections, key);
}
