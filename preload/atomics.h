/* SPDX-License-Identifier: MIT
 *
 * Reads and writes what several threads use at once.
 */
#pragma once

#include "shared.h"

/* Read and write what two threads use at once, one that reads a connection's plaintext and one that writes it (GnuTLS and
 * NSS allow that). In whatever order they do, both end up with the same. */
#define GET(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define SET(field, value) __atomic_store_n(&(field), value, __ATOMIC_RELAXED)

static inline void add_to(u64 *counter, u64 value)
{
	__atomic_fetch_add(counter, value, __ATOMIC_RELAXED);
}
