/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * TLS connections: created when a TLS object is seen for the first time. A close_notify ends a direction, the
 * library's free call ends the connection.
 */
#pragma once

#include "sample.bpf.h"
#include "announce.bpf.h"

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

/* Emit the end of `direction`, once. */
static __always_inline void end_direction(const struct thread *thread, const struct connection_key *key,
					  struct connection *connection, u32 direction)
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
	event->position = position;
	ring_submit(events, event);
	if (is_entry_of(connection, key))
		connection->ended |= 1 << direction;
}

/* Emit the ends of the directions that are over by the flags of the library's object. */
static __always_inline void check_ends(const struct thread *thread, u64 object)
{
	struct connection_key key = {.object = object, .pid = thread->pid};
	struct connection *connection = map_lookup(connections, &key);
	if (!connection || !connection->announced)
		return;
	u32 index = connection->layout;
	const struct layout *layout = map_lookup(layouts, &index);
	if (!layout || layout->shutdown < 0 || !has_layout(layout, object))
		return;
	u32 flags = read_u32(object + layout->shutdown);
	if (flags & SSL_SENT_SHUTDOWN)
		end_direction(thread, &key, connection, DIRECTION_WRITE);
	if (flags & SSL_RECEIVED_SHUTDOWN)
		end_direction(thread, &key, connection, DIRECTION_READ);
}

static __always_inline void close_connection(u32 tid, const struct connection_key *key)
{
	const struct connection *connection = map_lookup(connections, key);
	if (!connection)
		return;
	const struct connection last = *connection;
	if (!is_entry_of(connection, key))
		return;
	if (last.announced) {
		struct event_closed *event = ring_reserve(events, sizeof(struct event_closed));
		if (event) {
			fill_header(&event->header, EVENT_CLOSED, tid, last.id);
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
