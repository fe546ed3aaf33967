/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Sampling: connections that are left out as a whole. Each is decided once, by a hash of an id of its own; a half by
 * that of its socket's carrier, so that both halves fall alike. What passes before a half's socket is known is told
 * to user space, and taken back.
 */

enum left_out {
	LEFT_OUT_NOT,
	LEFT_OUT_UNCOUNTED, /* nothing has passed yet that would have been told */
	LEFT_OUT_COUNTED,
};

/* The finalizer of MurmurHash3 (public domain): each bit of an id decides with the same weight. */
static __always_inline u64 scatter(u64 value)
{
	value ^= value >> 33;
	value *= 0xff51afd7ed558ccdULL;
	value ^= value >> 33;
	value *= 0xc4ceb9fe1a85ec53ULL;
	return value ^ value >> 33;
}

static __always_inline u8 choose(u64 id)
{
	const struct config *config = get_config();
	return config && (u32)scatter(id) > config->sample_most ? LEFT_OUT_UNCOUNTED : LEFT_OUT_NOT;
}

/* Count a connection that is left out, once: halves of one socket together. */
static __always_inline void count_left_out(struct connection *connection)
{
	u8 *left_out = &connection->left_out;
	if (*left_out == LEFT_OUT_COUNTED)
		return;
	*left_out = LEFT_OUT_COUNTED;
	if (connection->half) {
		struct carrier *carrier = map_lookup(carriers, &connection->socket);
		if (!carrier || carrier->left_out == LEFT_OUT_COUNTED)
			return;
		carrier->left_out = LEFT_OUT_COUNTED;
	}
	count(COUNTER_LEFT_OUT, 1);
}

/* Whether what passes on a connection is not to be told. Takes back what was, of a half. */
static __always_inline int leave_out(u32 tid, struct connection *connection)
{
	if (!connection->left_out)
		return 0;
	count_left_out(connection);
	if (!connection->announced)
		return 1;
	struct event_left_out *event = ring_reserve(events, sizeof(struct event_left_out));
	if (event) {
		fill_header(&event->header, EVENT_LEFT_OUT, tid, connection->id);
		ring_submit(events, event);
		connection->announced = 0;
	}
	return 1;
}

/* A half's socket was found, or found to be another, which is left out or not. */
static __always_inline void follow_socket(u32 tid, struct connection *connection, u8 left_out)
{
	int was_left_out = connection->left_out;
	connection->left_out = left_out ? LEFT_OUT_UNCOUNTED : LEFT_OUT_NOT;
	if (connection->announced && left_out)
		leave_out(tid, connection);
	if (was_left_out && !left_out) {
		/* To user space it begins here, even if it could not be told that the other id was left out. */
		connection->id = new_connection_id();
		connection->announced = 0;
		connection->from_start = 0;
		connection->positions[DIRECTION_READ] = 0;
		connection->positions[DIRECTION_WRITE] = 0;
		connection->missed = 0;
	}
}
