/* SPDX-License-Identifier: MIT
 *
 * Plaintext -> packets of a capture file, in memory. Python is too slow for it: there may be a million packets a
 * second. What is the same for all packets of a connection or a thread is prepared in Python, and exceptions are
 * handled there (packing.py and its users).
 */
#define _GNU_SOURCE /* fallocate */
#include "packing.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define SPARE_BYTES 4096	       /* for zeros, and for an acknowledgement */
#define COPIED_BYTES 4096	       /* what is shorter costs less copied than handed over as a piece */
#define UNACKNOWLEDGED_BYTES (1 << 20) /* far below the window of 8 MiB */
#define IPV4_BYTES 20
#define IPV6_BYTES 40
#define ZEROS "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" /* a MAC and padding */

#define STRUCT(type) {#type, 0, sizeof(struct type)}
#define FIELD(type, field) {#type "." #field, offsetof(struct type, field), sizeof(((struct type *)0)->field)}
#define CONSTANT(name) {#name, name}

const struct layout_row contract_layouts[] = {
    STRUCT(packet_template),
    FIELD(packet_template, head),
    FIELD(packet_template, tail),
    FIELD(packet_template, head_bytes),
    FIELD(packet_template, tail_bytes),
    FIELD(packet_template, time_at),
    FIELD(packet_template, zero_bytes),
    FIELD(packet_template, tid),
    STRUCT(endpoint),
    FIELD(endpoint, pair),
    FIELD(endpoint, key),
    FIELD(endpoint, position),
    FIELD(endpoint, last_ns),
    FIELD(endpoint, templates),
    FIELD(endpoint, acknowledgement),
    FIELD(endpoint, looks),
    FIELD(endpoint, sequence),
    FIELD(endpoint, in_flight_bytes),
    FIELD(endpoint, record_bytes),
    STRUCT(endpoint_pair),
    FIELD(endpoint_pair, ends),
    FIELD(endpoint_pair, settled),
    FIELD(endpoint_pair, speaker),
    FIELD(batch, bytes),
    FIELD(record, length),
    FIELD(record, event),
    STRUCT(record),
    {NULL, 0, 0},
};

const struct constant_row contract_constants[] = {
    CONSTANT(BATCH_BYTES),     CONSTANT(KEPT_TEMPLATES), CONSTANT(DIRECTIONS),
    CONSTANT(MOST_DATA_BYTES), CONSTANT(DISCARDED),	 {NULL, 0},
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

/* Say whether there is room for a packet and an acknowledgement. There is while the batch is not full, unless the
 * packet is longer than any that sslsniff writes. */
static int has_room(const struct batch *batch, const struct packet_template *template, __u32 size)
{
	__u64 bytes = (__u64)template->head_bytes + size + template->tail_bytes;
	return batch->text_bytes + bytes + SPARE_BYTES <= ROOM_BYTES && batch->count + 4 <= MOST_PIECES;
}

static void set_word(char *at, __u32 word)
{
	memcpy(at, &word, sizeof(word));
}

static void set_half(unsigned char *at, __u32 half)
{
	at[0] = half >> 8;
	at[1] = half;
}

/* Fill in an IP header's length and checksum; return how long the header is. */
static __u32 finish_ip(unsigned char *ip, __u32 bytes)
{
	if (ip[0] >> 4 == 6) {
		set_half(ip + 4, bytes - IPV6_BYTES);
		return IPV6_BYTES;
	}
	set_half(ip + 2, bytes);
	set_half(ip + 10, 0);
	__u32 sum = 0;
	for (int i = 0; i < IPV4_BYTES; i += 2)
		sum += ip[i] << 8 | ip[i + 1];
	sum = (sum & 0xFFFF) + (sum >> 16); /* RFC 1071 */
	set_half(ip + 10, ~(sum + (sum >> 16)));
	return IPV4_BYTES;
}

/* Add a packet; `stays` says that the data stays where it is until the batch is cleared. */
static void put(struct batch *batch, const struct packet_template *template, __u64 time_ns, __u32 sequence,
		__u32 acknowledged, const char *data, __u32 size, int stays)
{
	char *head = copy(batch, template->head, template->head_bytes);
	char *times = head + template->time_at;
	char *packet = times + 4 * sizeof(__u32);
	__u32 bytes = head + template->head_bytes - packet + size + template->zero_bytes;
	set_word(times, time_ns / batch->high_ns);
	set_word(times + 4, time_ns % batch->high_ns / batch->low_ns);
	set_word(times + 8, bytes);
	set_word(times + 12, bytes);
	char *tcp = packet + finish_ip((unsigned char *)packet, bytes);
	set_word(tcp + 4, htobe32(sequence));
	set_word(tcp + 8, htobe32(acknowledged));
	if (template->zero_bytes)
		set_half((unsigned char *)head + template->head_bytes - 2, size + template->zero_bytes);
	if (stays && size >= COPIED_BYTES)
		point_to(batch, data, size);
	else
		copy(batch, data, size);
	copy(batch, ZEROS, template->zero_bytes + (template->tail_bytes ? -bytes & 3 : 0));
	if (template->tail_bytes) { /* a block of pcapng has its length at both ends */
		char *block_end = copy(batch, template->tail, template->tail_bytes) + template->tail_bytes;
		__u32 block_bytes = template->time_at + 16 + ((bytes + 3) & ~3U) + template->tail_bytes;
		set_word(head + 4, block_bytes);
		set_word(block_end - 4, block_bytes);
	}
}

/* TCP's sequence numbers in a packet: of its first byte, and of the next byte that its sender expects. */
struct numbers {
	__u32 sequence, acknowledged;
};

static struct endpoint *peer_of(const struct endpoint *endpoint)
{
	return endpoint->pair->ends + (endpoint == endpoint->pair->ends);
}

/* Return the numbers of the next packet of a direction, which takes `count` of them: a byte of data one, SYN and FIN too
 * (RFC 9293, 3.4). Every packet acknowledges all that the peer sent. */
static struct numbers advance(struct endpoint *endpoint, __u32 count)
{
	struct endpoint *peer = peer_of(endpoint);
	struct numbers numbers = {endpoint->sequence, peer->sequence};
	endpoint->sequence += count;
	endpoint->in_flight_bytes += count;
	peer->in_flight_bytes = 0;
	return numbers;
}

/* Add the next packet of a direction with data, and now and then the peer's acknowledgement. Return 0 if there is no room. */
static int put_next(struct batch *batch, struct endpoint *endpoint, const struct packet_template *template,
		    __u64 time_ns, const char *data, __u32 size, int stays)
{
	__u32 bytes = size + endpoint->record_bytes;
	if (!has_room(batch, template, size))
		return 0;
	struct numbers numbers = advance(endpoint, bytes);
	put(batch, template, time_ns, numbers.sequence, numbers.acknowledged, data, size, stays);
	endpoint->position += size;
	endpoint->last_ns = time_ns;
	if (endpoint->in_flight_bytes > UNACKNOWLEDGED_BYTES) {
		put(batch, peer_of(endpoint)->acknowledgement, time_ns, numbers.acknowledged, endpoint->sequence, "", 0,
		    0);
		endpoint->in_flight_bytes = 0;
	}
	return 1;
}

/* Return the template for an event's packet; NULL if Python has to handle the event. */
static const struct packet_template *next_template(const struct endpoint *endpoint, const struct event_data *event)
{
	const struct endpoint_pair *pair = endpoint->pair;
	if (event->position != endpoint->position || event->captured > MOST_DATA_BYTES)
		return NULL;
	if (!pair->settled && (endpoint->looks || endpoint != pair->ends + pair->speaker))
		return NULL;
	for (int i = 0; i < KEPT_TEMPLATES && endpoint->templates[i]; i++)
		if (endpoint->templates[i]->tid == event->header.tid)
			return endpoint->templates[i];
	return NULL;
}

/* Return the key of a direction's records, as sslsniff/core/fast_path.py computes it. */
static __u64 direction_key(const struct event_header *header)
{
	return header->connection << 1 | header->direction;
}

/* Return the event of a record with complete data, NULL for all other records. */
static const struct event_data *data_of(const struct record *record)
{
	__u32 length = __atomic_load_n(&record->length, __ATOMIC_ACQUIRE); /* the kernel writes it at last */
	const struct event_data *event = &record->event;
	if (length >= DISCARDED || length < sizeof(*event) || event->header.kind != EVENT_DATA ||
	    event->header.cut != CUT_NONE)
		return NULL;
	if (!event->captured || event->captured != event->span || event->captured > length - sizeof(*event))
		return NULL;
	return event;
}

int batch_add(struct batch *batch, const char *data, __u32 size)
{
	if (batch->text_bytes + size > ROOM_BYTES || batch->count == MOST_PIECES)
		return 0;
	copy(batch, data, size);
	return 1;
}

/* Add a packet that takes `count` sequence numbers; the first one of a connection acknowledges nothing. */
int batch_put(struct batch *batch, struct endpoint *endpoint, const struct packet_template *template, __u64 time_ns,
	      __u32 count, int acknowledges, const char *data, __u32 size)
{
	if (!has_room(batch, template, size))
		return 0;
	struct numbers numbers = advance(endpoint, count);
	put(batch, template, time_ns, numbers.sequence, acknowledges ? numbers.acknowledged : 0, data, size, 0);
	return 1;
}

int batch_put_next(struct batch *batch, struct endpoint *endpoint, const struct packet_template *template,
		   __u64 time_ns, const char *data, __u32 size)
{
	return put_next(batch, endpoint, template, time_ns, data, size, 0);
}

/* Add packets for the records of `ring` from `position` to `limit`, until the batch is full or a record needs more than
 * a packet. Return the position of the first record that was not handled. `key` is that of the records of `endpoint`. */
__u64 batch_follow(struct batch *batch, struct endpoint *endpoint, __u64 key, const char *ring, __u64 position,
		   __u64 limit, __s64 clock_offset_ns)
{
	endpoint->key = key;
	batch->known[key % KNOWN_ENDPOINTS] = endpoint;
	while (position < limit && batch->bytes < BATCH_BYTES) {
		const struct record *record = (const struct record *)(ring + position);
		const struct event_data *event = data_of(record);
		if (!event)
			break;
		key = direction_key(&event->header);
		endpoint = batch->known[key % KNOWN_ENDPOINTS];
		if (!endpoint || endpoint->key != key)
			break;
		const struct packet_template *template = next_template(endpoint, event);
		if (!template)
			break;
		__u64 time_ns = event->header.time_ns + clock_offset_ns;
		if (!put_next(batch, endpoint, template, time_ns, record->data, event->captured, 1))
			break;
		position += (offsetof(struct record, event) + record->length + 7) & ~7ULL;
	}
	return position;
}

/* Forget the key of an endpoint's records. */
void batch_forget(struct batch *batch, struct endpoint *endpoint)
{
	struct endpoint **known = batch->known + endpoint->key % KNOWN_ENDPOINTS;
	if (*known == endpoint)
		*known = NULL;
	endpoint->key = 0;
}

/* Write the batch without its first `skipped` bytes; return how many were written, or a negative errno. */
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

/* Reserve space for a file before it grows: writing then costs a quarter less on ext4. Errors do not matter: some file
 * systems cannot reserve space. */
void reserve(int fd, __u64 position, __u64 bytes)
{
	fallocate(fd, FALLOC_FL_KEEP_SIZE, position, bytes);
}

/* Copy the whole batch. */
void batch_join(const struct batch *batch, char *joined)
{
	for (__u32 i = 0; i < batch->count; i++) {
		memcpy(joined, batch->pieces[i].iov_base, batch->pieces[i].iov_len);
		joined += batch->pieces[i].iov_len;
	}
}
