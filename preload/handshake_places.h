/* SPDX-License-Identifier: MIT
 *
 * Where the handshakes are noted that run: a place for each, of a fixed number, shared by the threads of a process and of its connections.
 * A thread takes a place while it reads or writes the rest of it; no other waits for it.
 */
#pragma once

#include "records.h"

#define HANDSHAKES 1024	      /* at once; beyond, one is counted and not shown */
#define RECORD_HEADER_BYTES 5 /* RFC 8446, sections 5.1 and 6 */

struct handshake {
	u32 is_taken;	/* by a thread that reads or writes the rest: no other waits for it */
	int descriptor; /* that was used inside of a call, plus 1 */
	u64 connection; /* its id; 0: free */
	u32 verified;	/* what the program asked GnuTLS of the peer's certificate; 0: nothing */
	u32 answer_bytes, hello_bytes;
	u8 is_reported;
	u8 has_header; /* of a record, and nothing else, was received last: */
	u8 header[RECORD_HEADER_BYTES];
	struct tls_socket found;
};

struct handshakes {
	u32 running;
	u32 next; /* probably free */
	struct handshake all[HANDSHAKES];
};

/* Of this process; a forked child gets it empty, as it does connections. */
static struct handshakes *handshakes;

static inline u32 running_handshakes(void)
{
	return handshakes ? GET(handshakes->running) : 0;
}

/* The handshake of a connection; 0: nothing is noted of it. */
static struct handshake *handshake_of(const struct connection *connection)
{
	u32 place = GET(connection->handshake);
	if (!place || !handshakes)
		return 0;
	struct handshake *handshake = &handshakes->all[(place - 1) & (HANDSHAKES - 1)];
	return GET(handshake->connection) == connection->id ? handshake : 0;
}

static int try_to_take(struct handshake *handshake)
{
	return !__atomic_exchange_n(&handshake->is_taken, 1, __ATOMIC_ACQUIRE);
}

static void give_back(struct handshake *handshake)
{
	__atomic_store_n(&handshake->is_taken, 0, __ATOMIC_RELEASE);
}

/* Take the handshake of a connection, until give_back; 0: there is none, or another thread has it, and what this one saw is not noted. */
static struct handshake *take_handshake(const struct connection *connection)
{
	struct handshake *handshake = handshake_of(connection);
	if (!handshake || !try_to_take(handshake))
		return 0;
	if (GET(handshake->connection) == connection->id)
		return handshake;
	give_back(handshake);
	return 0;
}

/* Free the place of a connection's handshake, also while a thread has taken it. */
static __attribute__((noinline)) void forget_handshake(struct connection *connection)
{
	struct handshake *handshake = handshake_of(connection);
	SET(connection->handshake, 0);
	u64 id = connection->id;
	if (!handshake ||
	    !__atomic_compare_exchange_n(&handshake->connection, &id, 0, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	__atomic_fetch_sub(&handshakes->running, 1, __ATOMIC_RELAXED);
	SET(handshakes->next, (u32)(handshake - handshakes->all));
}

/* Data pass on a connection: `phase` says which. */
static __attribute__((noinline)) void begin_phase(struct connection *connection, u8 phase)
{
	SET(connection->phase, phase);
	forget_handshake(connection);
}

static int is_in_sample(const struct connection *connection)
{
	return !GET(connection->is_left_out) && connection->hash <= GET(control->sample_most);
}

/* Let a place that this thread has taken be that of a connection. Returns whether no other thread found one meanwhile. */
static int use_place(struct connection *connection, struct handshake *handshake)
{
	u16 none = 0, place = (u16)(handshake - handshakes->all + 1);
	if (!__atomic_compare_exchange_n(&connection->handshake, &none, place, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return 0;
	SET(handshake->descriptor, 0);
	SET(handshake->verified, 0);
	u64 rest = __builtin_offsetof(struct handshake, answer_bytes);
	memset((u8 *)handshake + rest, 0, sizeof(*handshake) - rest);
	handshake->found.since_ns = monotonic_ns();
	__atomic_store_n(&handshake->connection, connection->id, __ATOMIC_RELEASE);
	__atomic_fetch_add(&handshakes->running, 1, __ATOMIC_RELAXED);
	SET(handshakes->next, place);
	return 1;
}

/* Begin to note a connection's handshake, and take it; 0: it is left out, or there is no room. */
static __attribute__((noinline)) struct handshake *begin_handshake(struct connection *connection)
{
	u32 first = handshakes ? GET(handshakes->next) : 0;
	int is_noted = handshakes && is_in_sample(connection);
	for (u32 i = 0; is_noted && i < HANDSHAKES; i++) {
		struct handshake *handshake = &handshakes->all[(first + i) & (HANDSHAKES - 1)];
		if (GET(handshake->connection) || !try_to_take(handshake))
			continue;
		if (!GET(handshake->connection) && use_place(connection, handshake))
			return handshake;
		give_back(handshake);
		if (GET(connection->handshake))
			return 0;
	}
	if (is_noted)
		COUNT(lost_handshakes, 1);
	SET(connection->phase, PHASE_NOT_NOTED);
	return 0;
}

/* Take the handshake of a connection, which may begin now; 0: as take_handshake. */
static struct handshake *take_or_begin(struct connection *connection)
{
	return GET(connection->handshake) ? take_handshake(connection) : begin_handshake(connection);
}
