/* SPDX-License-Identifier: MIT
 *
 * Wraps the calls that make, connect, name and close sockets, for what they say of descriptors (descriptors.h): none makes a
 * system call more. A child of vfork shares the table, and not its descriptors: of what it closes or copies only less is known.
 */
#pragma once

#include "descriptors.h"

static void note_made(int number, int domain, int type)
{
	int is_of_ip = domain == AF_INET || domain == AF_INET6;
	int is_stream = (type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) == SOCK_STREAM;
	if (number >= 0)
		set_kind(number, is_of_ip && is_stream ? DESCRIPTOR_MADE : DESCRIPTOR_OTHER);
}

/* The endpoints of a socket that was seen to be made; 0: it is none. */
static struct endpoints *made_endpoints(int number)
{
	return kind_of(number) == DESCRIPTOR_MADE ? &descriptor_at(number)->ends : 0;
}

EXPORTED int socket(int domain, int type, int protocol)
{
	int made = ((int (*)(int, int, int))real_function(REAL_SOCKET))(domain, type, protocol);
	note_made(made, domain, type);
	return made;
}

EXPORTED int socketpair(int domain, int type, int protocol, int ends[2])
{
	int failed = ((int (*)(int, int, int, int *))real_function(REAL_SOCKETPAIR))(domain, type, protocol, ends);
	for (int i = 0; !failed && i < 2; i++)
		note_made(ends[i], domain, type);
	return failed;
}

/* A call that waits for the handshake, or does not wait (EINPROGRESS, EINTR), has the address that the kernel uses. */
static __attribute__((noinline)) void note_connected(int number, const void *address, socklen_t bytes, int failed)
{
	struct endpoints *ends = made_endpoints(number);
	if (!ends || (failed && (errno == EISCONN || errno == EALREADY)))
		return;
	SET(ends->local.family_and_port, 0);
	SET(ends->remote.family_and_port, 0);
	if (!failed || errno == EINPROGRESS || errno == EINTR)
		read_endpoint(address, bytes, &ends->remote);
}

EXPORTED int connect(int descriptor, __CONST_SOCKADDR_ARG address, socklen_t bytes)
{
	int failed =
	    ((int (*)(int, __CONST_SOCKADDR_ARG, socklen_t))real_function(REAL_CONNECT))(descriptor, address, bytes);
	note_connected(descriptor, address.__sockaddr__, bytes, failed);
	return failed;
}

/* A buffer for an address that the program may not ask for. */
struct address_buffer {
	u8 *at;
	socklen_t *bytes;
	socklen_t room; /* before the call */
	socklen_t own_bytes;
	u8 own[ADDRESS_BYTES];
};

/* Let the kernel write the peer's address in the same call. Not under a filter of system calls: that may look at arguments. */
static void use_buffer(struct address_buffer *buffer, struct sockaddr *address, socklen_t *bytes)
{
	buffer->at = (u8 *)address;
	buffer->bytes = bytes;
	if (!address && GET(descriptors) && may_ask_kernel()) {
		buffer->own_bytes = sizeof(buffer->own);
		buffer->at = buffer->own;
		buffer->bytes = &buffer->own_bytes;
	}
	buffer->room = buffer->at && buffer->bytes ? *buffer->bytes : 0;
}

static void note_accepted(int made, const struct address_buffer *buffer)
{
	if (made < 0)
		return;
	set_kind(made, DESCRIPTOR_COPY);
	u16 family;
	if (!buffer->room || *buffer->bytes > buffer->room || *buffer->bytes < sizeof(family))
		return;
	memcpy(&family, buffer->at, sizeof(family));
	note_made(made, family, SOCK_STREAM);
	struct endpoints *ends = made_endpoints(made);
	if (ends)
		read_endpoint(buffer->at, *buffer->bytes, &ends->remote);
}

EXPORTED int accept(int descriptor, __SOCKADDR_ARG address, socklen_t *bytes)
{
	struct address_buffer buffer;
	use_buffer(&buffer, address.__sockaddr__, bytes);
	int made = ((int (*)(int, void *, socklen_t *))real_function(REAL_ACCEPT))(descriptor, buffer.at, buffer.bytes);
	note_accepted(made, &buffer);
	return made;
}

EXPORTED int accept4(int descriptor, __SOCKADDR_ARG address, socklen_t *bytes, int flags)
{
	struct address_buffer buffer;
	use_buffer(&buffer, address.__sockaddr__, bytes);
	int made = ((int (*)(int, void *, socklen_t *, int))real_function(REAL_ACCEPT4))(descriptor, buffer.at,
											 buffer.bytes, flags);
	note_accepted(made, &buffer);
	return made;
}

/* What a program asks for itself. */
#define NAMING_CALL(name, real, end)                                                                              \
	EXPORTED int name(int descriptor, __SOCKADDR_ARG address, socklen_t *bytes)                               \
	{                                                                                                         \
		struct endpoints *ends = made_endpoints(descriptor);                                              \
		socklen_t room = ends && bytes ? *bytes : 0;                                                      \
		int failed =                                                                                      \
		    ((int (*)(int, __SOCKADDR_ARG, socklen_t *))real_function(real))(descriptor, address, bytes); \
		if (!failed && room && *bytes <= room)                                                            \
			read_endpoint((const u8 *)address.__sockaddr__, *bytes, &ends->end);                      \
		return failed;                                                                                    \
	}

NAMING_CALL(getsockname, REAL_GETSOCKNAME, local)
NAMING_CALL(getpeername, REAL_GETPEERNAME, remote)

/* Before it is closed: after that another thread may have the number. */
EXPORTED int close(int descriptor)
{
	set_kind(descriptor, DESCRIPTOR_UNKNOWN);
	JUMP return ((int (*)(int))real_function(REAL_CLOSE))(descriptor);
}

#define COPYING_CALL(name, real, parameters, arguments)                       \
	EXPORTED int name parameters                                          \
	{                                                                     \
		int made = ((int(*) parameters)real_function(real))arguments; \
		if (made >= 0)                                                \
			set_kind(made, DESCRIPTOR_COPY);                      \
		return made;                                                  \
	}

COPYING_CALL(dup, REAL_DUP, (int descriptor), (descriptor))
COPYING_CALL(dup2, REAL_DUP2, (int descriptor, int wanted), (descriptor, wanted))
COPYING_CALL(dup3, REAL_DUP3, (int descriptor, int wanted, int flags), (descriptor, wanted, flags))
