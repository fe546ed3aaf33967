/* SPDX-License-Identifier: MIT
 *
 * Writes what happens on connections as records of bpf/event.h.
 */
#include <time.h>
#include <sys/socket.h>

#define PIECE_BYTES (1 << 16) /* of a call's plaintext in one record */

static inline void fill_header(struct event_header *header, u16 kind, u32 tid, u64 connection)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	*header = (struct event_header){
	    .kind = kind,
	    .tid = tid,
	    .time_ns = (u64)now.tv_sec * 1000000000 + (u64)now.tv_nsec,
	    .connection = connection,
	};
}

/* What the library's object knows of its connection. */
static void describe(struct event_opened *event, const struct connection *connection);

static inline void lose(u8 cut, u64 bytes)
{
	add_to(&writer->lost[cut].events, 1);
	add_to(&writer->lost[cut].bytes, bytes);
}

/* Announce a connection. Returns whether there was room. The library is asked before the record begins: the
 * reader waits for a record that has begun. */
static __attribute__((noinline)) int announce_opened(struct connection *connection, u32 tid)
{
	struct event_opened opened = {
	    .pid = process->pid,
	    .inner_pid = process->inner_pid,
	    .uid = process->uid,
	    .object = connection->object,
	    .library = connection->library->name,
	    .from_start = connection->from_start,
	    .role = connection->role,
	};
	if (tid == process->pid) /* the name of a process is that of its first thread, which may change it */
		system_call(__NR_prctl, PR_GET_NAME, (long)process->comm, 0, 0, 0, 0);
	memcpy(opened.comm, process->comm, COMM_BYTES);
	describe(&opened, connection);
	struct event_opened *event = begin_record(sizeof(*event), tid);
	if (!event)
		return 0;
	fill_header(&opened.header, EVENT_OPENED, tid, connection->id);
	*event = opened;
	end_record(event, sizeof(*event));
	SET(connection->is_announced, 1);
	return 1;
}

/* An address and port out of a sockaddr_in or sockaddr_in6 (their port is in network order, at 2). */
static inline u16 take_address(const u8 *from, u8 *address)
{
	u16 family;
	memcpy(&family, from, 2);
	memcpy(address, from + (family == AF_INET ? 4 : 8), family == AF_INET ? 4 : 16);
	return (u16)(from[2] << 8 | from[3]);
}

/* Read the addresses of a descriptor; 0: it is no connected socket of IP. */
static int read_addresses(int descriptor, struct event_addresses *event)
{
	u8 local[28] = {0}, remote[28] = {0};
	int local_bytes = sizeof(local), remote_bytes = sizeof(remote);
	if (system_call(__NR_getpeername, descriptor, (long)remote, (long)&remote_bytes, 0, 0, 0) ||
	    system_call(__NR_getsockname, descriptor, (long)local, (long)&local_bytes, 0, 0, 0))
		return 0;
	memcpy(&event->family, remote, 2);
	if (event->family != AF_INET && event->family != AF_INET6)
		return 0;
	event->local_port = take_address(local, event->local);
	event->remote_port = take_address(remote, event->remote);
	return 1;
}

/* Announce the addresses of the connection's socket, if it has any; again later if there is no room. */
static __attribute__((noinline)) void announce_addresses(struct connection *connection, u32 tid)
{
	struct event_addresses addresses = {0};
	if (!read_addresses(GET(connection->descriptor) - 1, &addresses)) {
		SET(connection->descriptor, 0);
		return;
	}
	struct event_addresses *event = begin_record(sizeof(*event), tid);
	if (!event)
		return;
	fill_header(&addresses.header, EVENT_ADDRESSES, tid, connection->id);
	*event = addresses;
	end_record(event, sizeof(*event));
	SET(connection->has_addresses, 1);
}

/* Before an event of a connection: announce it and its addresses, once. Returns whether the event may follow. */
static inline int announce(struct connection *connection, u32 tid)
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
	struct event_data *event = begin_record((u32)(sizeof(*event) + size), tid);
	if (!event) {
		lose(CUT_NONE, span);
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
		lose(cut, span - size);
}

/* Leave out a connection for good, and tell the reader if that knows it. */
static __attribute__((noinline)) void begin_to_leave_out(struct connection *connection, u32 tid)
{
	if (!__atomic_exchange_n(&connection->is_left_out, 1, __ATOMIC_RELAXED))
		add_to(&writer->left_out, 1);
	struct event_left_out *event = GET(connection->is_announced) ? begin_record(sizeof(*event), tid) : 0;
	if (!event)
		return;
	fill_header(&event->header, EVENT_LEFT_OUT, tid, connection->id);
	end_record(event, sizeof(*event));
	SET(connection->is_announced, 0);
}

/* Whether a connection is left out. The reader may leave out more at any time; what is left out stays so. */
static inline int leave_out(struct connection *connection, u32 tid)
{
	int is_left_out = GET(connection->is_left_out);
	if (!is_left_out && connection->hash <= GET(reader->sample_most))
		return 0;
	if (!is_left_out || GET(connection->is_announced))
		begin_to_leave_out(connection, tid);
	return 1;
}

/* Emit `span` bytes of plaintext that a call passed, `size` of them with their contents. */
static void emit_plaintext(struct connection *connection, u32 tid, u32 direction, const void *data, u64 size, u64 span,
			   u8 cut)
{
	u64 position = connection->positions[direction];
	connection->positions[direction] += span;
	if (leave_out(connection, tid))
		return;
	if (!announce(connection, tid)) {
		lose(CUT_NONE, span);
		return;
	}
	while (span) {
		u64 captured = size < PIECE_BYTES ? size : PIECE_BYTES;
		u64 rest = span - captured;
		/* What has no contents is in the last record with contents. */
		u64 stands_for = size <= PIECE_BYTES && rest < 1U << 31 ? span : captured;
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

/* Emit the end of a direction, once. */
static void end_direction(struct connection *connection, u32 tid, u32 direction)
{
	if (!GET(connection->is_announced) || GET(connection->ended) & 1 << direction)
		return;
	struct event_ended *event = begin_record(sizeof(*event), tid);
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
	if (GET(connection->is_announced)) {
		struct event_closed *event = begin_record(sizeof(*event), tid);
		if (event) {
			fill_header(&event->header, EVENT_CLOSED, tid, connection->id);
			event->positions[DIRECTION_READ] = connection->positions[DIRECTION_READ];
			event->positions[DIRECTION_WRITE] = connection->positions[DIRECTION_WRITE];
			end_record(event, sizeof(*event));
		} else {
			add_to(&writer->lost_closes, 1);
		}
	}
	free_place(connection);
}

/* Emit that this process begins a program: what it had open before is gone. */
static void announce_program(void)
{
	const struct thread *thread = this_thread();
	struct event_exited *event = begin_record(sizeof(*event), thread->tid);
	if (!event) {
		add_to(&writer->lost_exits, 1);
		return;
	}
	fill_header(&event->header, EVENT_EXITED, thread->tid, 0);
	event->pid = thread->pid;
	event->pad = 0;
	end_record(event, sizeof(*event));
}
