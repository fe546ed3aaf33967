/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Plaintext of a finished call -> EVENT_DATA, straight from user memory into the
 * ring. There is no per-CPU buffer in between: uprobe programs can be preempted
 * (kernels since 6.0 run them with only migration disabled), and a second one on the
 * same CPU would overwrite it.
 */
#pragma once

#include "event_header.bpf.h"
#include "losses.bpf.h"

/* A long call is emitted in large records, then in medium ones, to need few turns of a loop: the verifier checks each
 * turn. 16 of either are enough for 17 MiB a call; user space sets call_limit_bytes to less. */
#define LARGE_RECORD (1 << 20)
#define MEDIUM_RECORD (1 << 16)
#define MOST_RECORDS 32

/* The most bytes that one event can stand for: its fields have 32 bits. The bytes of a longer call, as SSL_write_ex
 * allows it, follow in events without data, up to 8 GiB. Bytes beyond that are only counted. */
#define MOST_SPAN (1ULL << 31)
#define MOST_REST_EVENTS 4

/* Emit `size` <= capacity bytes of the thread's piece. The event stands for `span` bytes; `cut` says why it has fewer.
 * `capacity` is constant: the verifier must know the record's size. */
static __always_inline void emit(const struct thread *thread, u64 capacity, u64 size, u64 span, u8 cut)
{
	const struct piece *piece = &thread->piece;
	struct event_data *event = ring_reserve(events, sizeof(struct event_data) + capacity);
	if (!event) {
		lose(CUT_NONE, span);
		return;
	}
	/* Keep it unsigned in a register, so that the verifier uses this comparison. */
	asm volatile("" : "+r"(size));
	if (size > capacity)
		size = capacity;
	if (size && bpf_probe_read_user(event + 1, size, (const void *)piece->buffer)) {
		size = 0;
		cut = CUT_UNREADABLE;
	}
	fill_header(&event->header, EVENT_DATA, thread->tid, piece->connection);
	event->header.direction = piece->direction;
	event->header.cut = cut;
	event->position = piece->position;
	event->span = span;
	event->captured = size;
	event->task = piece->task;
	ring_submit(events, event);
	if (cut)
		lose(cut, span - size);
}

/* Emit a whole record of the thread's piece. */
static __always_inline void emit_record(struct thread *thread, u64 bytes)
{
	struct piece *piece = &thread->piece;
	emit(thread, bytes, bytes, bytes, CUT_NONE);
	piece->buffer += bytes;
	piece->position += bytes;
	piece->size -= bytes;
	piece->span -= bytes;
}

/* Emit a large or a medium record of the caller's piece. Returns 0 if no more than a medium one is left. A subprogram: the
 * verifier checks it once, and not in each turn of a loop. */
SUBPROGRAM int emit_whole_record(void)
{
	u64 id = bpf_get_current_pid_tgid();
	struct thread *thread = map_lookup(threads, &id);
	if (!thread || thread->piece.size <= MEDIUM_RECORD)
		return 0;
	if (thread->piece.size > LARGE_RECORD)
		emit_record(thread, LARGE_RECORD);
	else
		emit_record(thread, MEDIUM_RECORD);
	return 1;
}

/* Emit the rest of the thread's piece, at most MEDIUM_RECORD bytes. */
static __always_inline void emit_rest(const struct thread *thread)
{
	const struct piece *piece = &thread->piece;
	u64 size = piece->size;
	u64 span = piece->span;
	u8 cut = piece->cut;
	if (size <= 256)
		emit(thread, 256, size, span, cut);
	else if (size <= 1024)
		emit(thread, 1024, size, span, cut);
	else if (size <= 4096)
		emit(thread, 4096, size, span, cut);
	else if (size <= 16384)
		emit(thread, 16384, size, span, cut);
	else
		emit(thread, MEDIUM_RECORD, size, span, cut);
}

/* Emit that `bytes` more of the caller's call are not captured. */
SUBPROGRAM int emit_uncaptured(u64 bytes)
{
	u64 id = bpf_get_current_pid_tgid();
	struct thread *thread = map_lookup(threads, &id);
	if (!thread)
		return 0;
	for (int i = 0; i < MOST_REST_EVENTS && bytes; i++) {
		u64 span = bytes < MOST_SPAN ? bytes : MOST_SPAN;
		emit(thread, 0, 0, span, thread->piece.cut);
		thread->piece.position += span;
		bytes -= span;
	}
	if (bytes)
		lose(thread->piece.cut, bytes);
	return 0;
}

static __always_inline void emit_piece(struct thread *thread)
{
	struct piece *piece = &thread->piece;
	u64 rest = piece->span > MOST_SPAN ? piece->span - MOST_SPAN : 0;
	u64 end = piece->position + piece->span - rest;
	piece->span -= rest;
	for (u32 i = 0; i < MOST_RECORDS; i++)
		if (piece->size <= MEDIUM_RECORD || !emit_whole_record())
			break;
	emit_rest(thread);
	if (rest) {
		piece->position = end;
		emit_uncaptured(rest);
	}
}
