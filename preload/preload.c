/* SPDX-License-Identifier: MIT
 *
 * The library that `sslsniff -- COMMAND` loads into the command, by LD_PRELOAD, where it has no rights for probes: it wraps
 * the calls of OpenSSL, GnuTLS and NSS, and writes what they pass as records into a ring that sslsniff reads.
 *
 * It must do no harm. So it allocates nothing, waits for nothing, has no lock and no signal handler, keeps errno, and
 * leaves the environment alone. Without sslsniff's memory (a setuid program, a capture that is over) calls just pass.
 */
#include "gnutls.h"
#include "limits.h"
#include "loading.h"
#include "nss.h"
#include "opening.h"
#include "openssl.h"
#include "raw_calls.h"
#include "sanitizers.h"

static const struct family_functions *const families[FAMILIES] = {
    [FAMILY_OPENSSL] = &openssl_functions,
    [FAMILY_GNUTLS] = &gnutls_functions,
    [FAMILY_NSPR] = &nspr_functions,
    [FAMILY_NSS] = &nss_functions,
};

static void describe(struct event_opened *event, const struct connection *connection, const struct library *library)
{
	void *object = (void *)connection->object;
	if (library->family == FAMILY_OPENSSL)
		describe_openssl(event, object, library);
	else if (library->family == FAMILY_GNUTLS)
		describe_gnutls(event, object, library);
	else if (library->family == FAMILY_NSS)
		describe_nss(event, object, library);
}

static int is_server(const struct connection *connection)
{
	const struct library *library = GET(connection->library);
	if (library && library->family == FAMILY_OPENSSL)
		return is_openssl_server(library, (const void *)connection->object);
	return GET(connection->role) == ROLE_SERVER;
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

/* The page of sslsniff's that `path` leads to; 0: it is not there any more. */
static const struct control_page *open_control(const char *path)
{
	long fd = system_call(__NR_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0, 0, 0);
	if (fd < 0)
		return 0;
	const struct control_page *page = map_memory(0, getauxval(AT_PAGESZ), PROT_READ, MAP_SHARED, (int)fd, 0);
	system_call(__NR_close, fd, 0, 0, 0, 0, 0);
	return page && page->magic == MAGIC ? page : 0;
}

/* Memory that a forked child gets empty; 0: the kernel cannot do that. */
static void *wiped_memory(u64 size)
{
	void *memory = empty_memory(size);
	if (!memory || system_call(__NR_madvise, (long)memory, (long)size, MADV_WIPEONFORK, 0, 0, 0))
		return 0;
	return memory;
}

__attribute__((constructor)) static void start(void)
{
	find_real_functions();
	const char *path = variable(RING_VARIABLE);
	if (!path || getauxval(AT_SECURE))
		return;
	const struct control_page *page = open_control(path);
	if (!page || page->stopped || filter_count() != page->filters || has_limits())
		return;
	find_number();
	struct process *own = wiped_memory(sizeof(*process));
	connections = wiped_memory(CONNECTIONS_BYTES);
	call_buckets = wiped_memory(CALL_BUCKETS_BYTES);
	handshakes = wiped_memory(sizeof(*handshakes));
	if (!own || !connections || !call_buckets || !handshakes)
		return;
	process = own;
	control = page;
	introduction.magic = MAGIC;
	memcpy(introduction.token, page->token, TOKEN_BYTES);
	system_call(__NR_prctl, PR_GET_NAME, (long)introduction.comm, 0, 0, 0, 0);
	if (!join()) {
		leave();
		return;
	}
	look_at_descriptors();
	watch_forks();
	look_at_startup_files();
}
