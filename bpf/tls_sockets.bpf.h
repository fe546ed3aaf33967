/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * TCP sockets on which a watched process uses TLS, whatever library makes it: found by what the process sends and receives.
 * A client sends a ClientHello first, a server receives one and sends a ServerHello, or only an alert. A socket whose data no probe saw either
 * had none, because the handshake failed, or has plaintext that no probe sees: user space tells which, and names it
 * (sslsniff/capture/unseen/unseen_tls.py).
 *
 * Only the first sends and receives of a socket are looked at: TLS may begin after some lines in plaintext (STARTTLS,
 * CONNECT). Receives are looked at until the records are encrypted, and only where the kernel calls after the bytes were
 * copied (since 6.3).
 */
#pragma once

#include "announce.bpf.h"
#include "moved_bytes.bpf.h"
#include "socket_end.bpf.h"

#define TCP_PROTOCOL 6 /* IPPROTO_TCP, which is no macro in the kernel */

/* So many sends, and receives, are looked at for the beginning of TLS. */
#define MOST_LOOKS 8
#define IS_SETTLED 255 /* nothing more of the socket is looked at */
#define IS_TLS 254     /* it is in `tls_sockets`, and its sends are noted */

/* So many receives of a handshake are looked at: some libraries receive the header of each record apart. */
#define MOST_RECEIVES 32

/* RFC 8446, section 5.1 and appendix B.3 */
#define RECORD_HEADER_BYTES 5
#define NEEDED_BYTES 11 /* of a record and its message */
#define ALERT_BYTES 2
#define MOST_RECORD_BYTES (16384 + 256) /* also section 5.2: what is around 2^14 bytes of plaintext */
#define RECORD_CHANGE_CIPHER_SPEC 20
#define RECORD_ALERT 21
#define RECORD_HANDSHAKE 22
#define RECORD_APPLICATION_DATA 23
#define MESSAGE_CLIENT_HELLO 1
#define MESSAGE_SERVER_HELLO 2
#define TLS_MAJOR 3
#define MOST_TLS_MINOR 4
#define LEAST_HELLO_BYTES 38	 /* type, length, version, random */
#define LEAST_PROTECTED_BYTES 17 /* a tag, a type */

/* How TLS begins with a send that has these first bytes: enum tls_start; 0: it does not. Of a receive, a ClientHello. */
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

/* Whether a record is an alert in clear, of a level that there is. */
static __always_inline int is_clear_alert(const u8 *head)
{
	return head[0] == RECORD_ALERT && head[1] == TLS_MAJOR && head[2] <= MOST_TLS_MINOR && !head[3] &&
	       head[4] == ALERT_BYTES && (head[5] == 1 || head[5] == 2);
}

/* Return how TLS begins with what the caller sends: `tls_start`. */
SUBPROGRAM int sent_start(u64 sent)
{
	struct moved_bytes moved = {};
	u8 head[2 * HEAD_BYTES] = {};
	u32 copied = find_moved(&moved, sent) ? copy_moved(head, HEAD_BYTES, &moved) : 0;
	if (copied == RECORD_HEADER_BYTES + ALERT_BYTES && is_clear_alert(head))
		return TLS_ALERT_SENT;
	return copied < NEEDED_BYTES ? 0 : tls_start(head);
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

_Static_assert(sizeof(struct noted_send) >= 2 * HEAD_BYTES, "copy_moved needs twice the room");

/* Add one of a TLS socket's first sends; report the socket after the last of them, unless a probed library uses it. */
SUBPROGRAM int note_send(u64 socket, u64 sent)
{
	struct looks *looks = map_lookup(looked_sockets, &socket);
	struct tls_socket *tls = map_lookup(tls_sockets, &socket);
	if (!looks || !tls)
		return 0;
	u32 index = tls->sends;
	if (index < NOTED_SENDS) {
		struct noted_send *noted = &tls->noted[index];
		struct moved_bytes moved = {};
		/* Copied in place, as the stack has no room left: the members after the head are set below. */
		if (find_moved(&moved, sent))
			copy_moved((u8 *)noted, HEAD_BYTES, &moved);
		noted->bytes = sent;
		noted->received = received_bytes(socket);
		noted->time_ns = bpf_ktime_get_ns();
		tls->sends = index + 1;
	}
	if (tls->sends < NOTED_SENDS)
		return 0;
	looks->sends = IS_SETTLED;
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

#define HELLO_COPIED_BYTES 512
_Static_assert(RECORD_HEADER_BYTES + 2 * HELLO_COPIED_BYTES <= HELLO_BYTES, "copy_moved needs twice the room");

/* Note the ClientHello that a TLS socket begins with. The header of its record may have been received before. */
SUBPROGRAM int note_hello(u64 socket, u64 size)
{
	const struct looks *looks = map_lookup(looked_sockets, &socket);
	struct tls_socket *tls = map_lookup(tls_sockets, &socket);
	struct moved_bytes moved = {};
	if (!tls || !looks || !find_moved(&moved, size))
		return 0;
	__builtin_memcpy(tls->hello, looks->header, RECORD_HEADER_BYTES);
	tls->hello_start = looks->header[0] ? 0 : RECORD_HEADER_BYTES;
	tls->hello_bytes = copy_moved(tls->hello + RECORD_HEADER_BYTES, HELLO_COPIED_BYTES, &moved);
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

static __always_inline int is_tcp(u64 socket)
{
	const struct sock *sock = (const struct sock *)socket;
	u16 protocol = 0;
	bpf_probe_read_kernel(&protocol, sizeof(protocol), &sock->sk_protocol);
	if (protocol != TCP_PROTOCOL)
		return 0;
	u16 family = socket_family(sock);
	return family == AF_INET || family == AF_INET6;
}

/* What was looked at of the socket of the caller, process `pid`, until now; 0: there is no room, or it is no TCP socket. */
static __always_inline struct looks *get_looks(const struct config *config, u64 socket, u32 pid)
{
	struct looks *known = map_lookup(looked_sockets, &socket);
	/* With --pid one look into the table of processes says that a process is not watched. */
	if (known || (!pid && config->by_pid))
		return known;
	if (!is_tcp(socket))
		return 0;
	struct looks looks = {};
	if (!pid)
		looks.sends = looks.receives = IS_SETTLED;
	if (map_update(looked_sockets, &socket, &looks)) {
		count(COUNTER_UNCHECKED_SOCKETS, 1);
		return 0;
	}
	return map_lookup(looked_sockets, &socket);
}

/* What was looked at of the socket of the caller, whose number this fills in; 0: it is not watched, or there is no room. */
static __always_inline struct looks *watched_looks(u64 socket, u32 *pid)
{
	const struct config *config = get_config();
	if (!config || config->stopped || !config->checks_sockets)
		return 0;
	*pid = watched_caller(config);
	struct looks *looks = get_looks(config, socket, *pid);
	return *pid ? looks : 0;
}

/* Look at a send, if it is one of the first of a TCP socket. Returns whether later ones need no look. This and what it
 * calls are subprograms: the verifier checks each once, and not for every way to it. So each finds the bytes anew. */
SUBPROGRAM int check_send(u64 socket, u64 sent)
{
	struct looks *looks = map_lookup(looked_sockets, &socket);
	if (looks && looks->sends == IS_SETTLED)
		return 1;
	u32 pid = 0;
	looks = watched_looks(socket, &pid);
	if (!looks || !sent)
		return 0;
	if (looks->sends != IS_TLS) {
		u8 start = sent_start(sent);
		if (start == TLS_ALERT_SENT && looks->sends)
			start = 0;
		int is_added = start && add_tls_socket(socket, pid, start);
		if (start && !is_added)
			count(COUNTER_UNCHECKED_SOCKETS, 1);
		u8 sends = looks->sends + 1;
		looks->sends = is_added ? IS_TLS : sends < MOST_LOOKS && !start ? sends : IS_SETTLED;
		if (!is_added)
			return 0;
		if (start == TLS_CLIENT_HELLO)
			note_hello(socket, sent);
		struct tls_socket *tls = start == TLS_ALERT_SENT ? map_lookup(tls_sockets, &socket) : 0;
		if (tls)
			__builtin_memcpy(tls->answer, looks->first, FIRST_BYTES);
	}
	note_send(socket, sent);
	return 0;
}

enum received {
	RECEIVED_OTHER,
	RECEIVED_HEADER,    /* of a record, and nothing else */
	RECEIVED_HELLO,	    /* a ClientHello */
	RECEIVED_HANDSHAKE, /* another message in clear, or what is not TLS */
	RECEIVED_ALERT,	    /* its level and its number follow in the next bytes */
	RECEIVED_ENCRYPTED, /* or about to be: nothing more is in clear */
};

/* Return what a receive begins with: enum received. A header alone is kept in `looks`; else the first bytes that the
 * socket received are kept in `tls_sockets`. */
SUBPROGRAM int received_kind(u64 socket, u64 received)
{
	struct looks *looks = map_lookup(looked_sockets, &socket);
	struct moved_bytes moved = {};
	u8 head[RECORD_HEADER_BYTES + 2 * HEAD_BYTES] = {};
	if (!looks || !find_moved(&moved, received) || !copy_moved(head + RECORD_HEADER_BYTES, HEAD_BYTES, &moved))
		return RECEIVED_OTHER;
	int follows = looks->header[0] != 0;
	if (follows)
		__builtin_memcpy(head, looks->header, RECORD_HEADER_BYTES);
	else
		__builtin_memmove(head, head + RECORD_HEADER_BYTES, HEAD_BYTES);
	int is_record = head[0] >= RECORD_CHANGE_CIPHER_SPEC && head[0] <= RECORD_APPLICATION_DATA &&
			head[1] == TLS_MAJOR && head[2] <= MOST_TLS_MINOR;
	if (is_record && !follows && received == RECORD_HEADER_BYTES) {
		__builtin_memcpy(looks->header, head, RECORD_HEADER_BYTES);
		return RECEIVED_HEADER;
	}
	struct tls_socket *tls = map_lookup(tls_sockets, &socket);
	if (tls && !tls->answer[0])
		__builtin_memcpy(tls->answer, head, HEAD_BYTES);
	if (!is_record && !looks->first[0])
		__builtin_memcpy(looks->first, head, FIRST_BYTES);
	if (!is_record)
		return RECEIVED_OTHER;
	if (head[0] == RECORD_ALERT)
		return head[3] || head[4] != ALERT_BYTES ? RECEIVED_ENCRYPTED
							 : RECEIVED_ALERT | head[5] << 8 | head[6] << 16;
	if (head[0] != RECORD_HANDSHAKE)
		return RECEIVED_ENCRYPTED;
	return tls_start(head) == TLS_CLIENT_HELLO ? RECEIVED_HELLO : RECEIVED_HANDSHAKE;
}

/* Look at a receive, as `check_send` does at a send. */
SUBPROGRAM int check_receive(u64 socket, u64 received)
{
	struct looks *looks = map_lookup(looked_sockets, &socket);
	if (looks && looks->receives == IS_SETTLED)
		return 1;
	u32 pid = 0;
	looks = watched_looks(socket, &pid);
	if (!looks || !received)
		return 0;
	u32 kind = received_kind(socket, received);
	if (kind == RECEIVED_HELLO && looks->sends < MOST_LOOKS) {
		if (add_tls_socket(socket, pid, TLS_HELLO_RECEIVED)) {
			looks->sends = IS_TLS;
			note_hello(socket, received);
		} else {
			looks->sends = IS_SETTLED;
			count(COUNTER_UNCHECKED_SOCKETS, 1);
		}
	}
	struct tls_socket *tls = (u8)kind == RECEIVED_ALERT ? map_lookup(tls_sockets, &socket) : 0;
	if (tls) {
		tls->alert_level = kind >> 8;
		tls->alert = kind >> 16;
	}
	if (kind != RECEIVED_HEADER)
		looks->header[0] = 0;
	u8 receives = looks->receives + 1;
	u8 most = looks->sends == IS_TLS ? MOST_RECEIVES : MOST_LOOKS;
	looks->receives = receives < most && kind != RECEIVED_ENCRYPTED ? receives : IS_SETTLED;
	return 0;
}

/* How many sockets that were looked at are gone. */
static __always_inline u64 ended_sockets(void)
{
	u32 zero = 0;
	const u64 *counted = map_lookup(socket_ends, &zero);
	return counted ? *counted : 0;
}

/* Forget which sockets need no look, if one of them may be another by now. */
static __always_inline void forget_ended(struct thread *thread)
{
	u64 ends = ended_sockets();
	if (thread->settled_ends == ends)
		return;
	thread->settled = thread->quiet = 0;
	thread->settled_ends = ends;
}

/* Look at a send of a thread, unless its last send was on this socket and needed no look. */
static __always_inline void check_thread_send(struct thread *thread, u64 socket, u64 sent)
{
	forget_ended(thread);
	if (thread->settled != socket && is_tcp(socket) && check_send(socket, sent))
		thread->settled = socket;
}

/* Look at a receive of a thread, unless its last receive was on this socket and needed no look. */
static __always_inline void check_thread_receive(struct thread *thread, u64 socket, u64 received)
{
	forget_ended(thread);
	if (thread->quiet != socket && is_tcp(socket) && check_receive(socket, received))
		thread->quiet = socket;
}

/* Note that a probed library passes the data of a socket. */
static __always_inline void mark_probed(u64 socket)
{
	struct tls_socket *tls = map_lookup(tls_sockets, &socket);
	if (tls)
		tls->is_probed = 1;
}

/* Note that a call of a probed library sends on a socket. It may be under way for long. */
static __always_inline void mark_called(u64 socket)
{
	struct tls_socket *tls = map_lookup(tls_sockets, &socket);
	if (tls)
		tls->is_called = 1;
}

/* Note that plaintext passes on a connection. The caller has just compared its key. */
static __always_inline void note_data(struct connection *connection)
{
	if (connection->has_data)
		return;
	connection->has_data = 1;
	if (connection->socket)
		mark_probed(connection->socket);
}

/* A TCP socket was destroyed: another may get its address. */
static __always_inline void forget_socket(u64 socket)
{
	const struct config *config = get_config();
	if (!map_lookup(looked_sockets, &socket) || !config || config->stopped)
		return; /* user space reads what is left when the capture is over */
	map_delete(looked_sockets, &socket);
	u32 zero = 0;
	u64 *ends = map_lookup(socket_ends, &zero);
	if (ends)
		__atomic_fetch_add(ends, 1, __ATOMIC_RELAXED);
	struct tls_socket *tls = map_lookup(tls_sockets, &socket);
	if (!tls)
		return;
	const struct tcp_sock *sock = (const struct tcp_sock *)socket;
	tls->is_gone = 1;
	if (!tls->ending)
		tls->received = received_bytes(socket);
	bpf_probe_read_kernel(&tls->acknowledged, sizeof(tls->acknowledged), &sock->bytes_acked);
	if (!tls->is_probed)
		report_tls_socket(socket, tls);
	map_delete(tls_sockets, &socket);
}

/* include/net/tcp_states.h, include/uapi/asm-generic/errno.h */
#define TCP_FIN_WAIT1 4
#define TCP_CLOSE 7
#define TCP_CLOSE_WAIT 8
#define ETIMEDOUT 110

/* Note how the TCP connection of a TLS socket begins to end: it gets this state. */
static __always_inline void note_state(u64 socket, u32 state)
{
	struct tls_socket *tls = map_lookup(tls_sockets, &socket);
	if (!tls || tls->ending)
		return;
	const struct sock *sock = (const struct sock *)socket;
	s32 error = 0;
	u8 ending = ENDING_UNKNOWN;
	switch (state) {
	case TCP_FIN_WAIT1:
		ending = ENDING_CLOSED;
		break;
	case TCP_CLOSE_WAIT:
		ending = ENDING_PEER_CLOSED;
		break;
	case TCP_CLOSE:
		bpf_probe_read_kernel(&error, sizeof(error), &sock->sk_err);
		ending = error == ETIMEDOUT ? ENDING_TIMED_OUT : error ? ENDING_PEER_RESET : ENDING_RESET;
		break;
	default:
		return;
	}
	tls->ended_ns = bpf_ktime_get_ns();
	asm volatile("" ::: "memory"); /* the time first: another CPU may report both now */
	tls->ending = ending;
	if (tls->is_probed)
		report_socket_end(socket, 0);
	tls->received = received_bytes(socket) - (state == TCP_CLOSE_WAIT); /* the peer's FIN counts as a byte */
}
