/* SPDX-License-Identifier: MIT
 *
 * Writes records into this process's ring: from any number of threads, without a lock and without waiting.
 *
 * A record is begun by a compare-and-swap of its first word, at the producer's position: from "free in this lap" to "busy,
 * so long, of this thread". Only then the position moves past it, which any other thread may do for one that was stopped
 * in between. So each word below the producer's position is a record's or in one, and the reader always knows a
 * record's length. The lap (how often the ring was filled before) makes a word differ from the same word of another lap: a
 * thread that was stopped for long cannot begin a record in the middle of others. The reader writes the next
 * lap into all that it has read, before it gives the room back.
 *
 * A record of a thread that was killed stays busy: the reader sees that the thread is gone, and skips it.
 *
 * A signal handler may fork while this thread writes a record. The child goes on with it after the handler, in memory that is not its
 * ring: each thread notes that it writes before it looks where the ring is, and begin_child puts the child's elsewhere then. A
 * child that goes on before that sees an empty connection, and begins no record: what the call passed is its parent's.
 */
#pragma once

#include "atomics.h"
#include "cache.h"

#define BUSY (1U << 31) /* BPF_RINGBUF_BUSY_BIT; bit 30 is that of a discarded record */
#define LENGTH_BITS (BUSY - 1)

/* A ring as its program has it in memory: the reader's page, the writer's, and the data, mapped twice in a row, so that no record
 * wraps. */
struct ring {
	struct writer_page *writer; /* 0: nobody watches this process */
	u64 page_bytes;
	u64 mask; /* of offsets in the data: records begin at multiples of 8 */
	u32 bits;
};

/* process.h defines these. */
static struct ring *own_ring(void);
static u32 *own_records(void); /* that this thread is writing: several, if signals interrupt it */

static inline void leave_record(void)
{
	u32 *records = own_records();
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (*records) /* 0 in the child of a fork inside of the record */
		--*records;
}

/* Begin to write a record. Returns the writer's page; 0: nobody watches this process. */
static inline struct writer_page *enter_record(void)
{
	++*own_records();
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&own_ring()->writer, __ATOMIC_ACQUIRE);
}

static inline u64 record_bytes(u32 length)
{
	return (length + 8 + 7ULL) & ~7ULL;
}

/* Claim `length` bytes of the ring that has `writer`; 0: there is no room. */
static inline void *claim_record(struct writer_page *writer, u32 length, u32 tid)
{
	u64 size = record_bytes(length);
	const struct ring *ring = own_ring();
	const struct reader_page *reader = (void *)((u8 *)writer - ring->page_bytes);
	u8 *data = (u8 *)writer + ring->page_bytes;
	for (;;) {
		u64 at = __atomic_load_n(&writer->produced, __ATOMIC_ACQUIRE);
		/* Less than nothing: others have written more since, and it was read. */
		s64 unread = (s64)(at - __atomic_load_n(&reader->consumed, __ATOMIC_ACQUIRE));
		if (unread + (s64)size > (s64)(ring->mask + 8))
			return 0;
		u64 *head = (u64 *)(data + (at & ring->mask));
		u64 seen = at >> ring->bits << 32;
		u64 claim = (u64)tid << 32 | BUSY | length;
		int is_mine = __atomic_compare_exchange_n(head, &seen, claim, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
		u32 begun = is_mine ? length : (u32)seen & LENGTH_BITS & ~(1U << 30);
		if (is_mine || (u32)seen)
			__atomic_compare_exchange_n(&writer->produced, &at, at + record_bytes(begun), 0,
						    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
		if (is_mine)
			return head + 1;
		/* Free in another lap, at the position that is still the producer's: memory that the program overwrote. */
		if (!(u32)seen && __atomic_load_n(&writer->produced, __ATOMIC_ACQUIRE) == at)
			return 0;
	}
}

/* Begin a record of `length` bytes of the connection whose number is `id`; 0: there is no room, or no such connection any more. */
static inline void *begin_record(u32 length, u32 tid, const u64 *id)
{
	struct writer_page *writer = enter_record();
	void *record = 0;
	if (writer && __atomic_load_n(id, __ATOMIC_RELAXED))
		record = claim_record(writer, length, tid);
	if (!record)
		leave_record();
	return record;
}

/* Let the reader have a record: all of it is written. The next one, which is probably as long, finds its memory there. */
static inline void end_record(void *record, u32 length)
{
	__atomic_store_n((u32 *)record - 2, length, __ATOMIC_RELEASE);
	leave_record();
	u64 size = record_bytes(length);
	fetch((const u8 *)record - 8 + size, size);
}
