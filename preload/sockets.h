/* SPDX-License-Identifier: MIT
 *
 * Wraps libc's socket calls, to find the descriptor of each connection, as bpf/socket.bpf.h does in the kernel: many
 * libraries and programs get a connection's bytes through memory, and the TLS library has no descriptor.
 *
 * A socket call inside a TLS call is of that connection, once that returns. Else a receive is of the connection that the
 * thread reads from next, a send of the one that it wrote to last, if these have no socket call inside. If that
 * contradicts what is known, it counts the second time, and not at all after two calls with the known one inside.
 */
#include <sys/uio.h>

#define CERTAIN 2

static void bind_descriptor(struct connection *connection, int descriptor, int is_direct)
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
	struct event_addresses addresses;
	if (!read_addresses(descriptor, &addresses)) {
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

/* Whether a descriptor carries a stream, as TLS needs: between TLS calls, a thread may also ask for names by UDP. Of the one
 * that a thread used last this is known. */
static int is_stream(struct thread *thread, int descriptor)
{
	int kind = 0, kind_bytes = sizeof(kind);
	if (thread->stream != descriptor + 1 &&
	    !system_call(__NR_getsockopt, descriptor, SOL_SOCKET, SO_TYPE, (long)&kind, (long)&kind_bytes, 0) &&
	    kind == SOCK_STREAM)
		thread->stream = descriptor + 1;
	return thread->stream == descriptor + 1;
}

/* A socket call of this thread on `descriptor`. Not inlined: the wrappers should stay short. */
static __attribute__((noinline)) void note_descriptor(int descriptor, int sends)
{
	u64 objects[MOST_ENCLOSING];
	u32 count = enclosing_objects((u64)__builtin_frame_address(0), objects);
	for (u32 i = 0; i < count; i++) { /* TLS inside TLS: both layers use the socket */
		struct connection *connection = find_connection(objects[i]);
		if (connection && i)
			bind_descriptor(connection, descriptor, 0);
		else if (connection)
			SET(connection->inside, descriptor + 1);
	}
	struct thread *thread = this_thread();
	if (count || !is_stream(thread, descriptor))
		return;
	if (!sends) {
		thread->received = descriptor + 1;
	} else if (thread->written) {
		struct connection *connection = find_connection(thread->written);
		thread->written = 0;
		if (connection)
			bind_descriptor(connection, descriptor, 0);
	}
}

#define SOCKET_CALL(name, sends, parameters, arguments)                                                \
	static void *real_##name;                                                                      \
	EXPORTED ssize_t name parameters                                                               \
	{                                                                                              \
		ssize_t result = ((ssize_t(*) parameters)real_function(&real_##name, #name))arguments; \
		if (result > 0 && has_connections() && is_watched())                                   \
			note_descriptor(descriptor, sends);                                            \
		return result;                                                                         \
	}

SOCKET_CALL(read, 0, (int descriptor, void *buffer, size_t size), (descriptor, buffer, size))
SOCKET_CALL(write, 1, (int descriptor, const void *buffer, size_t size), (descriptor, buffer, size))
SOCKET_CALL(readv, 0, (int descriptor, const struct iovec *list, int count), (descriptor, list, count))
SOCKET_CALL(writev, 1, (int descriptor, const struct iovec *list, int count), (descriptor, list, count))
SOCKET_CALL(recv, 0, (int descriptor, void *buffer, size_t size, int flags), (descriptor, buffer, size, flags))
SOCKET_CALL(send, 1, (int descriptor, const void *buffer, size_t size, int flags), (descriptor, buffer, size, flags))
SOCKET_CALL(recvmsg, 0, (int descriptor, struct msghdr *message, int flags), (descriptor, message, flags))
SOCKET_CALL(sendmsg, 1, (int descriptor, const struct msghdr *message, int flags), (descriptor, message, flags))
SOCKET_CALL(recvfrom, 0,
	    (int descriptor, void *buffer, size_t size, int flags, __SOCKADDR_ARG address, socklen_t *address_bytes),
	    (descriptor, buffer, size, flags, address, address_bytes))
SOCKET_CALL(sendto, 1,
	    (int descriptor, const void *buffer, size_t size, int flags, __CONST_SOCKADDR_ARG address,
	     socklen_t address_bytes),
	    (descriptor, buffer, size, flags, address, address_bytes))
/* With _FORTIFY_SOURCE (debug/read_chk.c, debug/recv_chk.c of glibc). */
SOCKET_CALL(__read_chk, 0, (int descriptor, void *buffer, size_t size, size_t room), (descriptor, buffer, size, room))
SOCKET_CALL(__recv_chk, 0, (int descriptor, void *buffer, size_t size, size_t room, int flags),
	    (descriptor, buffer, size, room, flags))
