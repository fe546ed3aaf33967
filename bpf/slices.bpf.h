/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Plaintext in a list of buffers: of a vectored write (struct iovec), or of rustls.
 */
#pragma once

#include "data.bpf.h"

/* The most turns for a list. hyper writes at most 64 buffers at once (poll_write_buf, MAX_BUFS); a large buffer takes a
 * turn for each record. What does not fit is reported as not read. */
#define MOST_TURNS 128

/* Emit that bytes were not read. */
static __always_inline void emit_gap(struct thread *thread, u64 span)
{
	if (!span)
		return;
	emit(thread, 0, 0, span, CUT_NOT_READ);
	thread->piece.position += span;
}

/* The bytes of the next record: up to MEDIUM_RECORD, or LARGE_RECORD, as `left` allows. */
static __always_inline u64 record_bytes(u64 left)
{
	if (left >= LARGE_RECORD)
		return LARGE_RECORD;
	return left < MEDIUM_RECORD ? left : MEDIUM_RECORD;
}

/* Emit the next record of the thread's plaintext. Returns 0 if there is no more plaintext or no more slice. */
SUBPROGRAM int emit_slice(void)
{
	u64 id = bpf_get_current_pid_tgid();
	struct thread *thread = map_lookup(threads, &id);
	if (!thread)
		return 0;
	struct plaintext *plaintext = &thread->plaintext;
	struct slice slice = plaintext->only;
	if (!plaintext->left || !plaintext->count)
		return 0;
	if (plaintext->list)
		bpf_probe_read_user(&slice, sizeof(slice), (const void *)plaintext->list);
	if (plaintext->skipped >= slice.size) {
		plaintext->skipped -= slice.size;
		plaintext->list += sizeof(slice);
		plaintext->count--;
		return 1;
	}
	u64 span = slice.size - plaintext->skipped;
	if (span > plaintext->left)
		span = plaintext->left;
	span = record_bytes(span);
	struct piece *piece = &thread->piece;
	piece->buffer = slice.address + plaintext->skipped;
	piece->span = span;
	piece->size = span < plaintext->room ? span : plaintext->room;
	piece->cut = piece->size < span ? CUT_CALL_LIMIT : CUT_NONE;
	if (piece->size > MEDIUM_RECORD)
		emit(thread, LARGE_RECORD, piece->size, span, piece->cut);
	else
		emit_rest(thread);
	piece->position += span;
	plaintext->room -= piece->size;
	plaintext->left -= span;
	plaintext->skipped += span;
	return 1;
}

/* Emit the thread's plaintext, as its piece says for which connection. */
static __always_inline void emit_plaintext(struct thread *thread, u64 limit)
{
	thread->plaintext.room = limit;
	for (u32 i = 0; i < MOST_TURNS; i++)
		if (!emit_slice())
			break;
	emit_gap(thread, thread->plaintext.left);
}
