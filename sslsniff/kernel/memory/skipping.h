/* SPDX-License-Identifier: MIT
 *
 * The contract between skipping.c and skipping.py; tests/unit/kernel/test_skipping.py compares their sizes.
 */
#ifndef SSLSNIFF_SKIPPING_H
#define SSLSNIFF_SKIPPING_H

#include <linux/types.h>
#include "event.h"

#define DISCARDED (1U << 30) /* kernel/bpf/ringbuf.c */
#define MOST_RUNS 512
#define SLOTS (2 * MOST_RUNS)

/* The skipped plaintext of one direction, from position `first` to `end`: no byte in between is lost. */
struct run {
	__u64 connection, first, end;
	__u64 time_ns; /* of the last record, CLOCK_MONOTONIC */
	__u32 tid, direction;
};

/* `slots` finds a run: its index + 1, by the hash of its direction; 0: none. */
struct runs {
	__u32 count;
	__u16 slots[SLOTS];
	struct run runs[MOST_RUNS];
};

#endif
