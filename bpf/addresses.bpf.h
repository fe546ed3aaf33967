/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Finds the socket that a connection uses, and so its addresses.
 *
 * Direct evidence is a socket call inside a TLS call; it counts when that call returns. Indirect evidence, for libraries
 * that get bytes through memory, is a receive on the thread just before a TLS read, or a send just after a TLS write, if
 * that call has no socket call inside. Otherwise what is outside belongs to something else, such as another handshake.
 * The first evidence binds; later, direct evidence corrects at once, indirect evidence if it is the same twice in a row.
 * After direct evidence for a socket in two calls, with none for another in between, only direct evidence counts: the thread
 * may use other sockets while the library gives out what it received before.
 *
 * A send may have bytes of another connection: those that were left, while the socket of the connection that wrote has no
 * room. So for a direction that is announced by itself (enum half), whose records are seen, a send is evidence if its
 * length fits the records. Any other send is weak evidence: it binds such a direction if it has no socket.
 */
#pragma once

#include "connection.bpf.h"
#include "tls_sockets.bpf.h"
#include "waits.bpf.h"

enum evidence {
	EVIDENCE_WEAK,
	EVIDENCE_INDIRECT,
	EVIDENCE_DIRECT,
};

/* The bytes of a record around its plaintext: a header of 5, a tag of 16, and between these 0 (TLS 1.2 with
 * ChaCha20-Poly1305), 1 (the type in TLS 1.3) or 8 (the nonce of TLS 1.2 with AES-GCM; RFC 5288). */
#define LEAST_OVERHEAD 21
#define MOST_OVERHEAD 29

#define CERTAIN 2 /* calls with direct evidence */

#define STREAM_SOCKET 1 /* SOCK_STREAM, which is no macro in the kernel */

/* Whether a socket has both addresses: after a connection broke, it has no local port. A subprogram: the verifier need not
 * follow each way through it to the end of its caller. */
SUBPROGRAM int has_addresses(u64 socket)
{
	const struct sock *sock = (const struct sock *)socket;
	u16 family = socket_family(sock);
	u16 port = 0;
	bpf_probe_read_kernel(&port, sizeof(port), &sock->__sk_common.skc_num);
	return (family == AF_INET || family == AF_INET6) && port;
}

/* Whether it carries a stream, as TLS needs: between TLS calls, a thread may also ask for names by UDP. */
static __always_inline int is_stream(const struct sock *sock)
{
	u16 type = 0;
	bpf_probe_read_kernel(&type, sizeof(type), &sock->sk_type);
	return type == STREAM_SOCKET;
}

/* Remember whose records the socket carries, for its end. Returns whether they are left out. */
static __always_inline u8 carry(u64 socket, const struct connection_key *key, u8 half)
{
	const struct carrier *known = map_lookup(carriers, &socket);
	struct carrier carrier = {};
	if (known)
		carrier = *known;
	if (!known || carrier.pid != key->pid || !is_carrier_of(known, socket)) {
		carrier = (struct carrier){.socket = socket, .pid = key->pid};
		carrier.left_out = choose(new_connection_id());
	}
	carrier.objects[half == HALF_WRITE] = key->object;
	map_update(carriers, &socket, &carrier);
	return carrier.left_out;
}

/* The caller has just looked the connection up, or compared its key. */
static __always_inline void bind(const struct thread *thread, const struct connection_key *key,
				 struct connection *connection, u64 socket, enum evidence evidence)
{
	if (connection->is_fixed || (connection->socket && evidence == EVIDENCE_WEAK))
		return;
	if (evidence == EVIDENCE_DIRECT)
		connection->direct = connection->direct && connection->socket == socket ? CERTAIN : 1;
	else if (connection->direct == CERTAIN)
		return;
	else if (connection->socket != socket)
		connection->direct = 0;
	u8 half = connection->half;
	u8 was_sure = connection->is_sure || !half;
	connection->is_sure = evidence > EVIDENCE_WEAK;
	if (connection->socket == socket) {
		connection->rival = 0;
		return;
	}
	if (connection->socket && was_sure && evidence != EVIDENCE_DIRECT && connection->rival != socket) {
		connection->rival = socket;
		return;
	}
	connection->socket = socket;
	connection->addressed = 0;
	if (connection->has_data)
		mark_probed(socket);
	connection->rival = 0;
	if (half)
		follow_socket(thread->tid, key, connection, carry(socket, key, half));
	if (connection->announced)
		announce_addresses(thread, key, connection);
}

/* Whether the thread handles one connection after the other, so that the order of its calls is evidence: not while a TLS
 * call is open, and not with coroutines. */
static __always_inline int keeps_order(const struct thread *thread)
{
	return !thread->open_calls && !thread->has_coroutines;
}

/* Bind after a successful TLS read: its bytes came with the last receive before it on the same thread, unless the call
 * received by itself. */
static __always_inline void bind_received(struct thread *thread, const struct call *call,
					  const struct connection_key *key, struct connection *connection)
{
	u64 received = call->received;
	if (!received)
		return;
	if (!call->socket)
		bind(thread, key, connection, received, EVIDENCE_INDIRECT);
	/* One receive may have records of several cipher objects, when keys change. */
	if (!connection->half && thread->received == received)
		thread->received = 0;
}

/* Bind the connection of an object, if there is one. A subprogram: one socket call may do so several times. */
SUBPROGRAM int bind_object(u64 object, u64 socket)
{
	u64 id = bpf_get_current_pid_tgid();
	const struct thread *thread = map_lookup(threads, &id);
	if (!thread)
		return 0;
	struct connection_key key = {.object = object, .pid = thread->pid};
	struct connection *connection = map_lookup(connections, &key);
	if (connection && !connection->half) /* rustls makes no socket call inside a call */
		bind(thread, &key, connection, socket, EVIDENCE_INDIRECT);
	return 0;
}

/* TLS inside TLS: the socket of the innermost connection also carries the connections of the open calls around it, at most
 * a block away. `object`, `stack`: of the innermost call. Indirect evidence only: a call that is higher on the stack may be
 * another coroutine's. A subprogram: few calls need it, and the verifier follows each way through it only once. */
SUBPROGRAM int bind_outer(u64 object, u64 stack, u64 socket)
{
	for (u64 offset = 0; offset < 2; offset++) {
		struct call_block *block = find_block(stack + (offset << BLOCK_BITS));
		for (int i = 0; block && i < BLOCK_CALLS; i++) {
			const struct call *call = &block->calls[i];
			u64 outer_stack = call->stack;
			u64 outer = call->object;
			if (outer_stack > stack && outer_stack - stack < 1 << BLOCK_BITS && !call->has_no_io &&
			    outer != object && is_call_at(call, outer_stack))
				bind_object(outer, socket);
		}
	}
	return 0;
}

static __always_inline int is_of_records(u64 sent, u64 plaintext, u64 records)
{
	return sent >= plaintext + LEAST_OVERHEAD * records && sent <= plaintext + MOST_OVERHEAD * records;
}

/* The evidence of a send of `sent` bytes for the object that the thread wrote to last. Programs send all records at once,
 * or one after the other. */
static __always_inline enum evidence send_evidence(const struct thread *thread, const struct connection *connection,
						   u64 sent)
{
	if (!connection->half || is_of_records(sent, thread->written_bytes, thread->written_records) ||
	    is_of_records(sent, thread->written_first, 1))
		return EVIDENCE_INDIRECT;
	return EVIDENCE_WEAK;
}

/* The caller's state. A thread may receive its first TLS record before its first TLS call: so in processes of --pid, and
 * in those with TLS calls, all threads are known from their first socket call on. */
static __always_inline struct thread *socket_thread(void)
{
	u64 id = bpf_get_current_pid_tgid();
	struct thread *thread = map_lookup(threads, &id);
	if (thread)
		return thread;
	u32 tgid = id >> 32;
	const struct config *config = get_config();
	return config && (config->by_pid || map_lookup(watched, &tgid)) ? get_thread() : 0;
}

/* Bind when a call ends: its connection uses the socket of the socket calls inside. Returns the connection, if known. */
static __always_inline struct connection *bind_direct(const struct thread *thread, const struct connection_key *key,
						      u64 socket)
{
	struct connection *connection = map_lookup(connections, key);
	if (!connection || connection->socket != socket) {
		if (!has_addresses(socket))
			return connection;
		if (!connection)
			connection = make_connection(key, 0, HALF_NONE);
	}
	if (connection)
		bind(thread, key, connection, socket, EVIDENCE_DIRECT);
	return connection;
}

/* Note a socket call inside of a TLS call: it binds when that call returns, which finds the connection anyway. The
 * addresses, which take long, are read then, too, unless the call uses several sockets. */
static __always_inline void note_socket(struct call *call, u64 calls, const struct sock *sock, u64 sent, u64 received)
{
	u64 stack = call->stack;
	int is_new = !call->socket || (call->socket != (u64)sock && has_addresses((u64)sock));
	if (!is_call_at(call, stack))
		return;
	if (is_new)
		call->socket = (u64)sock;
	if (!sent)
		call->received_bytes = received && received < MOST_RECEIVED ? received : MOST_RECEIVED;
	if (calls > 1 && has_addresses((u64)sock))
		bind_outer(call->object, stack, (u64)sock);
}

/* Bind at a send outside of any TLS call: it is of the connection that the thread wrote to just before, if any. */
static __always_inline void bind_sent(struct thread *thread, u64 socket, u64 sent)
{
	struct connection_key key = {.object = thread->written, .pid = thread->pid};
	thread->written = 0;
	struct connection *connection = key.object ? map_lookup(connections, &key) : 0;
	if (connection)
		bind(thread, &key, connection, socket, send_evidence(thread, connection, sent));
}

/* Look at a socket call whose caller has no state. With --pid it is not watched. */
static __always_inline int check_other(u64 socket, u64 sent, u64 received)
{
	const struct config *config = get_config();
	if (!config || config->by_pid)
		return 0;
	if (sent)
		check_send(socket, sent);
	else if (received)
		check_receive(socket, received);
	return 0;
}

/* Find whose connection a socket call is. `sent`: the bytes that were sent; 0: bytes were received. `received`: so many,
 * which are in the caller's buffer; 0: they are not there yet. One of them is the constant 0, and all that is for the other
 * direction is left out of the program: the verifier need not check it, and the call need not pass it. */
static __always_inline int find_connection(u64 socket, u64 sent, u64 received)
{
	const struct sock *sock = (const struct sock *)socket;
	struct thread *thread = socket_thread();
	if (!thread)
		return check_other(socket, sent, received);
	if (sent)
		check_thread_send(thread, socket, sent);
	if (received)
		check_thread_receive(thread, socket, received);
	struct call *call = 0;
	u64 calls = enclosing_calls(thread, user_stack(), &call);
	if (call) {
		note_socket(call, calls, sock, sent, received);
		if (sent && thread->settled != socket) /* one of its first sends */
			mark_called(socket);
	}
	if ((call && !thread->shut) || !has_addresses(socket) || !is_stream(sock))
		return 0;
	if (sent && thread->shut) {
		check_ends(thread, thread->shut, ENDED_BY_NOTIFY, ENDED_UNSURE);
		thread->shut = 0;
	}
	if (call)
		return 0;
	if (sent)
		bind_sent(thread, socket, sent);
	else
		thread->received = keeps_order(thread) ? socket : 0;
	return 0;
}

/* Subprograms: what their callers know of the sizes would make more ways for the verifier to follow. */
SUBPROGRAM int bind_send(u64 socket, u64 sent)
{
	return find_connection(socket, sent, 0);
}

SUBPROGRAM int bind_receive(u64 socket, u64 received)
{
	return find_connection(socket, 0, received);
}

#define MSG_PEEK 2 /* include/linux/socket.h */

/* Kernels since 6.3 (include/trace/events/sock.h): (sock, result, flags), after the call. */
SEC("raw_tp/sock_send_length")
int socket_sent(struct bpf_raw_tracepoint_args *ctx)
{
	s32 result = ctx->args[1];
	return result > 0 ? bind_send(ctx->args[0], result) : 0;
}

SEC("raw_tp/sock_recv_length")
int socket_received(struct bpf_raw_tracepoint_args *ctx)
{
	s32 result = ctx->args[1];
	if (result <= 0)
		return 0;
	if (notes_waits)
		note_wait(ctx->args[2]);
	return bind_receive(ctx->args[0], ctx->args[2] & MSG_PEEK ? 0 : result);
}

/* Older kernels: the first argument of tcp_sendmsg and tcp_recvmsg is the sock, the third a length. */
SEC("kprobe/tcp_sendmsg")
int tcp_sent(struct pt_regs *ctx)
{
	u64 size = PT_REGS_PARM3(ctx);
	return size ? bind_send(PT_REGS_PARM1(ctx), size) : 0;
}

SEC("kprobe/tcp_recvmsg")
int tcp_received(struct pt_regs *ctx)
{
	return bind_receive(PT_REGS_PARM1(ctx), 0);
}

/* The state of a TCP connection changes: (sock, old state, new state); since 4.16. */
SEC("raw_tp/inet_sock_set_state")
int tcp_state(struct bpf_raw_tracepoint_args *ctx)
{
	note_state(ctx->args[0], ctx->args[2]);
	return 0;
}

/* Close a half. Returns whether it was announced. */
static __always_inline int close_half(u64 object, u64 pid, u64 socket)
{
	struct connection_key key = {.object = object, .pid = pid};
	const struct connection *connection = map_lookup(connections, &key);
	if (!connection || !connection->half || connection->socket != socket)
		return 0;
	int announced = connection->announced;
	close_connection(0, &key, 0);
	return announced;
}

/* The last use of a TCP socket is over (net/ipv4/tcp_ipv4.c, tcp_v4_destroy_sock), in whatever context: another
 * connection may get its address. */
SEC("raw_tp/tcp_destroy_sock")
int socket_gone(struct bpf_raw_tracepoint_args *ctx)
{
	u64 socket = ctx->args[0];
	forget_socket(socket);
	struct carrier *known = map_lookup(carriers, &socket);
	if (!known)
		return 0;
	struct carrier carrier = *known;
	if (!is_carrier_of(known, socket))
		return 0;
	map_delete(carriers, &socket);
	int announced = close_half(carrier.objects[DIRECTION_READ], carrier.pid, socket);
	announced |= close_half(carrier.objects[DIRECTION_WRITE], carrier.pid, socket);
	struct event_socket_gone *event = ring_reserve(events, sizeof(struct event_socket_gone));
	if (!event) {
		if (announced)
			count(COUNTER_LOST_ENDS, 1);
		return 0;
	}
	fill_header(&event->header, EVENT_SOCKET_GONE, 0, 0);
	event->socket = socket;
	ring_submit(events, event);
	return 0;
}
