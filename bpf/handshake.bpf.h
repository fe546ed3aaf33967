/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * TLS handshakes, and connections, that a library gives up: its error, and the alert that it sends. The socket may not be known
 * yet: user space finds it by the client random, which is in the ClientHello that the kernel sees.
 */
#pragma once

#include "addresses.bpf.h"

#define CLOSE_NOTIFY 0 /* RFC 8446, section 6.1: an alert that is no error */

/* The number of an alert at this address: its level, which says nothing in TLS 1.3, comes first. */
static __always_inline u8 read_alert(u64 alert)
{
	u8 number = CLOSE_NOTIFY;
	bpf_probe_read_user(&number, sizeof(number), (const void *)(alert + 1));
	return number;
}

/* The socket that a connection uses, or else the one from which its thread received last; 0: unknown. */
static __always_inline u64 likely_socket(const struct thread *thread, const struct connection *connection)
{
	if (connection->socket)
		return connection->socket;
	return keeps_order(thread) && has_addresses(thread->received) ? thread->received : 0;
}

/* Whether plaintext passed on a socket. */
static __always_inline int has_passed(u64 socket)
{
	const struct tls_socket *tls = map_lookup(tls_sockets, &socket);
	return tls && tls->is_probed;
}

/* Report that the library gives up a connection. `index`: that of its layout. `alert`: what it sends; -1: nothing. `error`: its
 * own number. A subprogram: the verifier checks it once. */
SUBPROGRAM int report_failure(u64 object, u64 index, u64 alert, u64 error)
{
	u64 thread_id = bpf_get_current_pid_tgid();
	const struct thread *thread = map_lookup(threads, &thread_id);
	if (!thread)
		return 0;
	struct connection_key key = {.object = object, .pid = thread->pid};
	const struct config *config = get_config();
	const struct connection *connection = map_lookup(connections, &key);
	u32 layout_number = index;
	const struct layout *layout = map_lookup(layouts, &layout_number);
	if (!connection || !layout || !config || config->stopped || connection->left_out)
		return 0;
	u64 id = connection->id;
	u64 socket = likely_socket(thread, connection);
	u8 from_start = connection->from_start;
	s32 verified = connection->verified;
	u8 has_data = connection->has_data || has_passed(socket);
	u8 is_sure = connection->is_fixed;
	if (!is_entry_of(connection, &key))
		return 0;
	struct event_failure *event = ring_reserve(events, sizeof(struct event_failure));
	if (!event) {
		count(COUNTER_LOST_FAILURES, 1);
		return 0;
	}
	__builtin_memset(event, 0, sizeof(*event));
	fill_header(&event->opened.header, EVENT_FAILURE, thread->tid, id);
	fill_opened(&event->opened, thread, object, layout, config);
	describe(&event->opened, object, layout);
	event->opened.from_start = from_start;
	event->has_data = has_data;
	event->is_sure = is_sure;
	event->alert = alert;
	event->error = error;
	event->verified = verified ? verified : -1;
	if (has_layout(layout, object)) {
		if (layout->verified >= 0 && !verified)
			event->verified = read_u32(object + layout->verified);
		u64 base = layout->random_base >= 0 ? read_pointer(object + layout->random_base) : object;
		if (base && layout->random >= 0)
			bpf_probe_read_user(event->random, RANDOM_BYTES, (const void *)(base + layout->random));
	}
	if (socket) {
		event->socket = socket;
		COPY_ADDRESSES(event, (const struct sock *)socket);
	}
	ring_submit(events, event);
	return 0;
}

/* Report what the object of a connection without data says of its handshake, at its end: in GnuTLS also the alert that was
 * received last. */
static __always_inline void report_unused(void *ctx, const struct thread *thread, u64 object)
{
	struct connection_key key = {.object = object, .pid = thread->pid};
	const struct connection *connection = map_lookup(connections, &key);
	if (!connection || connection->has_data)
		return;
	u32 index = layout_index(ctx);
	const struct layout *layout = map_lookup(layouts, &index);
	report_failure(object, index, -1, layout && layout->alert >= 0 ? read_u32(object + layout->alert) : 0);
}
