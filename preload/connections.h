/* SPDX-License-Identifier: MIT
 *
 * The connections of this process, by the address of the library's object. The table has a fixed size, and the kernel gives
 * a forked child an empty one: what parent and child do with their copies of an object are two connections.
 */
#pragma once

#include "library.h"

#ifndef BUCKETS /* a test makes them few, so that threads meet */
#define BUCKETS 8192
#endif
#define BUCKET_CONNECTIONS 8
#define PROBED_BUCKETS 4

/* How far a connection is; only its first phase is noted (handshakes.h), and of the next ones that its library gives it up. */
enum phase {
	PHASE_HANDSHAKE,
	PHASE_NOT_NOTED, /* there is no room to note it */
	PHASE_SENT,	 /* data was written */
	PHASE_ANSWERED,	 /* data was read, or the connection is older than the capture */
};

struct connection {
	u64 object;		 /* 0: free */
	struct library *library; /* that of an earlier connection, until it is ready */
	u64 is_ready;
	/* From here on only those look that found it ready. */
	u64 id;
	u64 positions[DIRECTIONS];
	u64 pending;	       /* bytes that count already, and that a later call will return (GnuTLS) */
	int descriptor, rival; /* of the socket, plus 1; and of one that may be it instead */
	int without_addresses; /* of one that is of another family, plus 1: asked once */
	int references;
	int inside; /* a descriptor that was used inside of the present call, plus 1 */
	int direct; /* calls inside of which the descriptor was used, and no other in between; CERTAIN at most */
	u32 hash;   /* by which sampling chooses */
	u8 is_announced, has_addresses, from_start, ended, role, is_left_out;
	u8 phase;      /* enum phase */
	u8 failures;   /* records that said so */
	u16 handshake; /* the place of its handshake, plus 1; 0: none */
};

#define CONNECTIONS_BYTES (sizeof(struct connection) * BUCKETS * BUCKET_CONNECTIONS)

static struct connection *connections; /* 0: this process is not watched */
static u8 had_connection;

/* Whether there was any connection. Before that, socket calls tell nothing. */
static inline int has_connections(void)
{
	return __atomic_load_n(&had_connection, __ATOMIC_RELAXED);
}

static inline u64 mix(u64 value)
{
	value *= 0x9E3779B97F4A7C15ULL;
	return value ^ value >> 32;
}

static inline struct connection *bucket(u64 object, u32 probe)
{
	return connections + ((mix(object) + probe) & (BUCKETS - 1)) * BUCKET_CONNECTIONS;
}

/* A connection that all is known of; 0 while another thread fills it in. */
static inline struct connection *if_ready(struct connection *connection)
{
	return __atomic_load_n(&connection->is_ready, __ATOMIC_ACQUIRE) ? connection : 0;
}

static inline struct connection *find_connection(u64 object)
{
	for (u32 probe = 0; connections && probe < PROBED_BUCKETS; probe++) {
		struct connection *first = bucket(object, probe);
		for (u32 i = 0; i < BUCKET_CONNECTIONS; i++)
			if (__atomic_load_n(&first[i].object, __ATOMIC_ACQUIRE) == object)
				return if_ready(first + i);
	}
	return 0;
}

/* The id of a new connection; without a ring, nobody reads it. */
static u64 new_id(void)
{
	struct writer_page *writer = enter_record();
	u32 number = writer ? (u32)(__atomic_fetch_add(&writer->connections, 1, __ATOMIC_RELAXED) + 1) : 0;
	leave_record();
	return (u64)this_thread()->pid << 32 | number;
}

static void begin_connection(struct connection *connection, struct library *library, int from_start)
{
	u64 id = new_id();
	__atomic_store_n(&had_connection, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&connection->library, library, __ATOMIC_RELAXED);
	u64 first = __builtin_offsetof(struct connection, id);
	memset((u8 *)connection + first, 0, sizeof(*connection) - first);
	connection->id = id;
	connection->references = 1;
	connection->from_start = from_start != 0;
	connection->phase = from_start ? PHASE_HANDSHAKE : PHASE_ANSWERED;
	connection->hash = scatter(id);
	__atomic_store_n(&connection->is_ready, 1, __ATOMIC_RELEASE);
}

/* Give an object a connection; 0: there is no room, or another thread is about to. */
static struct connection *take_place(u64 object, struct library *library, int from_start)
{
	for (u32 probe = 0; probe < PROBED_BUCKETS; probe++) {
		struct connection *first = bucket(object, probe);
		for (u32 i = 0; i < BUCKET_CONNECTIONS; i++) {
			/* A place that is taken is only read: its threads do not expect a write, not even of the same. */
			u64 seen = __atomic_load_n(&first[i].object, __ATOMIC_ACQUIRE);
			if (!seen && __atomic_compare_exchange_n(&first[i].object, &seen, object, 0, __ATOMIC_ACQ_REL,
								 __ATOMIC_ACQUIRE)) {
				begin_connection(first + i, library, from_start);
				return first + i;
			}
			if (seen == object) /* another thread was faster */
				return if_ready(first + i);
		}
	}
	return 0;
}

/* A connection for an object that has none; 0: the call is counted, and not captured. */
static __attribute__((noinline)) struct connection *add_connection(u64 object, struct library *library, int from_start)
{
	struct connection *connection = take_place(object, library, from_start);
	if (!connection)
		COUNT(untracked, 1);
	return connection;
}

/* Forget a connection: its place is free. */
static inline void free_place(struct connection *connection)
{
	__atomic_store_n(&connection->is_ready, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&connection->object, 0, __ATOMIC_RELEASE);
}
