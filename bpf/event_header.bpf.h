/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * What all events share: their header, and the ids of connections.
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
