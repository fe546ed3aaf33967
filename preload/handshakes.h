/* SPDX-License-Identifier: MIT
 *
 * Notes what passes of each handshake, as bpf/tls_sockets.bpf.h does in the kernel, until data passes: the first sends and
 * receives inside of TLS calls, and how the TCP connection ended. After data nothing is noted: one flag of the connection says so.
 *
 * What is known is written as a record once TLS begins, when the answer begins and when the handshake is complete, as a program may
 * end at any moment; and at the end of the object, if no data passed. sslsniff shows what came last.
 */
#pragma once

#include "handshake_places.h"

#define RECORD_ALERT 21
#define ALERT_BYTES 2
#define MOST_FAILURES 4 /* records of one connection: a library may say more later */

/* The descriptor of a connection's socket, plus 1; 0: unknown. */
static int handshake_descriptor(const struct connection *connection)
{
	struct handshake *handshake = handshake_of(connection);
	int inside = handshake ? GET(handshake->descriptor) : 0;
	return inside ? inside : GET(connection->descriptor);
}

/* Fill in the addresses of a connection, where they are not known yet. */
static __attribute__((noinline)) void find_addresses(const struct connection *connection, struct tls_socket *found)
{
	struct endpoints ends;
	int descriptor = handshake_descriptor(connection);
	if (!found->family && descriptor && find_endpoints(descriptor - 1, &ends))
		COPY_ENDPOINTS(found, ends);
}

/* Write what is known of a handshake, if its addresses are. */
static __attribute__((noinline)) void report_handshake(const struct connection *connection, struct handshake *handshake)
{
	struct tls_socket *found = &handshake->found;
	find_addresses(connection, found);
	if (!found->family)
		return;
	if (!found->start)
		found->start = is_server(connection) ? TLS_HELLO_RECEIVED : TLS_CLIENT_HELLO;
	u32 tid = this_thread()->tid;
	struct event_tls_socket *event = begin_record(sizeof(*event), tid, &connection->id);
	if (!event) {
		COUNT(lost_handshakes, 1);
		return;
	}
	fill_header(&event->header, EVENT_TLS_SOCKET, tid, connection->id);
	event->socket = connection->id;
	memcpy(&event->found, found, sizeof(*found));
	end_record(event, sizeof(*event));
	handshake->is_reported = 1;
}

/* Append the beginning of what passed, as much as there is room for. */
static u32 append(u8 *to, u32 used, u32 room, const void *from, u64 size)
{
	u32 put = room - used < size ? room - used : (u32)size;
	memcpy(to + used, from, put);
	return used + put;
}

static void append_hello(struct handshake *handshake, const void *from, u64 size)
{
	struct tls_socket *found = &handshake->found;
	handshake->hello_bytes = append(found->hello, handshake->hello_bytes, HELLO_BYTES, from, size);
	if (handshake->hello_bytes > RECORD_HEADER_BYTES)
		found->hello_bytes = handshake->hello_bytes - RECORD_HEADER_BYTES;
}

static void note_sent(struct handshake *handshake, const void *first, u64 known, u64 size)
{
	struct tls_socket *found = &handshake->found;
	if (found->start == TLS_CLIENT_HELLO && !found->received)
		append_hello(handshake, first, known);
	u32 sends = GET(found->sends);
	if (sends >= NOTED_SENDS)
		return;
	SET(found->sends, sends + 1);
	struct noted_send *noted = &found->noted[sends];
	append(noted->head, 0, HEAD_BYTES, first, known);
	noted->bytes = size;
	noted->received = found->received;
}

/* Note an alert in clear; the header of its record may have been received before. */
static void note_alert(struct handshake *handshake, const u8 *first, u64 known)
{
	u64 before = handshake->has_header ? RECORD_HEADER_BYTES : 0;
	u8 record[RECORD_HEADER_BYTES + ALERT_BYTES];
	if (!before && known >= RECORD_HEADER_BYTES)
		memcpy(handshake->header, first, RECORD_HEADER_BYTES);
	handshake->has_header = !before && known == RECORD_HEADER_BYTES;
	if (before + known != sizeof(record))
		return;
	memcpy(record, handshake->header, RECORD_HEADER_BYTES);
	memcpy(record + RECORD_HEADER_BYTES, first + known - ALERT_BYTES, ALERT_BYTES);
	if (record[0] != RECORD_ALERT || record[3] || record[4] != ALERT_BYTES)
		return;
	handshake->found.alert_level = record[5];
	handshake->found.alert = record[6];
}

static void note_received(struct handshake *handshake, const void *first, u64 known, u64 size)
{
	struct tls_socket *found = &handshake->found;
	note_alert(handshake, first, known);
	if (found->start == TLS_HELLO_RECEIVED && !found->sends)
		append_hello(handshake, first, known);
	handshake->answer_bytes = append(found->answer, handshake->answer_bytes, HEAD_BYTES, first, known);
	found->received += size;
}

/* Note `size` bytes that a socket call passed; `known` of them are at `first`. Returns whether to report that TLS or its answer begins: not
 * from here, as a stack may be small. */
static __attribute__((noinline)) int note_bytes(struct connection *connection, int descriptor, int sends,
						const void *first, u64 known, u64 size)
{
	struct handshake *handshake = take_or_begin(connection);
	if (!handshake)
		return 0;
	struct tls_socket *found = &handshake->found;
	if (GET(handshake->descriptor) && GET(handshake->descriptor) != descriptor + 1) {
		give_back(handshake); /* a callback asks another server */
		return 0;
	}
	SET(handshake->descriptor, descriptor + 1);
	if (!found->start)
		found->start = sends ? TLS_CLIENT_HELLO : TLS_HELLO_RECEIVED;
	int is_answered = found->received != 0;
	known = known < size ? known : size;
	if (sends)
		note_sent(handshake, first, known, size);
	else
		note_received(handshake, first, known, size);
	int is_first = sends ? found->sends == 1 : !is_answered && found->start == TLS_CLIENT_HELLO;
	give_back(handshake);
	return is_first;
}

/* Report what was noted until now. */
static __attribute__((noinline)) void report_noted(const struct connection *connection)
{
	struct handshake *handshake = take_handshake(connection);
	if (!handshake)
		return;
	report_handshake(connection, handshake);
	give_back(handshake);
}

/* Note that a handshake is complete. */
static __attribute__((noinline)) void complete_handshake(const struct connection *connection)
{
	struct handshake *handshake = take_handshake(connection);
	if (!handshake)
		return;
	if (!handshake->found.is_complete) {
		handshake->found.is_complete = 1;
		report_handshake(connection, handshake);
	}
	give_back(handshake);
}

static void note_ending(struct handshake *handshake, u8 ending)
{
	if (handshake->found.ending)
		return;
	handshake->found.ending = ending;
	handshake->found.ended_ns = monotonic_ns();
}

/* How the TCP connection ended, as a socket call without bytes says: enum socket_ending. */
static u8 ending_of(ssize_t result, int sends)
{
	if (!result)
		return sends ? ENDING_UNKNOWN : ENDING_PEER_CLOSED;
	switch (errno) {
	case ECONNRESET:
	case EPIPE:
		return ENDING_PEER_RESET;
	case ETIMEDOUT:
		return ENDING_TIMED_OUT;
	}
	return ENDING_UNKNOWN;
}

/* The connection that began on a descriptor, if its library gets the bytes through memory and its handshake is noted; 0: there is none. */
static struct connection *connection_through_memory(int descriptor)
{
	const struct descriptor *known = running_handshakes() ? descriptor_at(descriptor) : 0;
	u64 object = known ? GET(known->object) : 0;
	struct connection *connection = object ? find_connection(object) : 0;
	int is_its =
	    connection && GET(connection->phase) == PHASE_HANDSHAKE && GET(connection->descriptor) == descriptor + 1;
	return is_its ? connection : 0;
}

/* Note that the bytes of a connection pass on its descriptor, outside of TLS calls. */
static void pass_through_memory(const struct connection *connection)
{
	struct descriptor *known = descriptor_at(GET(connection->descriptor) - 1);
	if (known)
		SET(known->object, connection->object);
}

/* A TLS call before data returned none: note that there is a handshake, also if no socket call was inside of it. `received`: bytes that
 * the thread had received for it. */
static __attribute__((noinline)) void note_call(struct connection *connection, u64 received)
{
	struct handshake *handshake = take_or_begin(connection);
	if (!handshake)
		return;
	if (!GET(handshake->descriptor))
		SET(handshake->descriptor, GET(connection->descriptor));
	if (!handshake->found.received)
		handshake->found.received = received;
	if (!handshake->is_reported)
		report_handshake(connection, handshake);
	give_back(handshake);
}

/* The object of a connection ends: report its handshake, if no data passed. */
static void end_handshake(struct connection *connection)
{
	struct handshake *handshake = take_handshake(connection);
	if (handshake) {
		note_ending(handshake, ENDING_CLOSED);
		handshake->found.is_gone = 1;
		report_handshake(connection, handshake);
		give_back(handshake);
	}
	forget_handshake(connection);
}

/* What is known of a connection that its library gives up. Not while a record is being written: the library is asked. */
static __attribute__((noinline)) void fill_failure(struct event_failure *event, const struct connection *connection,
						   const struct library *library)
{
	memset(event, 0, sizeof(*event));
	fill_opened(&event->opened, connection, library);
	describe(&event->opened, connection, library);
	event->has_data = GET(connection->phase) >= PHASE_SENT;
	struct endpoints ends;
	int descriptor = handshake_descriptor(connection);
	if (!descriptor || !find_endpoints(descriptor - 1, &ends))
		return;
	event->socket = connection->id;
	event->is_sure = 1;
	COPY_ENDPOINTS(event, ends);
}

/* Write that the library gives up a connection, as report_failure of bpf/handshake.bpf.h does. `alert`: what it sends; -1: that is not
 * known. */
static __attribute__((noinline)) void report_failure(struct connection *connection, s32 alert, s32 error, s32 verified)
{
	const struct library *library = GET(connection->library);
	u8 failures = GET(connection->failures);
	if (!library || !is_in_sample(connection) || failures >= MOST_FAILURES)
		return;
	SET(connection->failures, failures + 1);
	struct description *description = begin_description();
	struct event_failure *event = 0;
	u32 tid = this_thread()->tid;
	if (description) {
		fill_failure(&description->event, connection, library);
		description->event.alert = alert;
		description->event.error = error;
		description->event.verified = verified ? verified : -1;
		event = begin_record(sizeof(*event), tid, &connection->id);
	}
	if (event) {
		memcpy(event, &description->event, sizeof(*event));
		fill_header(&event->opened.header, EVENT_FAILURE, tid, connection->id);
		end_record(event, sizeof(*event));
	} else {
		COUNT(lost_handshakes, 1);
	}
	if (description)
		__atomic_store_n(&description->is_taken, 0, __ATOMIC_RELEASE);
}
