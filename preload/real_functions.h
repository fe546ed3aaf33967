/* SPDX-License-Identifier: MIT
 *
 * The functions of libc that are wrapped here: those of the files after this library, as RTLD_NEXT finds them. dlsym cannot be
 * asked: it waits while another thread loads a library, which may be waiting for this one. They are all found by the
 * constructor, before there are threads; one that another library's constructor calls before that, at its call.
 */
#pragma once

#include "objects.h"

enum real_name {
	REAL_READ,
	REAL_WRITE,
	REAL_READV,
	REAL_WRITEV,
	REAL_RECV,
	REAL_SEND,
	REAL_RECVMSG,
	REAL_SENDMSG,
	REAL_RECVFROM,
	REAL_SENDTO,
	REAL_READ_CHK,
	REAL_RECV_CHK,
	REAL_SOCKET,
	REAL_SOCKETPAIR,
	REAL_CONNECT,
	REAL_ACCEPT,
	REAL_ACCEPT4,
	REAL_GETSOCKNAME,
	REAL_GETPEERNAME,
	REAL_CLOSE,
	REAL_DUP,
	REAL_DUP2,
	REAL_DUP3,
	REAL_DLOPEN,
	REAL_DLMOPEN,
	REAL_DLSYM,
	REAL_DLVSYM,
	REAL_PRCTL,
	REAL_SYSCALL,
	REAL_CLONE,
	REAL_SETRLIMIT,
	REAL_PRLIMIT,
	REAL_MLOCKALL,
	REAL_NAMES,
};

static const char *const real_names[REAL_NAMES] = {
    [REAL_READ] = "read",
    [REAL_WRITE] = "write",
    [REAL_READV] = "readv",
    [REAL_WRITEV] = "writev",
    [REAL_RECV] = "recv",
    [REAL_SEND] = "send",
    [REAL_RECVMSG] = "recvmsg",
    [REAL_SENDMSG] = "sendmsg",
    [REAL_RECVFROM] = "recvfrom",
    [REAL_SENDTO] = "sendto",
    [REAL_READ_CHK] = "__read_chk",
    [REAL_RECV_CHK] = "__recv_chk",
    [REAL_SOCKET] = "socket",
    [REAL_SOCKETPAIR] = "socketpair",
    [REAL_CONNECT] = "connect",
    [REAL_ACCEPT] = "accept",
    [REAL_ACCEPT4] = "accept4",
    [REAL_GETSOCKNAME] = "getsockname",
    [REAL_GETPEERNAME] = "getpeername",
    [REAL_CLOSE] = "close",
    [REAL_DUP] = "dup",
    [REAL_DUP2] = "dup2",
    [REAL_DUP3] = "dup3",
    [REAL_DLOPEN] = "dlopen",
    [REAL_DLMOPEN] = "dlmopen",
    [REAL_DLSYM] = "dlsym",
    [REAL_DLVSYM] = "dlvsym",
    [REAL_PRCTL] = "prctl",
    [REAL_SYSCALL] = "syscall",
    [REAL_CLONE] = "clone",
    [REAL_SETRLIMIT] = "setrlimit",
    [REAL_PRLIMIT] = "prlimit",
    [REAL_MLOCKALL] = "mlockall",
};

static void *real_functions[REAL_NAMES];

/* Look for functions in a file; returns whether all are found. */
static int find_real_in(const struct object *object)
{
	int is_complete = 1;
	for (u32 i = 0; i < REAL_NAMES; i++) {
		if (!__atomic_load_n(&real_functions[i], __ATOMIC_RELAXED))
			__atomic_store_n(&real_functions[i], exported_by(object, real_names[i]), __ATOMIC_RELAXED);
		is_complete &= real_functions[i] != 0;
	}
	return is_complete;
}

static int find_real(struct dl_phdr_info *info, size_t size, void *state)
{
	u8 *is_after = state; /* this file */
	struct object object;
	(void)size;
	read_object(info, &object);
	if (*is_after)
		return find_real_in(&object);
	*is_after = is_within((u64)&real_functions, object.start, object.end);
	return 0;
}

extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));
extern struct r_debug _r_debug __attribute__((weak)); /* of glibc: the list of files, for debuggers */

/* The first files of glibc's list stay where they are, so no lock is needed, and no function: a sanitizer's library has its own
 * dl_iterate_phdr, and asks dlsym for functions before it is ready itself. */
static __attribute__((noinline, cold)) void find_real_functions(void)
{
	int is_after = 0;
	if (!&_r_debug) {
		dl_iterate_phdr(find_real, &(u8){0});
		return;
	}
	for (const struct link_map *map = _r_debug.r_map; map; map = map->l_next) {
		struct object object;
		if (is_after) {
			read_dynamic(map->l_addr, map->l_ld, &object);
			if (find_real_in(&object))
				return;
		}
		is_after |= map->l_ld == _DYNAMIC;
	}
}

static inline void *real_function(enum real_name name)
{
	void *found = __atomic_load_n(&real_functions[name], __ATOMIC_RELAXED);
	if (!found) {
		find_real_functions();
		found = __atomic_load_n(&real_functions[name], __ATOMIC_RELAXED);
	}
	return found;
}
