/* SPDX-License-Identifier: MIT
 *
 * Makes this process's ring, and sends its descriptor to sslsniff: when a program begins, and in the child of a fork. No other
 * program ever has it: the descriptor is closed, and a child has a hole there until it has made a ring of its own.
 */
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include "imports.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U /* linux/memfd.h of 6.3 */
#endif
#define RING_NAME "sslsniff"
#define SEALS (1 | 2 | 4) /* no other seal, no shrinking, no growing: F_SEAL_SEAL to F_SEAL_GROW of linux/fcntl.h */
#define ADD_SEALS 1033	  /* F_ADD_SEALS */

static struct introduction introduction;
static u8 *ring_place; /* where the ring is, the same in all children */
static u64 ring_place_bytes, ring_bytes;

/* A file in memory of a fixed size; less than 0: there is none. Beyond RLIMIT_FSIZE the kernel would end the program (SIGXFSZ,
 * inode_newsize_ok of fs/attr.c). */
static int make_memory(u64 size)
{
	if (own_limit(RLIMIT_FSIZE) < size)
		return -1;
	long fd = system_call(__NR_memfd_create, (long)RING_NAME, 1 | 2 | MFD_NOEXEC_SEAL, 0, 0, 0, 0);
	if (fd == -EINVAL) /* MFD_CLOEXEC, MFD_ALLOW_SEALING */
		fd = system_call(__NR_memfd_create, (long)RING_NAME, 1 | 2, 0, 0, 0, 0);
	if (fd < 0)
		return -1;
	if (!system_call(__NR_ftruncate, fd, (long)size, 0, 0, 0, 0) &&
	    !system_call(__NR_fcntl, fd, ADD_SEALS, SEALS, 0, 0, 0))
		return (int)fd;
	system_call(__NR_close, fd, 0, 0, 0, 0, 0);
	return -1;
}

/* Connect to sslsniff; less than 0: it is not there any more. A program without /proc, or with another user, finds the name, one
 * with another network the path. */
static long connect_to_sslsniff(void)
{
	u32 size = offsetof(struct sockaddr_un, sun_path);
	int kind = SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC;
	long connection = system_call(__NR_socket, AF_UNIX, kind, 0, 0, 0, 0);
	if (connection < 0)
		return -1;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	memcpy(address.sun_path, control->socket_name, SOCKET_NAME_BYTES);
	if (!system_call(__NR_connect, connection, (long)&address, size + SOCKET_NAME_BYTES, 0, 0, 0))
		return connection;
	memcpy(address.sun_path, control->socket_path, SOCKET_PATH_BYTES);
	if (!system_call(__NR_connect, connection, (long)&address, size + SOCKET_PATH_BYTES, 0, 0, 0))
		return connection;
	system_call(__NR_close, connection, 0, 0, 0, 0, 0);
	return -1;
}

/* Send a ring's descriptor to sslsniff, which reads it when it likes. Returns whether it is sent. */
static int send_ring(int fd)
{
	long connection = connect_to_sslsniff();
	if (connection < 0)
		return 0;
	union {
		struct cmsghdr header;
		u8 bytes[CMSG_SPACE(sizeof(int))];
	} rights = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	memcpy(CMSG_DATA(&rights.header), &fd, sizeof(fd));
	struct iovec text = {&introduction, sizeof(introduction)};
	struct msghdr message = {
	    .msg_iov = &text, .msg_iovlen = 1, .msg_control = &rights, .msg_controllen = sizeof(rights)};
	long sent = system_call(__NR_sendmsg, connection, (long)&message, MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0, 0);
	system_call(__NR_close, connection, 0, 0, 0, 0, 0);
	return sent == sizeof(introduction);
}

/* Map a ring twice in a row, at its place if it has one: what is left there is memory, too. Returns whether there is room. */
static int map_ring(int fd, u64 size)
{
	u64 pages = 2 * getauxval(AT_PAGESZ);
	u64 whole_bytes = ring_place ? ring_place_bytes : pages + 2 * size;
	int both = PROT_READ | PROT_WRITE;
	int anonymous = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	u8 *whole = map_memory(ring_place, whole_bytes, both, anonymous, -1, 0);
	if (!whole)
		return 0;
	ring_place = whole;
	ring_place_bytes = whole_bytes;
	if (!map_memory(whole, pages + size, both, MAP_SHARED | MAP_FIXED, fd, 0) ||
	    !map_memory(whole + pages + size, size, both, MAP_SHARED | MAP_FIXED, fd, pages))
		return 0;
	ring_bytes = ring_bytes ? ring_bytes : size;
	system_call(__NR_madvise, (long)whole, (long)whole_bytes, MADV_DONTFORK, 0, 0, 0);
	system_call(__NR_madvise, (long)whole, (long)whole_bytes, MADV_DONTDUMP, 0, 0, 0);
	process->ring.page_bytes = pages / 2;
	process->ring.mask = size - 8;
	process->ring.bits = (u32)__builtin_ctzll(size);
	return 1;
}

/* Let sslsniff watch this process from now on. Returns whether it can. */
static int join(void)
{
	u64 size = GET(control->ring_bytes);
	if (ring_bytes && size > ring_bytes)
		size = ring_bytes;
	int fd = make_memory(2 * getauxval(AT_PAGESZ) + size);
	if (fd < 0)
		return 0;
	introduction.pid = (u32)system_call(__NR_getpid, 0, 0, 0, 0, 0, 0);
	int is_sent = map_ring(fd, size) && send_ring(fd);
	system_call(__NR_close, fd, 0, 0, 0, 0, 0);
	if (!is_sent)
		return 0;
	process->pid = introduction.pid;
	this_thread_state = (struct thread){.pid = introduction.pid, .tid = introduction.pid};
	__atomic_store_n(&process->ring.writer, (struct writer_page *)(ring_place + getauxval(AT_PAGESZ)),
			 __ATOMIC_RELEASE);
	return 1;
}

/* Give the memory for a ring back, where nothing was written to it. */
static void leave(void)
{
	if (ring_place)
		system_call(__NR_munmap, (long)ring_place, (long)ring_place_bytes, 0, 0, 0, 0);
}

/* Let `size` bytes at `place` be memory of this process alone: a wrapper may be about to write there. */
static void fill_hole(u8 *place, u64 size)
{
	map_memory(place, size, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* In the child of a fork, before the program goes on. The fork may have been in a signal handler, inside of a record: what
 * that wrote to is there again, at its place, and the child's ring is elsewhere. Else the place of the child's is taken, also in a
 * child that is not watched: one of its children may be. */
static void begin_child(void)
{
	u8 *place = ring_place;
	u64 size = ring_place_bytes;
	if (!place)
		return;
	if (*own_records()) {
		fill_hole(place, size);
		ring_place = 0;
	}
	if (is_filtered) /* as its children are: none will have a ring */
		return;
	if (!GET(control->stopped) && join())
		return;
	ring_place = place;
	ring_place_bytes = size;
	fill_hole(place, size);
}

/* Of glibc and of musl; each has one of them. */
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *) __attribute__((weak));
extern int pthread_atfork(void (*)(void), void (*)(void), void (*)(void)) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

static void watch_forks(void)
{
	if (__register_atfork)
		__register_atfork(0, 0, begin_child, &__dso_handle);
	else if (pthread_atfork)
		pthread_atfork(0, 0, begin_child);
}
