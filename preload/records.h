/* SPDX-License-Identifier: MIT
 *
 * Writes what happens on connections as records of bpf/event.h.
 */
#pragma once

#include <time.h>

#include "descriptors.h"

static inline u64 monotonic_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * 1000000000 + (u64)now.tv_nsec;
}

static inline void fill_header(struct event_header *header, u16 kind, u32 tid, u64 connection)
{
	*header = (struct event_header){
	    .kind = kind,
	    .tid = tid,
	    .time_ns = monotonic_ns(),
	    .connection = connection,
	};
}

/* Fill in the addresses of a record that has such members. */
#define COPY_ENDPOINTS(to, ends)                                                   \
	do {                                                                       \
		(to)->family = (u16)(ends).remote.family_and_port;                 \
		(to)->local_port = (u16)((ends).local.family_and_port >> 16);      \
		(to)->remote_port = (u16)((ends).remote.family_and_port >> 16);    \
		memcpy((to)->local, (ends).local.address, sizeof((to)->local));    \
		memcpy((to)->remote, (ends).remote.address, sizeof((to)->remote)); \
	} while (0)

/* What the library's object knows of its connection. */
static void describe(struct event_opened *event, const struct connection *connection, const struct library *library);

/* Whether this process is the server of a connection, as far as the library says. */
static int is_server(const struct connection *connection);

/* Count bytes as lost, but not in the child of a fork inside of the call: they are its parent's. */
static inline void lose(const struct connection *connection, u8 cut, u64 bytes)
{
	struct writer_page *writer = enter_record();
	if (writer && GET(connection->id)) {
		add_to(&writer->lost[cut].events, 1);
		add_to(&writer->lost[cut].bytes, bytes);
	}
	leave_record();
}

/* A place for what a library says of a connection: a stack may be small. 0: threads have them all. */
static struct description *begin_description(void)
{
	for (u32 i = 0; i < DESCRIPTIONS; i++)
		if (!__atomic_exchange_n(&process->descriptions[i].is_taken, 1, __ATOMIC_ACQUIRE))
			return &process->descriptions[i];
	return 0;
}

static void fill_opened(struct event_opened *event, const struct connection *connection, const struct library *library)
{
	memset(event, 0, sizeof(*event));
	event->object = connection->object;
	event->library = library->name;
	event->from_start = connection->from_start;
	event->role = connection->role;
}

/* Announce a connection. Returns whether there was room. Its library is looked up before the record begins: the
 * reader waits for a record that has begun. What process it is, the reader knows from the ring. */
static __attribute__((noinline)) int announce_opened(struct connection *connection, u32 tid)
{
	const struct library *library = GET(connection->library);
	if (!library) /* the child of a fork in a signal handler, inside of this call: its table is empty */
		return 0;
	struct description *description = begin_description();
	if (description) {
		fill_opened(&description->event.opened, connection, library);
		describe(&description->event.opened, connection, library);
	}
	struct event_opened *event = begin_record(sizeof(*event), tid, &connection->id);
	if (event) {
		if (description)
			memcpy(event, &description->event.opened, sizeof(*event));
		else
			fill_opened(event, connection, library);
		fill_header(&event->header, EVENT_OPENED, tid, connection->id);
		end_record(event, sizeof(*event));
		SET(connection->is_announced, 1);
	}
	if (description)
		__atomic_store_n(&description->is_taken, 0, __ATOMIC_RELEASE);
	return event != 0;
}

/* Announce the addresses of the connection's socket, if it has any; again later if there is no room. */
static __attribute__((noinline)) void announce_addresses(struct connection *connection, u32 tid)
{
	struct endpoints ends;
	if (!find_endpoints(GET(connection->descriptor) - 1, &ends)) {
		SET(connection->descriptor, 0);
		return;
	}
	struct event_addresses *event = begin_record(sizeof(*event), tid, &connection->id);
	if (!event)
		return;
	fill_header(&event->header, EVENT_ADDRESSES, tid, connection->id);
	COPY_ENDPOINTS(event, ends);
	event->pad = 0;
	event->socket = 0;
	end_record(event, sizeof(*event));
	SET(connection->has_addresses, 1);
}

/* Before an event of a connection: announce it and its addresses, once. Returns whether the event may follow. */
static int announce(struct connection *connection, u32 tid)
{
	if (!GET(connection->is_announced) && !announce_opened(connection, tid))
		return 0;
	if (!GET(connection->has_addresses) && GET(connection->descriptor))
		announce_addresses(connection, tid);
	return 1;
}

static inline void emit_piece(const struct connection *connection, u32 tid, u32 direction, const void *data, u64 size,
			      u64 span, u8 cut, u64 position)
{
	struct event_data *event = begin_record((u32)(sizeof(*event) + size), tid, &connection->id);
	if (!event) {
		lose(connection, CUT_NONE, span);
		return;
	}
	fill_header(&event->header, EVENT_DATA, tid, connection->id);
	event->header.direction = (u8)direction;
	event->header.cut = cut;
	event->position = position;
	event->span = (u32)span;
	event->captured = (u32)size;
	event->task = 0;
	memcpy(event + 1, data, size);
	end_record(event, (u32)(sizeof(*event) + size));
	if (cut)
		lose(connection, cut, span - size);
}

/* Leave out a connection for good, and tell the reader if that knows it. */
static __attribute__((noinline)) void begin_to_leave_out(struct connection *connection, u32 tid)
{
	if (!__atomic_exchange_n(&connection->is_left_out, 1, __ATOMIC_RELAXED))
		COUNT(left_out, 1);
	struct event_left_out *event =
	    GET(connection->is_announced) ? begin_record(sizeof(*event), tid, &connection->id) : 0;
	if (!event)
		return;
	fill_header(&event->header, EVENT_LEFT_OUT, tid, connection->id);
	end_record(event, sizeof(*event));
	SET(connection->is_announced, 0);
}

/* Report the handshake of a connection that ends without data, and forget it. */
static void end_handshake(struct connection *connection);

/* Whether a connection is left out. The reader may leave out more at any time; what is left out stays so. */
static inline int leave_out(struct connection *connection, u32 tid)
{
	int is_left_out = GET(connection->is_left_out);
	if (!is_left_out && connection->hash <= GET(control->sample_most))
		return 0;
	if (!is_left_out || GET(connection->is_announced))
		begin_to_leave_out(connection, tid);
	return 1;
}

/* Count `span` bytes of plaintext. Returns whether they may be emitted. */
static __attribute__((noinline)) int begin_plaintext(struct connection *connection, u32 tid, u32 direction, u64 span)
{
	connection->positions[direction] += span;
	if (leave_out(connection, tid))
		return 0;
	if (announce(connection, tid))
		return 1;
	lose(connection, CUT_NONE, span);
	return 0;
}

/* Emit the last `span` bytes of plaintext of a direction, `size` of them with their contents. */
static __attribute__((noinline)) void emit_pieces(const struct connection *connection, u32 tid, u32 direction,
						  const void *data, u64 size, u64 span, u8 cut)
{
	u64 position = connection->positions[direction] - span;
	while (span) {
		u64 captured = size < LARGEST_PIECE ? size : LARGEST_PIECE;
		u64 rest = span - captured;
		/* What has no contents is in the last record with contents. */
		u64 stands_for = size <= LARGEST_PIECE && rest < 1U << 31 ? span : captured;
		if (!stands_for)
			stands_for = 1U << 31;
		emit_piece(connection, tid, direction, data, captured, stands_for,
			   stands_for == captured ? (u8)CUT_NONE : cut, position);
		data = (const u8 *)data + captured;
		position += stands_for;
		size -= captured;
		span -= stands_for;
	}
}

/* Emit `span` bytes of plaintext that a call passed, `size` of them with their contents. */
static void emit_plaintext(struct connection *connection, u32 tid, u32 direction, const void *data, u64 size, u64 span,
			   u8 cut)
{
	if (begin_plaintext(connection, tid, direction, span))
		emit_pieces(connection, tid, direction, data, size, span, cut);
}

/* Emit the end of a direction, once. */
static void end_direction(struct connection *connection, u32 tid, u32 direction)
{
	if (!GET(connection->is_announced) || GET(connection->ended) & 1 << direction)
		return;
	struct event_ended *event = begin_record(sizeof(*event), tid, &connection->id);
	if (!event)
		return;
	fill_header(&event->header, EVENT_ENDED, tid, connection->id);
	event->header.direction = (u8)direction;
	event->position = connection->positions[direction];
	end_record(event, sizeof(*event));
	__atomic_fetch_or(&connection->ended, (u8)(1 << direction), __ATOMIC_RELAXED);
}

/* Emit the end of a connection, and forget it. */
static void close_connection(struct connection *connection, u32 tid)
{
	if (GET(connection->handshake))
		end_handshake(connection);
	if (GET(connection->is_announced)) {
		struct event_closed *event = begin_record(sizeof(*event), tid, &connection->id);
		if (event) {
			fill_header(&event->header, EVENT_CLOSED, tid, connection->id);
			event->positions[DIRECTION_READ] = connection->positions[DIRECTION_READ];
			event->positions[DIRECTION_WRITE] = connection->positions[DIRECTION_WRITE];
			end_record(event, sizeof(*event));
		} else {
			COUNT(lost_closes, 1);
		}
	}
	free_place(connection);
}
