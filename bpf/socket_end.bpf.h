/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The end of the TCP connection that a watched TLS connection uses: who closed or reset it first. The kernel tells it when
 * it happens (inet_sock_set_state, tls_sockets.bpf.h), so it costs nothing while data passes. A program may free the
 * library's object before or after it closes the socket.
 */
#pragma once

#include "event_header.bpf.h"
#include "process.bpf.h"

/* Report how the TCP connection of a socket began to end, if it did. `connection`: 0 if only the socket is known. */
SUBPROGRAM int report_socket_end(u64 socket, u64 connection)
{
	const struct config *config = get_config();
	const struct tls_socket *tls = map_lookup(tls_sockets, &socket);
	if (!tls || !tls->ending || !config || config->stopped)
		return 0;
	struct event_socket_ended *event = ring_reserve(events, sizeof(struct event_socket_ended));
	if (!event)
		return 0;
	__builtin_memset(event, 0, sizeof(*event));
	fill_header(&event->header, EVENT_SOCKET_ENDED, 0, connection);
	event->header.time_ns = tls->ended_ns;
	event->socket = socket;
	event->ending = tls->ending;
	ring_submit(events, event);
	return 0;
}
