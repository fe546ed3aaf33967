/* SPDX-License-Identifier: MIT
 *
 * Writes records into the shared ring: from any number of threads and processes, without a lock and without waiting.
 *
 * A record is begun by a compare-and-swap of its first word, at the producer's position: from "free in this lap" to "busy,
 * so long, of this thread". Only then the position moves past it, which any other thread may do for one that was stopped
 * in between. So each word below the producer's position is a record's or in one, and the reader always knows a
 * record's length. The lap (how often the ring was filled before) makes a word differ from the same word of another lap: a
 * thread that was stopped for long cannot begin a record in the middle of others. The reader writes the next
 * lap into all that it has read, before it gives the room back.
 *
 * A record of a thread that was killed stays busy: the reader sees that the thread is gone, and skips it.
 */

#include <linux/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* linux/mman.h of 5.14 */
#endif

#define BUSY (1U << 31) /* BPF_RINGBUF_BUSY_BIT; bit 30 is that of a discarded record */
#define LENGTH_BITS (BUSY - 1)

static struct reader_page *reader; /* 0: nobody watches this process */
static struct writer_page *writer;
static u8 *ring_data; /* mapped twice in a row, so that no record wraps */
static u64 ring_mask;
static u32 ring_bits;

#define PART_BITS 20
#define MOST_PARTS 4096

/* Parts of the ring that this process has in its page tables. Without that, each page that is written to first costs a
 * fault, which takes longer than writing it. */
static u8 *is_mapped;

static __attribute__((noinline)) void map_part(u64 part)
{
	__atomic_store_n(&is_mapped[part], 1, __ATOMIC_RELAXED);
	system_call(__NR_madvise, (long)(ring_data + (part << PART_BITS)), 1 << PART_BITS, MADV_POPULATE_WRITE, 0, 0,
		    0); /* since Linux 5.14 */
}

static inline u64 record_bytes(u32 length)
{
	return (length + 8 + 7ULL) & ~7ULL;
}

static inline void add_to(u64 *counter, u64 value)
{
	__atomic_fetch_add(counter, value, __ATOMIC_RELAXED);
}

/* Begin a record of `length` bytes; 0: there is no room. */
static inline void *begin_record(u32 length, u32 tid)
{
	u64 size = record_bytes(length);
	u64 part = (__atomic_load_n(&writer->produced, __ATOMIC_RELAXED) & ring_mask) >> PART_BITS;
	if (part < MOST_PARTS && !__atomic_load_n(&is_mapped[part], __ATOMIC_RELAXED))
		map_part(part);
	for (;;) {
		u64 at = __atomic_load_n(&writer->produced, __ATOMIC_ACQUIRE);
		/* Less than nothing: others have written more since, and it was read. */
		s64 unread = (s64)(at - __atomic_load_n(&reader->consumed, __ATOMIC_ACQUIRE));
		if (unread + (s64)size > (s64)(ring_mask + 1))
			return 0;
		u64 *head = (u64 *)(ring_data + (at & ring_mask));
		u64 seen = at >> ring_bits << 32;
		u64 claim = (u64)tid << 32 | BUSY | length;
		int is_mine = __atomic_compare_exchange_n(head, &seen, claim, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
		u32 begun = is_mine ? length : (u32)seen & LENGTH_BITS & ~(1U << 30);
		if (is_mine || (u32)seen)
			__atomic_compare_exchange_n(&writer->produced, &at, at + record_bytes(begun), 0,
						    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
		if (is_mine)
			return head + 1;
		/* Free in another lap, at the position that is still the producer's: memory that a program overwrote. */
		if (!(u32)seen && __atomic_load_n(&writer->produced, __ATOMIC_ACQUIRE) == at)
			return 0;
	}
}

#define LINE_BYTES 64
#define FETCHED_BYTES 2048 /* the rest of a longer record the processor fetches by itself */

/* Fetch memory for writing, without waiting for it. Until now it is in the cache of the processor that the reader is on. */
static inline void fetch(const u8 *from, u64 bytes)
{
	for (u64 at = 0; at < bytes && at < FETCHED_BYTES; at += LINE_BYTES) {
#if defined(__x86_64__) /* what __builtin_prefetch is only for later processors */
		__asm__ volatile("prefetchw %0" : : "m"(from[at]));
#else
		__builtin_prefetch(from + at, 1);
#endif
	}
}

/* Let the reader have a record: all of it is written. The next one, which is probably as long, finds its memory there. */
static inline void end_record(void *record, u32 length)
{
	__atomic_store_n((u32 *)record - 2, length, __ATOMIC_RELEASE);
	u64 size = record_bytes(length);
	fetch((const u8 *)record - 8 + size, size);
}
