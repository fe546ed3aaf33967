/* SPDX-License-Identifier: MIT
 *
 * Reads the rings of preloaded programs (preload/shared.h): copies their records into memory of sslsniff's own, in the
 * order of their time, and checks each there. A program may write anything into its ring at any moment, so nothing is read
 * twice, nothing that is read decides where to read or write before it was compared with the ring's size, and what a record
 * says of its process, thread and connection is replaced by what the kernel said when the ring was sent.
 *
 * A ring with a record that no preloaded library writes is damaged: nothing more is read from it.
 */
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "../../../preload/shared.h"

#include "../../../preload/cache.h"

#define EXPORTED __attribute__((visibility("default")))

#define BUSY (1U << 31)
#define DISCARDED (1U << 30)
#define HEADER_BYTES 8
#define LARGEST_RECORD (sizeof(struct event_data) + LARGEST_PIECE)
#define LARGEST_POSITION (1ULL << 62) /* of a byte in a stream: sums fit into 64 bits */
#define KNOWN_THREADS 256
#define LEAST_AHEAD (1 << 16) /* that waited in a ring whose program will need more memory soon */
#ifndef MADV_POPULATE_WRITE   /* since Linux 5.14; before, it fails */
#define MADV_POPULATE_WRITE 23
#endif
#define PUBLISHED_BYTES (1 << 16) /* a quarter of the smallest ring, and a power of two */

enum state {
	RING_GOOD,
	RING_DAMAGED,
	RING_STUCK, /* the next record is being written */
};

struct thread_number {
	u32 inside; /* as the program says; 0: free */
	u32 shown;
};

/* A ring; sslsniff/kernel/memory/shared_ring.py has it, too. */
struct ring {
	u8 *memory;
	u64 page_bytes, data_bytes;
	u64 consumed; /* the reader's own: the program can overwrite that in the ring */
	u64 end;      /* of what is read now */
	u64 filled;   /* of the data: so much has memory, as far as the reader saw to it */
	u64 number;   /* the upper half of its connections' ids, from here on */
	u64 since_ns; /* no record is older */
	u32 pid, uid;
	u32 inner_pid; /* 0: that is its pid */
	u32 state;
	struct ring *next_read;			     /* of those that are read now */
	struct thread_number threads[KNOWN_THREADS]; /* by their number's last bits */
};

EXPORTED const u32 ring_struct_bytes = sizeof(struct ring);

/* Asks for the number that is shown of a thread that is not known yet. */
typedef u32 thread_lookup(u64 ring_number, u32 tid);

static u64 *data_at(const struct ring *ring, u64 position)
{
	return (u64 *)(ring->memory + 2 * ring->page_bytes + (position & (ring->data_bytes - 1)));
}

static u64 produced(const struct ring *ring)
{
	return __atomic_load_n((u64 *)(ring->memory + ring->page_bytes), __ATOMIC_ACQUIRE);
}

static u64 record_bytes(u32 length)
{
	return ((length & ~(BUSY | DISCARDED)) + HEADER_BYTES + 7ULL) & ~7ULL;
}

/* How many bytes wait in a ring; it may turn out to be damaged. */
static u64 waiting(struct ring *ring)
{
	u64 bytes = ring->state == RING_DAMAGED ? 0 : produced(ring) - ring->consumed;
	if (bytes <= ring->data_bytes && !(bytes & 7))
		return bytes;
	ring->state = RING_DAMAGED;
	return 0;
}

struct fill {
	u64 waiting_bytes;
	u64 fullest; /* of the bytes of its ring, in 1/65536 */
	u32 damaged;
};

/* How full the rings are. */
EXPORTED void ring_fill(struct ring *const *rings, u32 count, struct fill *fill)
{
	*fill = (struct fill){0};
	for (u32 i = 0; i < count; i++) {
		u64 bytes = waiting(rings[i]);
		u64 share = (bytes << 16) / rings[i]->data_bytes;
		fill->waiting_bytes += bytes;
		fill->fullest = share > fill->fullest ? share : fill->fullest;
		fill->damaged += rings[i]->state == RING_DAMAGED;
	}
}

static void fill_words(u64 *words, u64 bytes, u64 value)
{
	for (u64 i = 0; i < bytes / 8; i++)
		words[i] = value;
}

/* Let the program use the room of all that was read. It looks there with each record: a write costs it a transfer between processors. */
static void publish(const struct ring *ring)
{
	__atomic_store_n((u64 *)ring->memory, ring->consumed, __ATOMIC_RELEASE);
}

/* Mark what was read as free in the ring's next lap, and give the room back: some of it at once. */
static void release(struct ring *ring, u64 size)
{
	u64 at = ring->consumed & (ring->data_bytes - 1);
	u64 first = ring->data_bytes - at < size ? ring->data_bytes - at : size;
	u64 lap = ring->consumed / ring->data_bytes + 1;
	fill_words(data_at(ring, ring->consumed), first, lap << 32);
	fill_words(data_at(ring, 0), size - first, (lap + 1) << 32);
	ring->consumed += size;
	if ((ring->consumed ^ (ring->consumed - size)) >= PUBLISHED_BYTES)
		publish(ring);
}

/* Copy `size` bytes, which may go on at the beginning of the ring's data. */
static void copy_out(const struct ring *ring, u64 position, u8 *to, u64 size)
{
	u64 at = position & (ring->data_bytes - 1);
	u64 first = ring->data_bytes - at < size ? ring->data_bytes - at : size;
	memcpy(to, data_at(ring, position), first);
	memcpy(to + first, ring->memory + 2 * ring->page_bytes, size - first);
}

static int is_possible_data(const struct event_data *event, u32 length)
{
	u8 cut = event->header.cut;
	return length >= sizeof(*event) && event->captured == length - sizeof(*event) &&
	       event->header.direction < DIRECTIONS && event->span >= event->captured &&
	       event->position <= LARGEST_POSITION &&
	       (event->span == event->captured ? cut == CUT_NONE : cut == CUT_CALL_LIMIT || cut == CUT_SENDFILE);
}

static int is_possible_opening(const struct event_opened *event, u32 length)
{
	return length == sizeof(*event) && event->library < LIBRARIES && event->role <= ROLE_SERVER &&
	       event->alpn_bytes <= ALPN_BYTES && event->half == HALF_NONE;
}

static int is_of_ip(u16 family)
{
	return family == AF_INET || family == AF_INET6;
}

static int is_possible_handshake(const struct event_tls_socket *event, u32 length)
{
	const struct tls_socket *found = &event->found;
	return length == sizeof(*event) && is_of_ip(found->family) &&
	       (found->start == TLS_CLIENT_HELLO || found->start == TLS_HELLO_RECEIVED) &&
	       found->sends <= NOTED_SENDS && found->hello_bytes <= HELLO_BYTES && !found->hello_start &&
	       found->ending <= ENDING_TIMED_OUT;
}

static int is_possible_failure(const struct event_failure *event, u32 length)
{
	return length == sizeof(*event) && is_possible_opening(&event->opened, sizeof(event->opened)) &&
	       event->alert >= -1 && event->alert <= 255 && (!event->socket || is_of_ip(event->family));
}

/* Whether a preloaded library may have written `record`. */
static int is_possible(const void *record, u32 length)
{
	const struct event_header *header = record;
	const struct event_addresses *addresses = record;
	const struct event_closed *closed = record;
	const struct event_ended *ended = record;
	if (length < sizeof(*header))
		return 0;
	switch (header->kind) {
	case EVENT_DATA:
		return is_possible_data(record, length);
	case EVENT_OPENED:
		return is_possible_opening(record, length);
	case EVENT_ADDRESSES:
		return length == sizeof(*addresses) && is_of_ip(addresses->family);
	case EVENT_TLS_SOCKET:
		return is_possible_handshake(record, length);
	case EVENT_FAILURE:
		return is_possible_failure(record, length);
	case EVENT_CLOSED:
		return length == sizeof(*closed) && closed->positions[0] <= LARGEST_POSITION &&
		       closed->positions[1] <= LARGEST_POSITION;
	case EVENT_ENDED:
		return length == sizeof(*ended) && header->direction < DIRECTIONS &&
		       ended->position <= LARGEST_POSITION;
	case EVENT_LEFT_OUT:
		return length == sizeof(*header);
	}
	return 0;
}

static u32 shown_thread(struct ring *ring, u32 tid, thread_lookup *look_up)
{
	struct thread_number *known = &ring->threads[tid % KNOWN_THREADS];
	if (!tid || known->inside != tid)
		*known = (struct thread_number){tid, look_up(ring->number, tid)};
	return known->shown;
}

static void attribute_opened(const struct ring *ring, struct event_opened *opened)
{
	opened->pid = ring->pid;
	opened->uid = ring->uid;
	opened->inner_pid = ring->inner_pid;
	opened->cgroup = 0;
}

static u64 possible_time(const struct ring *ring, u64 time_ns, u64 now_ns)
{
	return time_ns > now_ns ? now_ns : time_ns < ring->since_ns ? ring->since_ns : time_ns;
}

static void attribute_handshake(const struct ring *ring, struct event_tls_socket *event, u64 now_ns)
{
	struct tls_socket *found = &event->found;
	event->socket = event->header.connection;
	found->since_ns = possible_time(ring, found->since_ns, now_ns);
	if (found->ended_ns)
		found->ended_ns = possible_time(ring, found->ended_ns, now_ns);
	found->pid = ring->pid;
	found->uid = ring->uid;
	found->cgroup = 0;
}

/* Write into a copied record what the kernel says of its ring. */
static void attribute(struct ring *ring, void *record, u64 now_ns, thread_lookup *look_up)
{
	struct event_header *header = record;
	header->connection = ring->number << 32 | (u32)header->connection;
	header->tid = shown_thread(ring, header->tid, look_up);
	header->time_ns = possible_time(ring, header->time_ns, now_ns);
	if (header->kind == EVENT_OPENED) {
		attribute_opened(ring, record);
	} else if (header->kind == EVENT_FAILURE) {
		struct event_failure *failure = record;
		attribute_opened(ring, &failure->opened);
		failure->socket = failure->socket ? header->connection : 0;
	} else if (header->kind == EVENT_TLS_SOCKET) {
		attribute_handshake(ring, record, now_ns);
	} else if (header->kind == EVENT_DATA) {
		((struct event_data *)record)->task = 0;
	} else if (header->kind == EVENT_ADDRESSES) {
		((struct event_addresses *)record)->socket = 0;
	}
}

/* Move the next record of a ring to `to`, which has room for the largest one; return its bytes, 0 if none is there. */
static u64 move_record(struct ring *ring, u8 *to, u64 now_ns, thread_lookup *look_up)
{
	u64 rest = ring->end - ring->consumed;
	u64 word = rest ? __atomic_load_n(data_at(ring, ring->consumed), __ATOMIC_ACQUIRE) : 0;
	u32 length = (u32)word;
	u64 size = record_bytes(length);
	if (!rest)
		return 0;
	if ((length & ~(BUSY | DISCARDED)) > LARGEST_RECORD || size > rest || !length || length & DISCARDED) {
		ring->state = RING_DAMAGED;
		return 0;
	}
	if (length & BUSY) {
		ring->state = word >> 32 ? RING_STUCK : RING_DAMAGED; /* no thread has the number 0 */
		return 0;
	}
	fetch((u8 *)data_at(ring, ring->consumed), size); /* release writes what copy_out reads */
	copy_out(ring, ring->consumed, to, size);
	memcpy(to, &length, sizeof(length));
	if (!is_possible(to + HEADER_BYTES, length)) {
		ring->state = RING_DAMAGED;
		return 0;
	}
	attribute(ring, to + HEADER_BYTES, now_ns, look_up);
	release(ring, size);
	return size;
}

/* When the next record of a ring was written; the largest number if there is none. It decides only which ring is next. */
static u64 next_time(const struct ring *ring)
{
	if (ring->state != RING_GOOD || ring->end - ring->consumed < HEADER_BYTES + sizeof(struct event_header))
		return ring->state == RING_GOOD && ring->end != ring->consumed ? 0 : ~0ULL;
	u64 time_at = ring->consumed + HEADER_BYTES + offsetof(struct event_header, time_ns);
	u64 time_ns = __atomic_load_n(data_at(ring, time_at), __ATOMIC_RELAXED);
	return time_ns == ~0ULL ? 0 : time_ns;
}

/* Find the rings in which records are; return the first, and the others by next_read. */
static struct ring *rings_to_read(struct ring *const *rings, u32 count)
{
	struct ring *read = 0;
	for (u32 i = 0; i < count; i++) {
		struct ring *ring = rings[i];
		ring->state = ring->state == RING_STUCK ? RING_GOOD : ring->state;
		ring->end = ring->consumed + waiting(ring);
		ring->next_read = read;
		read = ring->end == ring->consumed ? read : ring;
	}
	return read;
}

/* Move records of the rings from `read` on to `to`, in the order of their time, until `room` bytes may not be enough for one
 * more; return how many bytes they have. */
static u64 move_in_order(struct ring *read, u8 *to, u64 room, u64 now_ns, thread_lookup *look_up)
{
	u64 moved = 0;
	for (;;) {
		struct ring *first = 0;
		u64 first_ns = ~0ULL, second_ns = ~0ULL;
		for (struct ring *ring = read; ring; ring = ring->next_read) {
			u64 time_ns = next_time(ring);
			if (time_ns < first_ns) {
				second_ns = first_ns;
				first_ns = time_ns;
				first = ring;
			} else if (time_ns < second_ns) {
				second_ns = time_ns;
			}
		}
		if (!first)
			return moved;
		do {
			if (room - moved < HEADER_BYTES + LARGEST_RECORD + 7)
				return moved;
			moved += move_record(first, to + moved, now_ns, look_up);
			first_ns = next_time(first);
		} while (first_ns <= second_ns && first_ns != ~0ULL);
	}
}

/* Give memory to what a busy program will write soon for the first time: else it waits for the kernel, page by page.
 * `waited`: how many bytes were in its ring. */
static void fill_ahead(struct ring *ring, u64 waited)
{
	u64 end = ring->end + 2 * waited;
	end = (end < ring->data_bytes ? end : ring->data_bytes) & ~(ring->page_bytes - 1);
	if (waited < LEAST_AHEAD || end <= ring->filled)
		return;
	madvise(ring->memory + 2 * ring->page_bytes + ring->filled, end - ring->filled, MADV_POPULATE_WRITE);
	ring->filled = end;
}

/* Move records of all rings, as move_in_order says. Only what is there at the beginning is read. */
EXPORTED u64 move_records(struct ring *const *rings, u32 count, u8 *to, u64 room, u64 now_ns, thread_lookup *look_up)
{
	struct ring *read = rings_to_read(rings, count);
	for (struct ring *ring = read; ring; ring = ring->next_read)
		fill_ahead(ring, ring->end - ring->consumed);
	u64 moved = move_in_order(read, to, room, now_ns, look_up);
	for (; read; read = read->next_read)
		publish(read);
	return moved;
}

/* The thread that writes a ring's next record; 0: that is whole, or there is none. */
EXPORTED u32 writing_thread(struct ring *ring)
{
	if (ring->state == RING_DAMAGED || !waiting(ring))
		return 0;
	u64 word = __atomic_load_n(data_at(ring, ring->consumed), __ATOMIC_ACQUIRE);
	return (u32)word & BUSY ? (u32)(word >> 32) : 0;
}

/* Skip a ring's next record, which is not finished; return its bytes, 0 if there is none. */
EXPORTED u64 skip_record(struct ring *ring)
{
	u64 rest = waiting(ring);
	u32 length = rest ? (u32)__atomic_load_n(data_at(ring, ring->consumed), __ATOMIC_ACQUIRE) : 0;
	u64 size = record_bytes(length);
	if (!(length & BUSY))
		return 0;
	if ((length & ~BUSY) > LARGEST_RECORD || size > rest) {
		ring->state = RING_DAMAGED;
		return 0;
	}
	release(ring, size);
	publish(ring);
	return size;
}

/* How many bytes of plaintext the whole records in a ring carry, as far as their lengths can be. */
EXPORTED u64 unread_plaintext(struct ring *ring)
{
	u64 end = ring->consumed + waiting(ring), bytes = 0;
	for (u64 at = ring->consumed; at < end;) {
		u32 length = (u32)__atomic_load_n(data_at(ring, at), __ATOMIC_ACQUIRE);
		u64 first = __atomic_load_n(data_at(ring, at + HEADER_BYTES), __ATOMIC_RELAXED);
		if (!length || length > LARGEST_RECORD || record_bytes(length) > end - at)
			break;
		if ((u16)first == EVENT_DATA && length >= sizeof(struct event_data))
			bytes += length - sizeof(struct event_data);
		at += record_bytes(length);
	}
	return bytes;
}
