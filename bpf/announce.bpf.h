/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Announces a connection to user space: its process, its addresses, and the fields of the library's object.
 */
#pragma once

#include "convention.bpf.h"
#include "process.bpf.h"
#include "socket_end.bpf.h"

#define AF_INET 2
#define AF_INET6 10

static __always_inline u16 socket_family(const struct sock *sock)
{
	u16 family = 0;
	bpf_probe_read_kernel(&family, sizeof(family), &sock->__sk_common.skc_family);
	return family;
}

static __always_inline u64 read_pointer(u64 address)
{
	u64 value = 0;
	bpf_probe_read_user(&value, sizeof(value), (const void *)address);
	return value;
}

static __always_inline u32 read_u32(u64 address)
{
	u32 value = 0;
	bpf_probe_read_user(&value, sizeof(value), (const void *)address);
	return value;
}

/* Whether the layout is right for this object. */
static __always_inline int has_layout(const struct layout *layout, u64 object)
{
	return layout->is_typed <= 0 || !read_u32(object);
}

static __always_inline int is_server(const struct layout *layout, u32 value)
{
	value &= (u32)layout->server_mask;
	return layout->server_value >= 0 ? value == (u32)layout->server_value : value != 0;
}

/* Copy the connection's facts from the library's object, as far as its layout is known. */
static __always_inline void describe(struct event_opened *event, u64 object, const struct layout *layout)
{
	if (!has_layout(layout, object))
		return;
	if (layout->server >= 0)
		event->role = is_server(layout, read_u32(object + layout->server)) ? ROLE_SERVER : ROLE_CLIENT;
	else if (layout->client >= 0)
		event->role = (u8)read_u32(object + layout->client) ? ROLE_CLIENT : ROLE_SERVER;
	if (layout->version >= 0 && (layout->settled < 0 || (u8)read_u32(object + layout->settled))) {
		u64 base = layout->version_base >= 0 ? read_pointer(object + layout->version_base) : object;
		event->tls_version = base ? (u16)read_u32(base + layout->version) : 0;
	}
	if (layout->alpn >= 0 && layout->alpn_length >= 0) {
		u64 base = layout->alpn_base >= 0 ? read_pointer(object + layout->alpn_base) : object;
		u64 size = read_u32(base + layout->alpn_length); /* of 64 bits: bcc's compiler would shift a copy */
		u64 alpn = read_pointer(base + layout->alpn);
		/* Keep it in a register, so that the verifier uses this comparison. */
		asm volatile("" : "+r"(size));
		if (size > ALPN_BYTES)
			size = ALPN_BYTES;
		/* Not more than its length: its memory may end there. */
		if (alpn && size && !bpf_probe_read_user(event->alpn, size, (const void *)alpn))
			event->alpn_bytes = size;
	}
	if (layout->session >= 0 && layout->session_cipher >= 0 && layout->cipher_name >= 0) {
		u64 session = read_pointer(object + layout->session);
		u64 cipher = session ? read_pointer(session + layout->session_cipher) : 0;
		u64 name = cipher ? read_pointer(cipher + layout->cipher_name) : 0;
		if (name)
			bpf_probe_read_user_str(event->cipher, CIPHER_BYTES, (const void *)name);
	}
	u64 sni = layout->sni >= 0 ? read_pointer(object + layout->sni) : 0;
	if (!sni && layout->sni_base >= 0 && layout->sni_inner >= 0) {
		u64 base = read_pointer(object + layout->sni_base);
		sni = base ? read_pointer(base + layout->sni_inner) : 0;
	}
	if (sni && layout->sni_length >= 0) {
		u32 size = read_u32(object + layout->sni_length);
		if (size < SNI_BYTES)
			bpf_probe_read_user(event->sni, size & (SNI_BYTES - 1), (const void *)sni);
	} else if (sni) {
		bpf_probe_read_user_str(event->sni, SNI_BYTES, (const void *)sni);
	}
}

/* Copy the addresses of a socket into fields of these names, of a struct that is zero. A macro: events differ. */
#define COPY_ADDRESSES(to, sock)                                                                                  \
	do {                                                                                                      \
		(to)->family = socket_family(sock);                                                               \
		bpf_probe_read_kernel(&(to)->local_port, sizeof((to)->local_port), &(sock)->__sk_common.skc_num); \
		u16 remote_port = 0; /* in network order, unlike skc_num */                                       \
		bpf_probe_read_kernel(&remote_port, sizeof(remote_port), &(sock)->__sk_common.skc_dport);         \
		(to)->remote_port = __builtin_bswap16(remote_port);                                               \
		if ((to)->family == AF_INET) {                                                                    \
			bpf_probe_read_kernel((to)->local, 4, &(sock)->__sk_common.skc_rcv_saddr);                \
			bpf_probe_read_kernel((to)->remote, 4, &(sock)->__sk_common.skc_daddr);                   \
		} else {                                                                                          \
			bpf_probe_read_kernel((to)->local, 16, &(sock)->__sk_common.skc_v6_rcv_saddr);            \
			bpf_probe_read_kernel((to)->remote, 16, &(sock)->__sk_common.skc_v6_daddr);               \
		}                                                                                                 \
	} while (0)

/* Announce the addresses of the connection's socket, if they are new; again later if the ring buffer is full. A write that
 * sends may return after the peer answered and closed: only now it is known whose end that was. */
static __always_inline void announce_addresses(const struct thread *thread, const struct connection_key *key,
					       struct connection *connection)
{
	u64 socket = connection->socket;
	const struct sock *sock = (const struct sock *)socket;
	u64 id = connection->id;
	if (!sock || connection->addressed)
		return;
	struct event_addresses *event = ring_reserve(events, sizeof(struct event_addresses));
	if (!event)
		return;
	__builtin_memset(event, 0, sizeof(*event));
	fill_header(&event->header, EVENT_ADDRESSES, thread->tid, id);
	event->socket = socket;
	COPY_ADDRESSES(event, sock);
	ring_submit(events, event);
	if (is_entry_of(connection, key))
		connection->addressed = 1;
	report_socket_end(socket, 0);
}

/* Fill in the process and the library of a connection. */
static __always_inline void fill_opened(struct event_opened *event, const struct thread *thread, u64 object,
					const struct layout *layout, const struct config *config)
{
	event->pid = thread->pid;
	event->uid = (u32)bpf_get_current_uid_gid();
	event->inner_pid = inner_number(config);
	event->cgroup = bpf_get_current_cgroup_id();
	event->object = object;
	struct comm comm = {};
	get_process_comm(&comm);
	__builtin_memcpy(event->comm, comm.name, COMM_BYTES);
	event->library = layout->library;
	event->tls_version = layout->tls_version;
}

/* Announce the connection once; again later if the ring buffer is full. Returns whether it is announced. */
static __always_inline int announce_opened(void *ctx, const struct thread *thread, const struct connection_key *key,
					   struct connection *connection)
{
	if (connection->announced)
		return 1;
	u64 id = connection->id;
	u8 from_start = connection->from_start;
	u8 half = connection->half;
	if (!is_entry_of(connection, key))
		return 0;
	u32 index = layout_index(ctx);
	const struct config *config = get_config();
	const struct layout *layout = map_lookup(layouts, &index);
	struct event_opened *event = layout && config ? ring_reserve(events, sizeof(struct event_opened)) : 0;
	if (!event)
		return 0;
	__builtin_memset(event, 0, sizeof(*event));
	fill_header(&event->header, EVENT_OPENED, thread->tid, id);
	fill_opened(event, thread, key->object, layout, config);
	event->from_start = from_start;
	event->half = half;
	if (!half)
		describe(event, key->object, layout);
	ring_submit(events, event);
	if (is_entry_of(connection, key)) {
		connection->announced = 1;
		connection->layout = index;
	}
	return 1;
}

/* Before an event of a connection: announce the connection and its addresses, unless that was done. Returns whether the
 * event may follow. */
static __always_inline int announce(void *ctx, const struct thread *thread, const struct connection_key *key,
				    struct connection *connection)
{
	if (!announce_opened(ctx, thread, key, connection))
		return 0;
	announce_addresses(thread, key, connection);
	return 1;
}
