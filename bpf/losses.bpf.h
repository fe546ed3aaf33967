/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * How a loss of plaintext is counted, by its cause. Which bytes are missing, user space finds by their positions
 * (sslsniff/core/flows.py).
 */
#pragma once

#include "maps.bpf.h"

/* Count a loss of plaintext; `cut`: enum cut. A subprogram: the verifier need not follow each way through it at each call. */
SUBPROGRAM int lose(u64 cut, u64 bytes)
{
	/* The counters are in the order of enum cut, two for each. */
	count(COUNTER_RING_FULL_EVENTS + 2 * cut, 1);
	count(COUNTER_RING_FULL_BYTES + 2 * cut, bytes);
	return 0;
}
