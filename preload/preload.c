/* SPDX-License-Identifier: MIT
 *
 * The library that `sslsniff -- COMMAND` loads into the command, by LD_PRELOAD, where it has no rights for probes: it wraps
 * the calls of OpenSSL, GnuTLS and NSS, and writes what they pass as records into memory that sslsniff reads.
 *
 * It must do no harm. So it allocates nothing, waits for nothing, has no lock and no signal handler, keeps errno, and
 * leaves the environment alone. Without sslsniff's memory (a setuid program, a capture that is over) calls just pass.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>

#include "shared.h"

#include "system_calls.h"

#include "ring.h"

#include "process.h"

#include "library.h"

#include "connections.h"

#include "open_calls.h"

#include "records.h"

#include "sockets.h"

#include "calls.h"

static void copy_text(char *to, const char *from, u64 room)
{
	for (u64 i = 0; from && from[i] && i < room - 1; i++)
		to[i] = from[i];
}

#include "openssl.h"

#include "gnutls.h"

#include "nss.h"

#include "loading.h"

static const struct names *const family_names[FAMILIES] = {
    [FAMILY_OPENSSL] = &openssl_names,
    [FAMILY_GNUTLS] = &gnutls_names,
    [FAMILY_NSPR] = &nspr_names,
    [FAMILY_NSS] = &nss_names,
};

#include "fetching.h"

static void describe(struct event_opened *event, const struct connection *connection)
{
	void *object = (void *)connection->object;
	if (connection->library->family == FAMILY_OPENSSL)
		describe_openssl(event, object, connection->library);
	else if (connection->library->family == FAMILY_GNUTLS)
		describe_gnutls(event, object, connection->library);
	else if (connection->library->family == FAMILY_NSS)
		describe_nss(event, object, connection->library);
}

extern char **environ;

static const char *variable(const char *name)
{
	u64 size = strlen(name);
	for (char **each = environ; each && *each; each++)
		if (!memcmp(*each, name, size) && (*each)[size] == '=')
			return *each + size + 1;
	return 0;
}

/* Map the memory that `fd` stands for. Returns whether it is sslsniff's. */
static int map_ring(int fd)
{
	u64 page = getauxval(AT_PAGESZ);
	struct reader_page *first = map_memory(0, page, PROT_READ, MAP_SHARED, fd, 0);
	if (!first || first->magic != MAGIC)
		return 0;
	u64 size = first->data_bytes;
	u8 *whole = map_memory(0, page + 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int both = PROT_READ | PROT_WRITE;
	if (!whole || !map_memory(whole, page + size, both, MAP_SHARED | MAP_FIXED, fd, page) ||
	    !map_memory(whole + page + size, size, both, MAP_SHARED | MAP_FIXED, fd, 2 * page))
		return 0;
	writer = (struct writer_page *)whole;
	ring_data = whole + page;
	ring_mask = size - 1;
	ring_bits = (u32)__builtin_ctzll(size);
	reader = first;
	return 1;
}

/* Memory that a forked child gets empty; 0: the kernel cannot do that. */
static void *wiped_memory(u64 size)
{
	void *memory = map_memory(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!memory || system_call(__NR_madvise, (long)memory, (long)size, MADV_WIPEONFORK, 0, 0, 0))
		return 0;
	return memory;
}

__attribute__((constructor)) static void start(void)
{
	own_file = file_at((u64)&libraries);
	const char *path = variable(RING_VARIABLE);
	if (!path || getauxval(AT_SECURE))
		return;
	process = wiped_memory(sizeof(*process));
	connections = wiped_memory(sizeof(struct connection) * BUCKETS * BUCKET_CONNECTIONS);
	call_buckets = wiped_memory(sizeof(struct call_bucket) * CALL_BUCKETS);
	is_mapped = wiped_memory(MOST_PARTS);
	if (!process || !connections || !call_buckets || !is_mapped)
		return;
	long fd = system_call(__NR_openat, AT_FDCWD, (long)path, O_RDWR | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return;
	if (map_ring((int)fd)) {
		u32 pid = numbers_in_proc().pid;
		is_numbered_apart = pid && pid != (u32)system_call(__NR_getpid, 0, 0, 0, 0, 0, 0);
		announce_program();
	}
	system_call(__NR_close, fd, 0, 0, 0, 0, 0);
}
