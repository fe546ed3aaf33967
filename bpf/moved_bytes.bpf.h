/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The bytes that a system call of the caller sends or receives, where its buffers are those of the process.
 */
#pragma once

#include "announce.bpf.h"
#include "slices.bpf.h"
#include "unknown.bpf.h"

/* System calls that send or receive, with their numbers on x86-64 (arch/x86/entry/syscalls/syscall_64.tbl). Their second
 * argument is the bytes, a list of buffers, or a message. */
#define SYSCALL_READ 0
#define SYSCALL_WRITE 1
#define SYSCALL_READV 19
#define SYSCALL_WRITEV 20
#define SYSCALL_SENDTO 44
#define SYSCALL_RECVFROM 45
#define SYSCALL_SENDMSG 46
#define SYSCALL_RECVMSG 47
#define SYSCALL_RECVMMSG 299
#define SYSCALL_SENDMMSG 307
#define MESSAGE_LIST 16 /* offset of msg_iov in struct user_msghdr */

/* The bytes that a system call sends or received: `left` in these buffers of the caller. Records are often in several:
 * Erlang has an empty one first, others the header in one of its own. */
#define MOST_BUFFERS 4
struct moved_bytes {
	struct slice buffers[MOST_BUFFERS];
	u64 left;
};

/* Find the `size` bytes that the caller's system call moves. Returns 0 if that is unknown, as for io_uring and sendfile. */
static __always_inline int find_moved(struct moved_bytes *moved, u64 size)
{
	struct syscall_arguments call = {};
	read_syscall(&call);
	if (call.segment != USER_CODE_SEGMENT)
		return 0;
	moved->left = size;
	u64 list = call.second;
	switch (call.number) {
	case SYSCALL_READ:
	case SYSCALL_WRITE:
	case SYSCALL_SENDTO:
	case SYSCALL_RECVFROM:
		moved->buffers[0].address = call.second;
		moved->buffers[0].size = size;
		return 1;
	case SYSCALL_SENDMSG:
	case SYSCALL_RECVMSG:
	case SYSCALL_RECVMMSG:
	case SYSCALL_SENDMMSG:
		list = read_pointer(call.second + MESSAGE_LIST);
		break;
	case SYSCALL_READV:
	case SYSCALL_WRITEV:
		break;
	default:
		return 0;
	}
	/* The list may be shorter, and end where its memory ends. */
	return !bpf_probe_read_user(moved->buffers, sizeof(moved->buffers), (const void *)list) ||
	       !bpf_probe_read_user(moved->buffers, sizeof(struct slice), (const void *)list);
}

/* Copy the first bytes of `moved`: `most` at most, to `to`, which has room for twice as many; a power of two. Returns
 * how many. */
static __always_inline u32 copy_moved(u8 *to, u64 most, const struct moved_bytes *moved)
{
	u64 left = moved->left;
	u64 at = 0;
	for (int i = 0; i < MOST_BUFFERS; i++) {
		u64 size = moved->buffers[i].size < left ? moved->buffers[i].size : left;
		size = unknown(size);
		left = unknown(left - size);
		at = unknown(at);
		if (size > most)
			size = most;
		/* Keep it unsigned in a register, so that the verifier uses this comparison. */
		asm volatile("" : "+r"(size));
		if (size > most || !size)
			continue;
		if (at >= most ||
		    bpf_probe_read_user(to + (at & (most - 1)), size, (const void *)moved->buffers[i].address))
			break;
		at += size;
	}
	return at;
}
