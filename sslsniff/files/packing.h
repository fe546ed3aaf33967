/* SPDX-License-Identifier: MIT
 *
 * The contract between packing.c and packing.py: structs that both use, and constants that both need.
 * The library exports the layouts and the values; tests/unit/files/test_packing_contract.py compares them with Python's.
 */
#ifndef SSLSNIFF_PACKING_H
#define SSLSNIFF_PACKING_H

#include <linux/types.h>
#include "event.h"

#include <sys/uio.h>

#define BATCH_BYTES (1 << 20)	     /* a batch of this size or more is full, and has to be written */
#define ROOM_BYTES (2 * BATCH_BYTES) /* for a batch and one more packet */
#define MOST_PIECES 1024	     /* IOV_MAX */
#define MOST_DATA_BYTES 16384	     /* of a TLS record, and so of a packet */
#define KNOWN_ENDPOINTS 4096
#define KEPT_TEMPLATES 8     /* of a direction at once: one for each thread that takes turns */
#define DISCARDED (1U << 30) /* a record's first word that is not less is busy or discarded (kernel/bpf/ringbuf.c) */

/* What the packets of one thread have in common. A packet in the file is `head`, with room for times, lengths and
 * sequence numbers, then data, zeros, and, if the format has a `tail`, padding and `tail`. */
struct packet_template {
	const char *head, *tail;
	__u32 head_bytes, tail_bytes;
	__u32 time_at;	  /* where in the head: two words of time, then twice the packet's length, then the packet */
	__u32 zero_bytes; /* of the MAC of a TLS record, whose header ends the head; 0: no TLS record */
	__u32 tid;
};

/* One direction of a connection. */
struct endpoint {
	struct endpoint_pair *pair;
	__u64 key; /* of its records; 0: not known */
	__u64 position, last_ns;
	const struct packet_template *templates[KEPT_TEMPLATES];
	const struct packet_template *acknowledgement; /* of what the peer sent */
	__u32 looks; /* in so many of its next packets the start of a message is still searched for */
	__u32 sequence;
	__u32 in_flight_bytes; /* sent, and not acknowledged by the peer */
	__u32 record_bytes;    /* what a TLS record adds to the data */
};

/* Both directions. */
struct endpoint_pair {
	struct endpoint ends[DIRECTIONS];
	__u32 settled; /* what follows can be dissected */
	__u32 speaker; /* the direction whose bytes were searched last */
};

/* Packets in the order of the file: `pieces` of `text`, and of other memory that stays until the batch is cleared. Python
 * reads `bytes` only. */
struct batch {
	__u64 bytes;
	__u64 high_ns, low_ns; /* units of the two words of a time: the second counts the rest of the first */
	__u32 count, text_bytes;
	struct endpoint *known[KNOWN_ENDPOINTS]; /* by the last bits of their keys */
	struct iovec pieces[MOST_PIECES];
	char text[ROOM_BYTES];
};

/* A record of the ring buffer that has plaintext. */
struct record {
	__u32 length, page; /* kernel/bpf/ringbuf.c */
	struct event_data event;
	char data[];
};

/* What the library exports, for the test: each ends with a row that has no name. */
struct layout_row {
	const char *name; /* of a struct, or of a field as "struct.field" */
	__u64 offset, size;
};

struct constant_row {
	const char *name;
	__u64 value;
};

extern const struct layout_row contract_layouts[];
extern const struct constant_row contract_constants[];

#endif
