/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * What all events share: their header, the ids of connections, and how a loss is counted.
 */
#pragma once

#include "maps.bpf.h"

static __always_inline u64 new_connection_id(void)
{
	/* Unique: a CPU's clock does not stand still between two connections. */
	return bpf_ktime_get_ns() << 10 | (bpf_get_smp_processor_id() & 1023);
}

static __always_inline void fill_header(struct event_header *header, u16 kind, u32 tid, u64 connection)
{
	header->kind = kind;
	header->direction = 0;
	header->cut = CUT_NONE;
	header->tid = tid;
	header->time_ns = bpf_ktime_get_ns();
	header->connection = connection;
}

/* Count a loss of plaintext; `cut`: enum cut. A subprogram: the verifier need not follow each way through it at each call. */
SUBPROGRAM int lose(u64 cut, u64 bytes)
{
	/* The counters are in the order of enum cut, two for each. */
	count(COUNTER_RING_FULL_EVENTS + 2 * cut, 1);
	count(COUNTER_RING_FULL_BYTES + 2 * cut, bytes);
	return 0;
}
