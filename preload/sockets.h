/* SPDX-License-Identifier: MIT
 *
 * Wraps libc's socket calls, to find the descriptor of each connection, as bpf/addresses.bpf.h does in the kernel: many
 * libraries and programs get a connection's bytes through memory, and the TLS library has no descriptor.
 *
 * A socket call inside a TLS call is of that connection, once that returns. Else a receive is of the connection that the
 * thread reads from next, a send of the one that it wrote to last, if these have no socket call inside. If that
 * contradicts what is known, it counts the second time, and not at all after two calls with the known one inside.
 */
#pragma once

#include <sys/uio.h>

#include "open_calls.h"
#include "handshakes.h"

#define CERTAIN 2

static __attribute__((noinline)) void bind_descriptor(struct connection *connection, int descriptor, int is_direct)
{
	int known = GET(connection->descriptor);
	int is_known = known == descriptor + 1;
	int direct = GET(connection->direct);
	if (is_direct)
		SET(connection->direct, direct && is_known ? CERTAIN : 1);
	else if (direct == CERTAIN)
		return;
	else if (!is_known)
		SET(connection->direct, 0);
	if (is_known || GET(connection->without_addresses) == descriptor + 1) {
		SET(connection->rival, 0);
		return;
	}
	if (known && !is_direct && GET(connection->rival) != descriptor + 1) {
		SET(connection->rival, descriptor + 1);
		return;
	}
	if (!has_endpoints(descriptor)) {
		SET(connection->without_addresses, descriptor + 1);
		return;
	}
	SET(connection->descriptor, descriptor + 1);
	SET(connection->rival, 0);
	SET(connection->has_addresses, 0);
	if (GET(connection->is_announced))
		announce_addresses(connection, this_thread()->tid);
}

/* Bind when a call ends inside of which `descriptor` was used. */
static void bind_inside(struct connection *connection, int descriptor)
{
	SET(connection->inside, 0);
	bind_descriptor(connection, descriptor, 1);
}

/* A socket call of this thread on `descriptor`. Returns the connection of the TLS call around it, if its handshake is noted; 0: there
 * is none. Not inlined: the wrappers should stay short. */
static __attribute__((noinline)) struct connection *note_descriptor(int descriptor, int sends, int is_socket, u64 size)
{
	u64 stack = (u64)__builtin_frame_address(0), above, object;
	u64 nearest = innermost_object(stack);
	struct connection *innermost = nearest ? find_connection(nearest) : 0, *connection;
	if (innermost)
		SET(innermost->inside, descriptor + 1);
	for (u32 place = 0; nearest && (object = next_enclosing(stack, &place, &above));) {
		connection = object != nearest ? find_connection(object) : 0;
		if (connection) /* TLS inside TLS: both layers use the socket */
			bind_descriptor(connection, descriptor, 0);
	}
	if (innermost && GET(innermost->phase) == PHASE_HANDSHAKE) /* a callback may write to a file */
		return is_stream(descriptor, is_socket) ? innermost : 0;
	if (nearest || !is_stream(descriptor, is_socket))
		return 0;
	struct thread *thread = this_thread();
	if (!sends) {
		thread->received = descriptor + 1;
		thread->received_bytes = size;
	} else if (thread->written) {
		connection = find_connection(thread->written);
		thread->written = 0;
		if (connection)
			bind_descriptor(connection, descriptor, 0);
		if (connection && GET(connection->phase) == PHASE_HANDSHAKE)
			pass_through_memory(connection);
	}
	return connection_through_memory(descriptor);
}

/* A socket call of this thread on `descriptor` passed no bytes, while a handshake is going on. */
static __attribute__((noinline)) void note_no_bytes(int descriptor, int sends, ssize_t result)
{
	u8 ending = ending_of(result, sends);
	if (!ending)
		return;
	u64 nearest = innermost_object((u64)__builtin_frame_address(0));
	const struct connection *connection =
	    nearest ? find_connection(nearest) : connection_through_memory(descriptor);
	struct handshake *handshake = connection ? take_handshake(connection) : 0;
	if (!handshake)
		return;
	if (GET(handshake->descriptor) == descriptor + 1) {
		note_ending(handshake, ending);
		report_handshake(connection, handshake); /* the program may end before the object does */
	}
	give_back(handshake);
}

/* After a socket call, whose first `known` bytes are at `first`. */
#define NOTE_SOCKET_CALL(result, sends, is_socket, first, known)                                               \
	do {                                                                                                   \
		struct connection *connection = 0;                                                             \
		if (result > 0 && has_connections() && is_watched())                                           \
			connection = note_descriptor(descriptor, sends, is_socket, (u64)(result));             \
		else if (result <= 0 && running_handshakes())                                                  \
			note_no_bytes(descriptor, sends, result);                                              \
		if (connection && note_bytes(connection, descriptor, sends, first, (u64)(known), (u64)result)) \
			report_noted(connection);                                                              \
	} while (0)

/* `is_socket`: whether it only works on a socket. */
#define SOCKET_CALL(name, real, sends, is_socket, first, known, parameters, arguments)  \
	EXPORTED ssize_t name parameters                                                \
	{                                                                               \
		ssize_t result = ((ssize_t(*) parameters)real_function(real))arguments; \
		NOTE_SOCKET_CALL(result, sends, is_socket, first, known);               \
		return result;                                                          \
	}

#define FIRST_OF(message) ((message)->msg_iovlen ? (message)->msg_iov->iov_base : 0)
#define FIRST_BYTES_OF(message) ((message)->msg_iovlen ? (message)->msg_iov->iov_len : 0)

/* How many bytes a receive copied: it may only say how many there are, and have no buffer. */
#define COPIED (flags & (MSG_TRUNC | MSG_PEEK) ? 0 : result)

SOCKET_CALL(read, REAL_READ, 0, 0, buffer, result, (int descriptor, void *buffer, size_t size),
	    (descriptor, buffer, size))
SOCKET_CALL(write, REAL_WRITE, 1, 0, buffer, result, (int descriptor, const void *buffer, size_t size),
	    (descriptor, buffer, size))
SOCKET_CALL(readv, REAL_READV, 0, 0, list->iov_base, list->iov_len,
	    (int descriptor, const struct iovec *list, int count), (descriptor, list, count))
SOCKET_CALL(writev, REAL_WRITEV, 1, 0, list->iov_base, list->iov_len,
	    (int descriptor, const struct iovec *list, int count), (descriptor, list, count))
SOCKET_CALL(recv, REAL_RECV, 0, 1, buffer, COPIED, (int descriptor, void *buffer, size_t size, int flags),
	    (descriptor, buffer, size, flags))
SOCKET_CALL(send, REAL_SEND, 1, 1, buffer, result, (int descriptor, const void *buffer, size_t size, int flags),
	    (descriptor, buffer, size, flags))
SOCKET_CALL(sendmsg, REAL_SENDMSG, 1, 1, FIRST_OF(message), FIRST_BYTES_OF(message),
	    (int descriptor, const struct msghdr *message, int flags), (descriptor, message, flags))
SOCKET_CALL(recvfrom, REAL_RECVFROM, 0, 1, buffer, COPIED,
	    (int descriptor, void *buffer, size_t size, int flags, __SOCKADDR_ARG address, socklen_t *address_bytes),
	    (descriptor, buffer, size, flags, address, address_bytes))
SOCKET_CALL(sendto, REAL_SENDTO, 1, 1, buffer, result,
	    (int descriptor, const void *buffer, size_t size, int flags, __CONST_SOCKADDR_ARG address,
	     socklen_t address_bytes),
	    (descriptor, buffer, size, flags, address, address_bytes))
/* With _FORTIFY_SOURCE (debug/read_chk.c, debug/recv_chk.c of glibc). */
SOCKET_CALL(__read_chk, REAL_READ_CHK, 0, 0, buffer, result, (int descriptor, void *buffer, size_t size, size_t room),
	    (descriptor, buffer, size, room))
SOCKET_CALL(__recv_chk, REAL_RECV_CHK, 0, 1, buffer, COPIED,
	    (int descriptor, void *buffer, size_t size, size_t room, int flags),
	    (descriptor, buffer, size, room, flags))

EXPORTED ssize_t recvmsg(int descriptor, struct msghdr *message, int flags)
{
	ssize_t result =
	    ((ssize_t (*)(int, struct msghdr *, int))real_function(REAL_RECVMSG))(descriptor, message, flags);
	if (result > 0 && GET(descriptors) && message->msg_controllen)
		note_passed(message);
	NOTE_SOCKET_CALL(result, 0, 1, FIRST_OF(message), COPIED ? FIRST_BYTES_OF(message) : 0);
	return result;
}
