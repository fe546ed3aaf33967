/* SPDX-License-Identifier: MIT
 *
 * Plaintext -> packets of a capture file, in memory. The one thing that Python is too slow for: it is little that is to
 * be done for a packet, but up to a million times a second. Whatever can be said before, of the packets of a length and of a
 * connection, and whatever is out of the ordinary is left to packing.py and those who use it.
 */
#define _GNU_SOURCE /* fallocate */
#include <linux/types.h>
#include "event.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define BATCH_BYTES (1 << 20)	     /* as in packing.py */
#define ROOM_BYTES (2 * BATCH_BYTES) /* for a batch and one more packet */
#define SPARE_BYTES 4096
#define MOST_PIECES 1024	       /* IOV_MAX */
#define COPIED_BYTES 4096	       /* what is shorter costs less copied than handed over as a piece */
#define UNACKNOWLEDGED_BYTES (1 << 20) /* far below the window of 8 MiB */
#define KNOWN_ENDS 4096
#define KEPT_SHAPES 8
#define NOT_A_LENGTH (1U << 30) /* a record's first word that is busy or discarded (kernel/bpf/ringbuf.c) */

/* What the packets of one length, from one thread, have in common: all but times, numbers and data. */
struct shape {
	const char *head, *tail; /* before and behind the data */
	__u32 size;		 /* of the data */
	__u32 head_bytes, tail_bytes;
	__u32 time_at, numbers_at; /* where in the head, two words each */
	__u32 tid;
};

/* One direction of a connection. */
struct end {
	struct pair *pair;
	__u64 key; /* of its records; 0: not known */
	__u64 position, last_ns;
	const struct shape *shapes[KEPT_SHAPES];
	const struct shape *acknowledgement; /* of what the peer sent */
	__u32 looks;			     /* among so many of its next packets a message's beginning is looked for */
	__u32 sequence;
	__u32 in_flight_bytes; /* sent, and not acknowledged by the peer */
	__u32 record_bytes;    /* what a TLS record adds to the data */
};

/* Both directions. */
struct pair {
	struct end ends[DIRECTIONS];
	__u32 settled; /* what follows can be dissected */
	__u32 speaker; /* whose bytes were looked at last */
};

/* Packets in the order of the file: `pieces` of `text`, and of other memory that stays until the batch is cleared. */
struct batch {
	__u64 bytes;
	__u64 high_ns, low_ns; /* a time is so many of the one, and so many of the other behind them */
	__u32 count, text_bytes;
	struct end *known[KNOWN_ENDS]; /* by the last bits of their keys */
	struct iovec pieces[MOST_PIECES];
	char text[ROOM_BYTES];
};

struct record {
	__u32 length, page; /* kernel/bpf/ringbuf.c */
	struct event_data event;
	char data[];
};

struct batch *batch_new(__u64 high_ns, __u64 low_ns)
{
	struct batch *batch = calloc(1, sizeof(*batch));
	if (batch) {
		batch->high_ns = high_ns;
		batch->low_ns = low_ns;
	}
	return batch;
}

void batch_free(struct batch *batch)
{
	free(batch);
}

void batch_clear(struct batch *batch)
{
	batch->bytes = batch->count = batch->text_bytes = 0;
}

static void point_to(struct batch *batch, const char *data, __u32 size)
{
	struct iovec *last = batch->pieces + batch->count - 1;
	if (batch->count && (char *)last->iov_base + last->iov_len == data)
		last->iov_len += size;
	else
		batch->pieces[batch->count++] = (struct iovec){(char *)data, size};
	batch->bytes += size;
}

static char *copy(struct batch *batch, const char *data, __u32 size)
{
	char *copied = memcpy(batch->text + batch->text_bytes, data, size);
	batch->text_bytes += size;
	point_to(batch, copied, size);
	return copied;
}

/* Say whether so many bytes find room, and an acknowledgement: they do while the batch is not full, unless it is a packet
 * longer than any of ours. */
static int has_room(const struct batch *batch, __u64 size)
{
	return batch->text_bytes + size + SPARE_BYTES <= ROOM_BYTES && batch->count + 4 <= MOST_PIECES;
}

static __u64 bytes_of(const struct shape *shape)
{
	return (__u64)shape->head_bytes + shape->size + shape->tail_bytes;
}

/* Add a packet; `stays` says that the data will lie where it is until the batch is cleared. */
static void put(struct batch *batch, const struct shape *shape, __u64 time_ns, __u32 sequence, __u32 acknowledged,
		const char *data, int stays)
{
	char *head = copy(batch, shape->head, shape->head_bytes);
	__u32 times[] = {time_ns / batch->high_ns, time_ns % batch->high_ns / batch->low_ns};
	__u32 numbers[] = {htobe32(sequence), htobe32(acknowledged)};
	memcpy(head + shape->time_at, times, sizeof(times));
	memcpy(head + shape->numbers_at, numbers, sizeof(numbers));
	if (stays && shape->size >= COPIED_BYTES)
		point_to(batch, data, shape->size);
	else
		copy(batch, data, shape->size);
	copy(batch, shape->tail, shape->tail_bytes);
}

static struct end *peer_of(const struct end *end)
{
	return end->pair->ends + (end == end->pair->ends);
}

/* Add the next packet of a direction with data, and now and then the peer's acknowledgement. Return 0 if there is no room. */
static int put_next(struct batch *batch, struct end *end, const struct shape *shape, __u64 time_ns, const char *data,
		    int stays)
{
	struct end *peer = peer_of(end);
	__u32 bytes = shape->size + end->record_bytes;
	if (!has_room(batch, bytes_of(shape)))
		return 0;
	put(batch, shape, time_ns, end->sequence, peer->sequence, data, stays);
	end->sequence += bytes;
	end->in_flight_bytes += bytes;
	peer->in_flight_bytes = 0;
	end->position += shape->size;
	end->last_ns = time_ns;
	if (end->in_flight_bytes > UNACKNOWLEDGED_BYTES) {
		put(batch, peer->acknowledgement, time_ns, peer->sequence, end->sequence, "", 0);
		end->in_flight_bytes = 0;
	}
	return 1;
}

/* Return the shape of the next packet of a direction if it is one of many: NULL where there is more to be done for it. */
static const struct shape *next_shape(const struct end *end, const struct event_data *event)
{
	const struct pair *pair = end->pair;
	if (event->position != end->position)
		return NULL;
	if (!pair->settled && (end->looks || end != pair->ends + pair->speaker))
		return NULL;
	for (int i = 0; i < KEPT_SHAPES && end->shapes[i]; i++) {
		const struct shape *shape = end->shapes[i];
		if (shape->size == event->captured && shape->tid == event->header.tid)
			return shape;
	}
	return NULL;
}

/* Return the data event of a record that is whole, NULL for all others. */
static const struct event_data *data_of(const struct record *record)
{
	__u32 length = __atomic_load_n(&record->length, __ATOMIC_ACQUIRE); /* the kernel writes it at last */
	const struct event_data *event = &record->event;
	if (length >= NOT_A_LENGTH || event->header.kind != EVENT_DATA || event->header.cut != CUT_NONE)
		return NULL;
	if (!event->captured || event->captured != event->span || event->captured > length - sizeof(*event))
		return NULL;
	return event;
}

int batch_add(struct batch *batch, const char *data, __u32 size)
{
	if (!has_room(batch, size))
		return 0;
	copy(batch, data, size);
	return 1;
}

int batch_put(struct batch *batch, const struct shape *shape, __u64 time_ns, __u32 sequence, __u32 acknowledged,
	      const char *data)
{
	if (!has_room(batch, bytes_of(shape)))
		return 0;
	put(batch, shape, time_ns, sequence, acknowledged, data, 0);
	return 1;
}

int batch_put_next(struct batch *batch, struct end *end, const struct shape *shape, __u64 time_ns, const char *data)
{
	return put_next(batch, end, shape, time_ns, data, 0);
}

/* Add what records of `ring` say from `position` to `limit`, until the batch is full or one says something else; return the
 * position of what is left. The records of `end` come under `key`. */
__u64 batch_follow(struct batch *batch, struct end *end, __u64 key, const char *ring, __u64 position, __u64 limit,
		   __s64 clock_offset_ns)
{
	end->key = key;
	batch->known[key % KNOWN_ENDS] = end;
	while (position < limit && batch->bytes < BATCH_BYTES) {
		const struct record *record = (const struct record *)(ring + position);
		const struct event_data *event = data_of(record);
		if (!event)
			break;
		key = event->header.connection << 1 | event->header.direction;
		end = batch->known[key % KNOWN_ENDS];
		if (!end || end->key != key)
			break;
		const struct shape *shape = next_shape(end, event);
		if (!shape || !put_next(batch, end, shape, event->header.time_ns + clock_offset_ns, record->data, 1))
			break;
		position += (offsetof(struct record, event) + record->length + 7) & ~7ULL;
	}
	return position;
}

/* Forget what the records of an end are. */
void batch_forget(struct batch *batch, struct end *end)
{
	struct end **known = batch->known + end->key % KNOWN_ENDS;
	if (*known == end)
		*known = NULL;
	end->key = 0;
}

/* Write what is behind the first `skipped` bytes; return how many were written, or a negative errno. */
long batch_write(const struct batch *batch, int fd, __u64 skipped)
{
	struct iovec rest[MOST_PIECES];
	int count = 0;
	for (__u32 i = 0; i < batch->count; i++) {
		struct iovec piece = batch->pieces[i];
		__u64 before = skipped < piece.iov_len ? skipped : piece.iov_len;
		skipped -= before;
		if (before < piece.iov_len)
			rest[count++] = (struct iovec){(char *)piece.iov_base + before, piece.iov_len - before};
	}
	ssize_t written = writev(fd, rest, count);
	return written < 0 ? -errno : written;
}

/* Give a file room before it grows into it: to write costs a quarter less on ext4. A file system that cannot do so is none
 * the worse for it. */
void reserve(int fd, __u64 position, __u64 bytes)
{
	fallocate(fd, FALLOC_FL_KEEP_SIZE, position, bytes);
}

/* Copy all of it. */
void batch_join(const struct batch *batch, char *joined)
{
	for (__u32 i = 0; i < batch->count; i++) {
		memcpy(joined, batch->pieces[i].iov_base, batch->pieces[i].iov_len);
		joined += batch->pieces[i].iov_len;
	}
}
