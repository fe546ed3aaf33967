/* SPDX-License-Identifier: MIT
 *
 * The memory of this library counts for a program's limits (RLIMIT_AS, RLIMIT_DATA), and mlockall would lock it. A program that
 * was started under such a limit is not watched. One that sets it, or locks its memory, gets the memory back and is not watched
 * from then on, if it has one thread: another might just be writing a record.
 */
#pragma once

#include "handshakes.h"
#include "open_calls.h"
#include "joining.h"

/* In glibc since 2.32: whether the process has one thread. */
extern char __libc_single_threaded __attribute__((weak));

static int counts_memory(int resource)
{
	return resource == RLIMIT_AS || resource == RLIMIT_DATA;
}

/* Whether the program was started with limits of its memory. */
static int has_limits(void)
{
	static const int counted[] = {RLIMIT_AS, RLIMIT_DATA};
	for (u32 i = 0; i < sizeof(counted) / sizeof(*counted); i++)
		if (own_limit(counted[i]) != WITHOUT_LIMIT)
			return 1;
	return 0;
}

static void give_memory_back(void)
{
	if (!is_watched() || !&__libc_single_threaded || !__libc_single_threaded || !may_ask_kernel())
		return;
	COUNT(limited, 1);
	process = &unwatched;
	system_call(__NR_munmap, (long)ring_place, (long)ring_place_bytes, 0, 0, 0, 0);
	system_call(__NR_munmap, (long)connections, CONNECTIONS_BYTES, 0, 0, 0, 0);
	system_call(__NR_munmap, (long)call_buckets, CALL_BUCKETS_BYTES, 0, 0, 0, 0);
	system_call(__NR_munmap, (long)handshakes, sizeof(*handshakes), 0, 0, 0, 0);
	if (descriptor_memory)
		system_call(__NR_munmap, (long)descriptor_memory, DESCRIPTORS_BYTES, 0, 0, 0, 0);
	ring_place = 0;
	connections = 0;
	call_buckets = 0;
	handshakes = 0;
	descriptors = descriptor_memory = 0;
}

/* Before a program sets a limit. */
static void prepare_limit(int resource, const struct limit *limit)
{
	if (limit && counts_memory(resource) && limit->current != WITHOUT_LIMIT)
		give_memory_back();
}

EXPORTED int setrlimit(int resource, const struct limit *limit)
{
	prepare_limit(resource, limit);
	JUMP return ((int (*)(int, const struct limit *))real_function(REAL_SETRLIMIT))(resource, limit);
}

EXPORTED int setrlimit64(int resource, const struct limit *limit)
{
	prepare_limit(resource, limit);
	JUMP return ((int (*)(int, const struct limit *))real_function(REAL_SETRLIMIT))(resource, limit);
}

EXPORTED int prlimit(int pid, int resource, const struct limit *limit, struct limit *before)
{
	if (!pid || (u32)pid == introduction.pid)
		prepare_limit(resource, limit);
	JUMP return ((int (*)(int, int, const struct limit *, struct limit *))real_function(REAL_PRLIMIT))(
	    pid, resource, limit, before);
}

EXPORTED int prlimit64(int pid, int resource, const struct limit *limit, struct limit *before)
{
	if (!pid || (u32)pid == introduction.pid)
		prepare_limit(resource, limit);
	JUMP return ((int (*)(int, int, const struct limit *, struct limit *))real_function(REAL_PRLIMIT))(
	    pid, resource, limit, before);
}

EXPORTED int mlockall(int flags)
{
	give_memory_back();
	JUMP return ((int (*)(int))real_function(REAL_MLOCKALL))(flags);
}
