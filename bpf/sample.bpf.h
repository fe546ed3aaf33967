/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Sampling: connections are left out as a whole, by a hash of their ids. User space may leave out more at any time, so each
 * event asks again; what is left out stays so. For a direction that is announced by itself (enum half), it is the hash of an
 * id of its socket, so that both directions get the same decision, which is made once. Its events before the socket is known
 * are emitted, and revoked if it is left out.
 */
#pragma once

#include "process.bpf.h"
#include "scatter.h"

enum left_out {
	LEFT_OUT_NOT,
	LEFT_OUT_UNCOUNTED, /* no bytes have passed on it yet */
	LEFT_OUT_COUNTED,
};

static __always_inline u8 choose(u64 id)
{
	const struct config *config = get_config();
	return config && scatter(id) > config->sample_most ? LEFT_OUT_UNCOUNTED : LEFT_OUT_NOT;
}

/* Count a connection that is left out, once: halves of one socket together. */
static __always_inline void count_left_out(struct connection *connection)
{
	u8 *left_out = &connection->left_out;
	if (*left_out == LEFT_OUT_COUNTED)
		return;
	*left_out = LEFT_OUT_COUNTED;
	if (connection->half) {
		u64 socket = connection->socket;
		struct carrier *carrier = map_lookup(carriers, &socket);
		if (!carrier || carrier->left_out == LEFT_OUT_COUNTED || !is_carrier_of(carrier, socket))
			return;
		carrier->left_out = LEFT_OUT_COUNTED;
	}
	count(COUNTER_LEFT_OUT, 1);
}

/* Whether a connection is left out, so that no event is emitted. Tells user space if it already had events. */
static __always_inline int leave_out(u32 tid, const struct connection_key *key, struct connection *connection)
{
	u64 id = connection->id;
	u8 left_out = connection->left_out;
	if (!left_out && !connection->half)
		left_out = choose(id);
	if (!left_out || !is_entry_of(connection, key))
		return left_out;
	connection->left_out = left_out;
	count_left_out(connection);
	if (!connection->announced)
		return 1;
	struct event_left_out *event = ring_reserve(events, sizeof(struct event_left_out));
	if (event) {
		fill_header(&event->header, EVENT_LEFT_OUT, tid, id);
		ring_submit(events, event);
		if (is_entry_of(connection, key))
			connection->announced = 0;
	}
	return 1;
}

/* Apply the decision for a half's socket, which was found or has changed. */
static __always_inline void follow_socket(u32 tid, const struct connection_key *key, struct connection *connection,
					  u8 left_out)
{
	int was_left_out = connection->left_out;
	if (!is_entry_of(connection, key))
		return;
	connection->left_out = left_out ? LEFT_OUT_UNCOUNTED : LEFT_OUT_NOT;
	if (connection->announced && left_out)
		leave_out(tid, key, connection);
	if (was_left_out && !left_out) {
		/* For user space it begins here, even if the event that revokes its other id was lost. */
		connection->id = new_connection_id();
		connection->announced = 0;
		connection->from_start = 0;
		connection->positions[DIRECTION_READ] = 0;
		connection->positions[DIRECTION_WRITE] = 0;
		connection->missed = 0;
	}
}
