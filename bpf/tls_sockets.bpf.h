/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * TCP sockets on which a watched process uses TLS, whatever library makes it: found by what the process sends. A client
 * sends a ClientHello first, a server a ServerHello. One that a probed library is not found to use has plaintext that no
 * probe sees: user space names it (sslsniff/capture/unseen/unseen_tls.py).
 *
 * Only the first sends of a socket are looked at: TLS may begin after some lines in plaintext (STARTTLS, CONNECT).
 */
#pragma once

#include "announce.bpf.h"
#include "slices.bpf.h"

#define TCP_PROTOCOL 6 /* IPPROTO_TCP, which is no macro in the kernel */

/* So many sends are looked at for the beginning of TLS. */
#define MOST_LOOKS 8
#define IS_SETTLED 255 /* nothing more of the socket is looked at */
#define IS_TLS 254     /* it is in `tls_sockets`, and its sends are noted */

/* RFC 8446, section 5.1 and appendix B.3 */
#define NEEDED_BYTES 11			/* of a record and its message */
#define MOST_RECORD_BYTES (16384 + 256) /* also section 5.2: what is around 2^14 bytes of plaintext */
#define RECORD_HANDSHAKE 22
#define RECORD_APPLICATION_DATA 23
#define MESSAGE_CLIENT_HELLO 1
#define MESSAGE_SERVER_HELLO 2
#define TLS_MAJOR 3
#define MOST_TLS_MINOR 4
#define LEAST_HELLO_BYTES 38	 /* type, length, version, random */
#define LEAST_PROTECTED_BYTES 17 /* a tag, a type */

/* System calls that send, with their numbers on x86-64 (arch/x86/entry/syscalls/syscall_64.tbl). Their second argument is
 * the bytes, a list of buffers, or a message. */
#define SYSCALL_WRITE 1
#define SYSCALL_WRITEV 20
#define SYSCALL_SENDTO 44
#define SYSCALL_SENDMSG 46
#define SYSCALL_SENDMMSG 307
#define MESSAGE_LIST 16 /* offset of msg_iov in struct user_msghdr */

/* The bytes that a system call sends: `left` in these buffers of the caller. Records are often in several: Erlang has an
 * empty one first, others the header in one of its own. */
#define MOST_BUFFERS 4
struct outgoing {
	struct slice buffers[MOST_BUFFERS];
	u64 left;
};

/* Find what the caller's system call sends. Returns 0 if that is unknown, as for io_uring and sendfile. */
static __always_inline int find_outgoing(struct outgoing *outgoing, u64 sent)
{
	struct syscall_arguments call = {};
	read_syscall(&call);
	if (call.segment != USER_CODE_SEGMENT)
		return 0;
	outgoing->left = sent;
	u64 list = call.second;
	switch (call.number) {
	case SYSCALL_WRITE:
	case SYSCALL_SENDTO:
		outgoing->buffers[0].address = call.second;
		outgoing->buffers[0].size = sent;
		return 1;
	case SYSCALL_SENDMSG:
	case SYSCALL_SENDMMSG:
		list = read_pointer(call.second + MESSAGE_LIST);
		break;
	case SYSCALL_WRITEV:
		break;
	default:
		return 0;
	}
	/* The list may be shorter, and end where its memory ends. */
	return !bpf_probe_read_user(outgoing->buffers, sizeof(outgoing->buffers), (const void *)list) ||
	       !bpf_probe_read_user(outgoing->buffers, sizeof(struct slice), (const void *)list);
}

/* Return the value itself. The verifier knows nothing of it then: so it finds that ways through a loop, or past a branch, are
 * alike. */
SUBPROGRAM u64 unknown(u64 value)
{
	asm volatile("" : "+r"(value)); /* else the compiler knows it */
	return value;
}

/* Copy the first bytes of `outgoing`: `most` at most, to `to`, which has room for twice as many; a power of two. Returns
 * how many. */
static __always_inline u32 copy_outgoing(u8 *to, u64 most, const struct outgoing *outgoing)
{
	u64 left = outgoing->left;
	u64 at = 0;
	for (int i = 0; i < MOST_BUFFERS; i++) {
		u64 size = outgoing->buffers[i].size < left ? outgoing->buffers[i].size : left;
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
		    bpf_probe_read_user(to + (at & (most - 1)), size, (const void *)outgoing->buffers[i].address))
			break;
		at += size;
	}
	return at;
}

/* How TLS begins with a send that has these first bytes: enum tls_start; 0: it does not. */
static __always_inline u8 tls_start(const u8 *head)
{
	u32 record_bytes = head[3] << 8 | head[4];
	u32 message_bytes = head[6] << 16 | head[7] << 8 | head[8];
	if (head[1] != TLS_MAJOR || head[2] > MOST_TLS_MINOR)
		return 0;
	if (head[0] == RECORD_APPLICATION_DATA)
		return head[2] && record_bytes >= LEAST_PROTECTED_BYTES && record_bytes <= MOST_RECORD_BYTES
			   ? TLS_JOINED
			   : 0;
	if (head[0] != RECORD_HANDSHAKE || record_bytes < LEAST_HELLO_BYTES || message_bytes < LEAST_HELLO_BYTES - 4 ||
	    head[9] != TLS_MAJOR || head[10] > MOST_TLS_MINOR)
		return 0;
	if (head[5] == MESSAGE_CLIENT_HELLO)
		return TLS_CLIENT_HELLO;
	return head[5] == MESSAGE_SERVER_HELLO ? TLS_SERVER_HELLO : 0;
}

/* Return how TLS begins with what the caller sends: `tls_start`. */
SUBPROGRAM int sent_start(u64 sent)
{
	struct outgoing outgoing = {};
	u8 head[2 * HEAD_BYTES] = {};
	if (!find_outgoing(&outgoing, sent) || copy_outgoing(head, HEAD_BYTES, &outgoing) < NEEDED_BYTES)
		return 0;
	return tls_start(head);
}

static __always_inline u64 received_bytes(u64 socket)
{
	u64 received = 0;
	bpf_probe_read_kernel(&received, sizeof(received), &((const struct tcp_sock *)socket)->bytes_received);
	return received;
}

/* Report a TLS socket that no probed library is found to use. */
static __always_inline void report_tls_socket(u64 socket, const struct tls_socket *tls)
{
	struct event_tls_socket *event = ring_reserve(events, sizeof(struct event_tls_socket));
	if (!event) {
		count(COUNTER_UNCHECKED_SOCKETS, 1);
		return;
	}
	fill_header(&event->header, EVENT_TLS_SOCKET, 0, 0);
	event->socket = socket;
	bpf_probe_read_kernel(&event->found, sizeof(event->found), tls);
	ring_submit(events, event);
}

_Static_assert(sizeof(struct noted_send) >= 2 * HEAD_BYTES, "copy_outgoing needs twice the room");

/* Add one of a TLS socket's first sends; report the socket after the last of them, unless a probed library uses it. */
SUBPROGRAM int note_send(u64 socket, u64 sent)
{
	u32 *looks = map_lookup(sending_sockets, &socket);
	struct tls_socket *tls = map_lookup(tls_sockets, &socket);
	if (!looks || !tls)
		return 0;
	u32 index = tls->sends;
	if (index < NOTED_SENDS) {
		struct noted_send *noted = &tls->noted[index];
		struct outgoing outgoing = {};
		/* Copied in place, as the stack has no room left: the members after the head are set below. */
		if (find_outgoing(&outgoing, sent))
			copy_outgoing((u8 *)noted, HEAD_BYTES, &outgoing);
		noted->bytes = sent;
		noted->received = received_bytes(socket);
		tls->sends = index + 1;
	}
	if (tls->sends < NOTED_SENDS)
		return 0;
	*looks = IS_SETTLED;
	if (!tls->is_probed)
		report_tls_socket(socket, tls);
	return 0;
}

/* Add a socket on which TLS begins with this send. Returns whether there was room. */
SUBPROGRAM int add_tls_socket(u64 socket, u64 pid, u64 start)
{
	u32 zero = 0;
	const struct sock *sock = (const struct sock *)socket;
	const struct tls_socket *blank = map_lookup(blank_tls_sockets, &zero);
	if (!blank)
		return 0;
	map_update(tls_sockets, &socket, blank);
	struct tls_socket *tls = map_lookup(tls_sockets, &socket);
	if (!tls)
		return 0;
	tls->since_ns = bpf_ktime_get_ns();
	tls->cgroup = bpf_get_current_cgroup_id();
	tls->pid = pid;
	tls->uid = (u32)bpf_get_current_uid_gid();
	tls->start = start;
	COPY_ADDRESSES(tls, sock);
	struct comm name = {};
	get_process_comm(&name);
	__builtin_memcpy(tls->comm, name.name, COMM_BYTES);
	get_program_name(&name);
	__builtin_memcpy(tls->program, name.name, COMM_BYTES);
	count(COUNTER_TLS_SOCKETS, 1);
	return 1;
}

/* Note the ClientHello that a TLS socket begins with. */
SUBPROGRAM int note_hello(u64 socket, u64 sent)
{
	struct tls_socket *tls = map_lookup(tls_sockets, &socket);
	struct outgoing outgoing = {};
	if (tls && find_outgoing(&outgoing, sent))
		tls->hello_bytes = copy_outgoing(tls->hello, HELLO_BYTES / 2, &outgoing);
	return 0;
}

/* The caller's process, if it is watched; 0: it is not. */
static __always_inline u32 watched_caller(const struct config *config)
{
	u64 id = bpf_get_current_pid_tgid();
	const struct thread *thread = map_lookup(threads, &id);
	if (thread && !thread->is_undecided)
		return thread->pid;
	u32 pid = current_pid_tgid(config) >> 32;
	return is_watched(pid) ? pid : 0;
}

/* Look at a send, if it is one of the first of a TCP socket. Returns whether later ones need no look. This and what it
 * calls are subprograms: the verifier checks each once, and not for every way to it. So each finds the bytes anew. */
SUBPROGRAM int check_send(u64 socket, u64 sent)
{
	u32 *known = map_lookup(sending_sockets, &socket);
	if (known && *known == IS_SETTLED)
		return 1;
	const struct config *config = get_config();
	if (!config || config->stopped || !config->checks_sockets)
		return 0;
	u32 looks = known ? *known : 0;
	u32 pid = watched_caller(config);
	if (!known) {
		/* With --pid one look into the table of processes says that a process is not watched. */
		if (!pid && config->by_pid)
			return 0;
		u16 protocol = 0;
		const struct sock *sock = (const struct sock *)socket;
		bpf_probe_read_kernel(&protocol, sizeof(protocol), &sock->sk_protocol);
		u16 family = socket_family(sock);
		if (protocol != TCP_PROTOCOL || (family != AF_INET && family != AF_INET6))
			return 0;
		if (!pid)
			looks = IS_SETTLED;
		if (map_update(sending_sockets, &socket, &looks)) {
			count(COUNTER_UNCHECKED_SOCKETS, 1);
			return 0;
		}
		known = map_lookup(sending_sockets, &socket);
	}
	if (!pid || !known || !sent)
		return 0;
	if (looks != IS_TLS) {
		u8 start = sent_start(sent);
		int is_added = start && add_tls_socket(socket, pid, start);
		if (start && !is_added)
			count(COUNTER_UNCHECKED_SOCKETS, 1);
		looks++;
		*known = is_added ? IS_TLS : looks < MOST_LOOKS && !start ? looks : IS_SETTLED;
		if (!is_added)
			return 0;
		if (start == TLS_CLIENT_HELLO)
			note_hello(socket, sent);
	}
	note_send(socket, sent);
	return 0;
}

/* Look at a send of a thread, unless its last send was on this socket and needed no look. */
static __always_inline void check_thread_send(struct thread *thread, u64 socket, u64 sent)
{
	u32 zero = 0;
	const u64 *counted = map_lookup(socket_ends, &zero);
	u64 ends = counted ? *counted : 0;
	if (thread->settled == socket && thread->settled_ends == ends)
		return;
	if (check_send(socket, sent)) {
		thread->settled = socket;
		thread->settled_ends = ends;
	}
}

/* Note that a connection of a probed library uses a socket. */
static __always_inline void mark_probed(u64 socket)
{
	struct tls_socket *tls = map_lookup(tls_sockets, &socket);
	if (tls)
		tls->is_probed = 1;
}

/* A TCP socket was destroyed: another may get its address. */
static __always_inline void forget_socket(u64 socket)
{
	const struct config *config = get_config();
	if (!map_lookup(sending_sockets, &socket) || !config || config->stopped)
		return; /* user space reads what is left when the capture is over */
	map_delete(sending_sockets, &socket);
	u32 zero = 0;
	u64 *ends = map_lookup(socket_ends, &zero);
	if (ends)
		__atomic_fetch_add(ends, 1, __ATOMIC_RELAXED);
	struct tls_socket *tls = map_lookup(tls_sockets, &socket);
	if (!tls)
		return;
	const struct tcp_sock *sock = (const struct tcp_sock *)socket;
	tls->received = received_bytes(socket);
	bpf_probe_read_kernel(&tls->acknowledged, sizeof(tls->acknowledged), &sock->bytes_acked);
	if (!tls->is_probed)
		report_tls_socket(socket, tls);
	map_delete(tls_sockets, &socket);
}
