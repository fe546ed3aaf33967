/* SPDX-License-Identifier: MIT
 *
 * What this process's own calls show of its descriptors (opening.h): which are sockets that carry a stream, and their addresses. System
 * calls show the rest.
 *
 * Addresses are kept only of a socket that the program was seen to make, until it is seen to close it: another socket may have its
 * number later. A program may make and close sockets by io_uring, where no call is seen: it has no such table.
 */
#pragma once

#include <sys/socket.h>

#include "filters.h"
#include "connections.h"

#define MOST_DESCRIPTORS 65536
#define MOST_INHERITED 16 /* that the constructor asks about */
#define ADDRESS_BYTES 28  /* struct sockaddr_in6, whose beginning is as that of struct sockaddr_in */

enum descriptor_kind {
	DESCRIPTOR_UNKNOWN, /* a file, most likely: no call that makes it is wrapped */
	DESCRIPTOR_COPY,    /* of another, or of another process's */
	DESCRIPTOR_MADE,    /* a socket for a stream over IP, from its beginning */
	DESCRIPTOR_STREAM,  /* a socket for a stream, as the kernel said */
	DESCRIPTOR_OTHER,   /* carries no stream over IP */
};

/* Family, port in the order of the host, address; each word is read and written at once. */
struct endpoint {
	u64 family_and_port; /* 0: unknown */
	u64 address[2];
};

struct endpoints {
	struct endpoint local, remote;
};

struct descriptor {
	u64 kind;
	struct endpoints ends;
	u64 object; /* of a TLS connection that began here, and whose bytes the library gets through memory; perhaps of an earlier one */
};

#define DESCRIPTORS_BYTES (sizeof(struct descriptor) * MOST_DESCRIPTORS)

/* A forked child has a copy. */
static struct descriptor *descriptor_memory;
static struct descriptor *descriptors; /* the same; 0: there is no table, or what is in it may be wrong */

static struct descriptor *descriptor_at(int number)
{
	struct descriptor *table = GET(descriptors);
	return table && (u32)number < MOST_DESCRIPTORS ? table + number : 0;
}

static inline enum descriptor_kind kind_of(int number)
{
	const struct descriptor *descriptor = descriptor_at(number);
	return descriptor ? (enum descriptor_kind)GET(descriptor->kind) : DESCRIPTOR_UNKNOWN;
}

/* Note what a descriptor is from now on. Nothing is written where nothing changes: most have never been in the table. */
static void set_kind(int number, enum descriptor_kind kind)
{
	struct descriptor *descriptor = descriptor_at(number);
	if (!descriptor || (GET(descriptor->kind) == kind && kind != DESCRIPTOR_MADE))
		return;
	SET(descriptor->ends.local.family_and_port, 0);
	SET(descriptor->ends.remote.family_and_port, 0);
	SET(descriptor->kind, kind);
}

/* From now on any descriptor may be any socket: one is closed or made by a call that is not seen. */
static void forget_descriptors(void)
{
	SET(descriptors, 0);
}

/* Read an endpoint out of a sockaddr_in or sockaddr_in6 (their port is in network order, at 2). Not one whose address is zero:
 * that may stand for another. Returns whether it is one. */
static int read_endpoint(const u8 *from, u64 bytes, struct endpoint *endpoint)
{
	u16 family = 0;
	u64 address[2] = {0};
	if (bytes >= 16)
		memcpy(&family, from, 2);
	if (family == AF_INET)
		memcpy(address, from + 4, 4);
	else if (family == AF_INET6 && bytes >= ADDRESS_BYTES)
		memcpy(address, from + 8, 16);
	if (!address[0] && !address[1])
		return 0;
	SET(endpoint->address[0], address[0]);
	SET(endpoint->address[1], address[1]);
	SET(endpoint->family_and_port, family | (u64)(from[2] << 8 | from[3]) << 16);
	return 1;
}

/* Ask the kernel for an endpoint. Returns whether it said one. */
static __attribute__((noinline)) int ask_endpoint(long call, int number, struct endpoint *endpoint)
{
	u8 address[ADDRESS_BYTES];
	int bytes = sizeof(address);
	long failed = system_call(call, number, (long)address, (long)&bytes, 0, 0, 0);
	if (failed == -ENOTSOCK)
		set_kind(number, DESCRIPTOR_OTHER);
	return !failed && read_endpoint(address, (u64)bytes, endpoint);
}

/* Find an endpoint: `known`, or as the kernel says; then it becomes known, if its socket is kept. */
static int find_endpoint(long call, int number, struct endpoint *known, struct endpoint *found)
{
	if (known) {
		found->family_and_port = GET(known->family_and_port);
		found->address[0] = GET(known->address[0]);
		found->address[1] = GET(known->address[1]);
		if (found->family_and_port)
			return 1;
	}
	if (!may_ask_kernel() || !ask_endpoint(call, number, found))
		return 0;
	if (known) {
		SET(known->address[0], found->address[0]);
		SET(known->address[1], found->address[1]);
		SET(known->family_and_port, found->family_and_port);
	}
	return 1;
}

/* Find both ends of a descriptor's connection; returns 0 if it is no connected socket of IP, or the kernel may not be asked. */
static int find_endpoints(int number, struct endpoints *found)
{
	enum descriptor_kind kind = kind_of(number);
	struct endpoints *known = kind == DESCRIPTOR_MADE ? &descriptor_at(number)->ends : 0;
	return kind != DESCRIPTOR_OTHER &&
	       find_endpoint(__NR_getpeername, number, known ? &known->remote : 0, &found->remote) &&
	       find_endpoint(__NR_getsockname, number, known ? &known->local : 0, &found->local);
}

/* Whether it has both. Not inlined, as what it has on the stack is not needed beside the caller's. */
static __attribute__((noinline)) int has_endpoints(int number)
{
	struct endpoints ends;
	return find_endpoints(number, &ends);
}

/* Ask the kernel whether a descriptor carries a stream. */
static enum descriptor_kind ask_kind(int number)
{
	int type = 0, bytes = sizeof(type);
	long failed = system_call(__NR_getsockopt, number, SOL_SOCKET, SO_TYPE, (long)&type, (long)&bytes, 0);
	enum descriptor_kind kind = !failed && type == SOCK_STREAM ? DESCRIPTOR_STREAM : DESCRIPTOR_OTHER;
	if (failed != -EBADF)
		set_kind(number, kind);
	return kind;
}

/* Whether a descriptor carries a stream, as TLS needs: between TLS calls, a thread may also read files, or ask for names by UDP.
 * `is_socket`: it carries a stream, or datagrams. */
static int is_stream(int number, int is_socket)
{
	enum descriptor_kind kind = kind_of(number);
	int may_be = kind == DESCRIPTOR_COPY || (kind == DESCRIPTOR_UNKNOWN && (is_socket || !descriptor_at(number)));
	if (may_be && may_ask_kernel())
		kind = ask_kind(number);
	return kind == DESCRIPTOR_MADE || kind == DESCRIPTOR_STREAM;
}

/* Make the table, with the first of those that the program was started with: they are asked about only here. */
static void look_at_descriptors(void)
{
	descriptors = descriptor_memory = empty_memory(DESCRIPTORS_BYTES);
	for (int number = 0; descriptors && number < MOST_INHERITED; number++)
		ask_kind(number);
}

/* Note the descriptors that came with a message (SCM_RIGHTS). */
static __attribute__((noinline)) void note_passed(const struct msghdr *message)
{
	const u8 *control = message->msg_control;
	u64 bytes = control ? message->msg_controllen : 0;
	for (u64 at = 0; at + sizeof(struct cmsghdr) <= bytes;) {
		const struct cmsghdr *header = (const void *)(control + at);
		if (header->cmsg_len < sizeof(*header) || header->cmsg_len > bytes - at)
			return;
		const int *numbers = (const void *)(header + 1);
		u64 count = (header->cmsg_len - sizeof(*header)) / sizeof(*numbers);
		int is_passed = header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS;
		for (u64 i = 0; is_passed && i < count; i++)
			set_kind(numbers[i], DESCRIPTOR_COPY);
		at += (header->cmsg_len + 7) & ~7ULL;
	}
}
