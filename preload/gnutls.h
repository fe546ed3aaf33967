/* SPDX-License-Identifier: MIT
 *
 * Wraps GnuTLS 3.7 and 3.8. A record is encrypted, and so counts, in the first call that sends it: where that returns
 * GNUTLS_E_AGAIN or GNUTLS_E_INTERRUPTED, a later call returns its size, perhaps with (NULL, 0).
 */
#pragma once

#include "bytes.h"
#include "calls.h"

enum gnutls_function {
	GNUTLS_RECORD_RECV,
	GNUTLS_RECORD_SEND,
	GNUTLS_RECORD_SEND2,
	GNUTLS_RECORD_SEND_RANGE,
	GNUTLS_RECORD_SEND_EARLY_DATA,
	GNUTLS_RECORD_SEND_FILE,
	GNUTLS_RECORD_RECV_SEQ,
	GNUTLS_RECORD_RECV_PACKET,
	GNUTLS_RECORD_RECV_EARLY_DATA,
	GNUTLS_RECORD_UNCORK,
	GNUTLS_INIT,
	GNUTLS_DEINIT,
	GNUTLS_HANDSHAKE,
	GNUTLS_BYE,
	GNUTLS_ALERT_SEND,
	GNUTLS_ALERT_SEND_APPROPRIATE,
	GNUTLS_CERTIFICATE_VERIFY_PEERS,
	GNUTLS_CERTIFICATE_VERIFY_PEERS2,
	GNUTLS_CERTIFICATE_VERIFY_PEERS3,
	GNUTLS_PACKET_GET, /* from here on those that are only asked */
	GNUTLS_RECORD_GET_MAX_SIZE,
	GNUTLS_PROTOCOL_GET_VERSION,
	GNUTLS_ALPN_GET_SELECTED_PROTOCOL,
	GNUTLS_CIPHER_GET,
	GNUTLS_CIPHERSUITE_GET,
	GNUTLS_ALERT_GET,
	GNUTLS_ERROR_TO_ALERT,
	GNUTLS_SESSION_GET_VERIFY_CERT_STATUS,
};

#define GNUTLS_E_AGAIN (-28)
#define GNUTLS_E_INTERRUPTED (-52)
#define GNUTLS_E_WARNING_ALERT_RECEIVED (-16)
#define GNUTLS_E_FATAL_ALERT_RECEIVED (-12)
#define GNUTLS_AL_FATAL 2
#define FILE_PIECE_BYTES 4096 /* of a file that is sent, in one record */
#define GNUTLS_CIPHER_NULL 1
#define GNUTLS_SERVER 1 /* a flag of gnutls_init */

struct gnutls_datum {
	const u8 *data;
	u32 size;
};

static void describe_gnutls(struct event_opened *event, void *session, const struct library *library)
{
	struct gnutls_datum alpn = {0};
	if (HAS(library, GNUTLS_PROTOCOL_GET_VERSION))
		event->tls_version = (u32)REAL(library, GNUTLS_PROTOCOL_GET_VERSION, int, void *)(session);
	if (HAS(library, GNUTLS_ALPN_GET_SELECTED_PROTOCOL) &&
	    !REAL(library, GNUTLS_ALPN_GET_SELECTED_PROTOCOL, int, void *, struct gnutls_datum *)(session, &alpn)) {
		event->alpn_bytes = (u8)(alpn.size < ALPN_BYTES ? alpn.size : ALPN_BYTES);
		memcpy(event->alpn, alpn.data, event->alpn_bytes);
	}
	/* Since 3.7.4; it crashes before there is a cipher (lib/algorithms/ciphersuites.c). */
	if (HAS(library, GNUTLS_CIPHERSUITE_GET) && HAS(library, GNUTLS_CIPHER_GET) &&
	    REAL(library, GNUTLS_CIPHER_GET, int, void *)(session) > GNUTLS_CIPHER_NULL)
		copy_text(event->cipher, REAL(library, GNUTLS_CIPHERSUITE_GET, const char *, void *)(session),
			  CIPHER_BYTES);
}

/* What the library found of the peer's certificate, by itself or when the program asked: gnutls_certificate_status_t; 0: nothing. */
static s32 verified_flags(const struct connection *connection)
{
	const struct library *library = GET(connection->library);
	struct handshake *handshake = handshake_of(connection);
	u32 own = 0;
	if (library && HAS(library, GNUTLS_SESSION_GET_VERIFY_CERT_STATUS))
		own = REAL(library, GNUTLS_SESSION_GET_VERIFY_CERT_STATUS, u32, void *)((void *)connection->object);
	return own && own != ~0U ? (s32)own : handshake ? (s32)GET(handshake->verified) : 0;
}

/* The alert that was received last; it is an error only if the library says so. */
static s32 received_alert(const struct library *library, void *session)
{
	return library && HAS(library, GNUTLS_ALERT_GET) ? REAL(library, GNUTLS_ALERT_GET, int, void *)(session) : 0;
}

/* After a call that failed, or would block, before any data was read: report why the library gives up, if it says so. */
static __attribute__((noinline)) void check_session(struct connection *connection, void *session, ssize_t result)
{
	if (GET(connection->phase) == PHASE_ANSWERED || GET(connection->failures) || result == GNUTLS_E_AGAIN ||
	    result == GNUTLS_E_INTERRUPTED || result == GNUTLS_E_WARNING_ALERT_RECEIVED)
		return;
	const struct library *library = GET(connection->library);
	s32 alert = result == GNUTLS_E_FATAL_ALERT_RECEIVED ? received_alert(library, session) : 0;
	s32 verified = verified_flags(connection);
	if (alert || verified)
		report_failure(connection, -1, alert, verified);
}

/* How many bytes of a send count now, after it: see above. */
static __attribute__((noinline)) u64 sent_bytes(const struct wrapped *call, ssize_t result, u64 size)
{
	struct connection *connection = counts(call) ? connection_of(call) : 0;
	if (!connection)
		return 0;
	u64 pending = connection->pending;
	if (result == GNUTLS_E_AGAIN || result == GNUTLS_E_INTERRUPTED) {
		u64 most = REAL(call->library, GNUTLS_RECORD_GET_MAX_SIZE, size_t, void *)((void *)call->object);
		connection->pending = pending ? pending : size < most ? size : most;
		return pending ? 0 : connection->pending;
	}
	connection->pending = 0;
	return result > 0 && !pending ? (u64)result : 0;
}

#define RECEIVED (result > 0 ? (u64)result : 0)
#define KEPT (result >= 0 ? wanted : 0) /* until the handshake sends it: all, and 0 is success */
#define SENT sent_bytes(&call, (ssize_t)result, wanted)

#define GNUTLS_CALL(name, function, direction, buffer, moved, type, parameters, arguments)                 \
	WRAP(type, name, parameters, arguments)                                                            \
	{                                                                                                  \
		struct wrapped call = begin_call(library, session, __builtin_frame_address(0));            \
		type result = ((type(*) parameters)library->functions[function])arguments;                 \
		struct connection *connection = end_call(&call, direction, buffer, moved, CUT_CALL_LIMIT); \
		if (connection && result < 0)                                                              \
			check_session(connection, session, result);                                        \
		return result;                                                                             \
	}

GNUTLS_CALL(gnutls_record_recv, GNUTLS_RECORD_RECV, DIRECTION_READ, buffer, RECEIVED, ssize_t,
	    (void *session, void *buffer, size_t wanted), (session, buffer, wanted))
GNUTLS_CALL(gnutls_record_recv_seq, GNUTLS_RECORD_RECV_SEQ, DIRECTION_READ, buffer, RECEIVED, ssize_t,
	    (void *session, void *buffer, size_t wanted, u8 *sequence), (session, buffer, wanted, sequence))
GNUTLS_CALL(gnutls_record_recv_early_data, GNUTLS_RECORD_RECV_EARLY_DATA, DIRECTION_READ, buffer, RECEIVED, ssize_t,
	    (void *session, void *buffer, size_t wanted), (session, buffer, wanted))
GNUTLS_CALL(gnutls_record_send, GNUTLS_RECORD_SEND, DIRECTION_WRITE, buffer, SENT, ssize_t,
	    (void *session, const void *buffer, size_t wanted), (session, buffer, wanted))
GNUTLS_CALL(gnutls_record_send2, GNUTLS_RECORD_SEND2, DIRECTION_WRITE, buffer, SENT, ssize_t,
	    (void *session, const void *buffer, size_t wanted, size_t padding, u32 flags),
	    (session, buffer, wanted, padding, flags))
GNUTLS_CALL(gnutls_record_send_range, GNUTLS_RECORD_SEND_RANGE, DIRECTION_WRITE, buffer, SENT, ssize_t,
	    (void *session, const void *buffer, size_t wanted, const void *range), (session, buffer, wanted, range))
GNUTLS_CALL(gnutls_record_send_early_data, GNUTLS_RECORD_SEND_EARLY_DATA, DIRECTION_WRITE, buffer, KEPT, ssize_t,
	    (void *session, const void *buffer, size_t wanted), (session, buffer, wanted))
GNUTLS_CALL(gnutls_record_uncork, GNUTLS_RECORD_UNCORK, DIRECTION_WRITE, 0, 0, int, (void *session, u32 flags),
	    (session, flags))
GNUTLS_CALL(gnutls_bye, GNUTLS_BYE, DIRECTION_READ, 0, 0, int, (void *session, int how), (session, how))

WRAP(int, gnutls_handshake, (void *session), (session))
{
	struct wrapped call = begin_call(library, session, __builtin_frame_address(0));
	int result = REAL(library, GNUTLS_HANDSHAKE, int, void *)(session);
	struct connection *connection = end_call(&call, DIRECTION_READ, 0, 0, CUT_NONE);
	if (connection && !result)
		complete_handshake(connection);
	else if (connection)
		check_session(connection, session, result);
	return result;
}

/* The program sends an alert: report a fatal one. */
static __attribute__((noinline)) void end_alert(const struct wrapped *call, int level, int alert)
{
	struct connection *connection = end_call(call, DIRECTION_WRITE, 0, 0, CUT_NONE);
	if (connection && GET(connection->phase) != PHASE_ANSWERED && level == GNUTLS_AL_FATAL)
		report_failure(connection, alert, 0, verified_flags(connection));
}

WRAP(int, gnutls_alert_send, (void *session, int level, int alert), (session, level, alert))
{
	struct wrapped call = begin_call(library, session, __builtin_frame_address(0));
	int result = REAL(library, GNUTLS_ALERT_SEND, int, void *, int, int)(session, level, alert);
	end_alert(&call, level, alert);
	return result;
}

WRAP(int, gnutls_alert_send_appropriate, (void *session, int error), (session, error))
{
	struct wrapped call = begin_call(library, session, __builtin_frame_address(0));
	int result = REAL(library, GNUTLS_ALERT_SEND_APPROPRIATE, int, void *, int)(session, error);
	int level = 0, alert = -1;
	if (HAS(library, GNUTLS_ERROR_TO_ALERT))
		alert = REAL(library, GNUTLS_ERROR_TO_ALERT, int, int, int *)(error, &level);
	end_alert(&call, level, alert);
	return result;
}

static void note_verified(const void *session, int result, const u32 *status)
{
	struct connection *connection = result || !status || !has_connections() ? 0 : find_connection((u64)session);
	struct handshake *handshake = connection ? handshake_of(connection) : 0;
	if (handshake)
		SET(handshake->verified, *status);
}

#define GNUTLS_VERIFY(name, function, parameters, arguments)                             \
	WRAP(int, name, parameters, arguments)                                           \
	{                                                                                \
		int result = ((int(*) parameters)library->functions[function])arguments; \
		note_verified(session, result, status);                                  \
		return result;                                                           \
	}

GNUTLS_VERIFY(gnutls_certificate_verify_peers, GNUTLS_CERTIFICATE_VERIFY_PEERS,
	      (void *session, void *data, u32 count, u32 *status), (session, data, count, status))
GNUTLS_VERIFY(gnutls_certificate_verify_peers2, GNUTLS_CERTIFICATE_VERIFY_PEERS2, (void *session, u32 *status),
	      (session, status))
GNUTLS_VERIFY(gnutls_certificate_verify_peers3, GNUTLS_CERTIFICATE_VERIFY_PEERS3,
	      (void *session, const char *name, u32 *status), (session, name, status))

WRAP(ssize_t, gnutls_record_recv_packet, (void *session, void **packet), (session, packet))
{
	struct wrapped call = begin_call(library, session, __builtin_frame_address(0));
	ssize_t result = REAL(library, GNUTLS_RECORD_RECV_PACKET, ssize_t, void *, void **)(session, packet);
	struct gnutls_datum data = {0};
	if (result > 0 && HAS(library, GNUTLS_PACKET_GET))
		REAL(library, GNUTLS_PACKET_GET, void, void *, struct gnutls_datum *, u8 *)(*packet, &data, 0);
	end_call(&call, DIRECTION_READ, data.data, data.size, CUT_CALL_LIMIT);
	return result;
}

/* What is read of files; one thread at a time has it, as a stack may be small. What others send meanwhile is counted. */
static u8 file_piece[FILE_PIECE_BYTES];
static u32 has_file_piece;

/* Emit what a call sent of a file, up to its position `end`. */
static __attribute__((noinline)) void emit_file(struct connection *connection, int file, u64 end, u64 size)
{
	u32 tid = this_thread()->tid;
	int may_read = may_ask_kernel() && !__atomic_exchange_n(&has_file_piece, 1, __ATOMIC_ACQUIRE);
	while (may_read && size) {
		long wanted = (long)(size < FILE_PIECE_BYTES ? size : FILE_PIECE_BYTES);
		long got = system_call(__NR_pread64, file, (long)file_piece, wanted, (long)(end - size), 0, 0);
		if (got <= 0) /* it has become shorter */
			break;
		emit_plaintext(connection, tid, DIRECTION_WRITE, file_piece, (u64)got, (u64)got, CUT_NONE);
		size -= (u64)got;
	}
	if (may_read)
		__atomic_store_n(&has_file_piece, 0, __ATOMIC_RELEASE);
	if (size)
		emit_plaintext(connection, tid, DIRECTION_WRITE, 0, 0, size, CUT_SENDFILE);
}

/* It reads the file, and sends from inside of the library, where no wrapper is. */
WRAP(ssize_t, gnutls_record_send_file, (void *session, int file, off_t *offset, size_t wanted),
     (session, file, offset, wanted))
{
	struct wrapped call = begin_call(library, session, __builtin_frame_address(0));
	ssize_t result = REAL(library, GNUTLS_RECORD_SEND_FILE, ssize_t, void *, int, off_t *, size_t)(session, file,
												       offset, wanted);
	struct connection *connection = end_call(&call, DIRECTION_WRITE, 0, 0, CUT_NONE);
	if (!connection || result <= 0)
		return result;
	u64 end = 0; /* if it is not known, nothing is read */
	if (offset)
		end = (u64)*offset;
	else if (may_ask_kernel())
		end = (u64)system_call(__NR_lseek, file, 0, SEEK_CUR, 0, 0, 0);
	emit_file(connection, file, end, (u64)result);
	return result;
}

WRAP(int, gnutls_init, (void **session, u32 flags), (session, flags))
{
	int result = REAL(library, GNUTLS_INIT, int, void **, u32)(session, flags);
	struct connection *connection = result ? 0 : new_object(library, *session);
	if (connection)
		connection->role = flags & GNUTLS_SERVER ? ROLE_SERVER : ROLE_CLIENT;
	return result;
}

/* The session is about to be freed: report what it says of a handshake without data. */
static __attribute__((noinline)) void check_unused_session(struct connection *connection, void *session)
{
	s32 alert = received_alert(GET(connection->library), session), verified = verified_flags(connection);
	if (alert || verified)
		report_failure(connection, -1, alert, verified);
}

WRAP(void, gnutls_deinit, (void *session), (session))
{
	struct connection *connection = session && has_connections() ? find_connection((u64)session) : 0;
	if (connection && GET(connection->handshake))
		check_unused_session(connection, session);
	free_object(session);
	REAL(library, GNUTLS_DEINIT, void, void *)(session);
}

static const struct family_functions gnutls_functions = {
    .mark = "gnutls_record_get_max_size",
    .functions =
	{[GNUTLS_RECORD_RECV] = WRAPPED(gnutls_record_recv),
	 [GNUTLS_RECORD_SEND] = WRAPPED(gnutls_record_send),
	 [GNUTLS_RECORD_SEND2] = WRAPPED(gnutls_record_send2),
	 [GNUTLS_RECORD_SEND_RANGE] = WRAPPED(gnutls_record_send_range),
	 [GNUTLS_RECORD_SEND_EARLY_DATA] = {"gnutls_record_send_early_data", gnutls_record_send_early_data_wrappers},
	 [GNUTLS_RECORD_SEND_FILE] = WRAPPED(gnutls_record_send_file),
	 [GNUTLS_RECORD_RECV_SEQ] = WRAPPED(gnutls_record_recv_seq),
	 [GNUTLS_RECORD_RECV_PACKET] = WRAPPED(gnutls_record_recv_packet),
	 [GNUTLS_RECORD_RECV_EARLY_DATA] = {"gnutls_record_recv_early_data", gnutls_record_recv_early_data_wrappers},
	 [GNUTLS_RECORD_UNCORK] = WRAPPED(gnutls_record_uncork),
	 [GNUTLS_INIT] = WRAPPED(gnutls_init),
	 [GNUTLS_DEINIT] = WRAPPED(gnutls_deinit),
	 [GNUTLS_HANDSHAKE] = WRAPPED(gnutls_handshake),
	 [GNUTLS_BYE] = WRAPPED(gnutls_bye),
	 [GNUTLS_ALERT_SEND] = WRAPPED(gnutls_alert_send),
	 [GNUTLS_ALERT_SEND_APPROPRIATE] = {"gnutls_alert_send_appropriate", gnutls_alert_send_appropriate_wrappers},
	 [GNUTLS_CERTIFICATE_VERIFY_PEERS] = {"gnutls_certificate_verify_peers",
					      gnutls_certificate_verify_peers_wrappers},
	 [GNUTLS_CERTIFICATE_VERIFY_PEERS2] = {"gnutls_certificate_verify_peers2",
					       gnutls_certificate_verify_peers2_wrappers},
	 [GNUTLS_CERTIFICATE_VERIFY_PEERS3] = {"gnutls_certificate_verify_peers3",
					       gnutls_certificate_verify_peers3_wrappers},
	 [GNUTLS_PACKET_GET] = ASKED("gnutls_packet_get"),
	 [GNUTLS_RECORD_GET_MAX_SIZE] = ASKED("gnutls_record_get_max_size"),
	 [GNUTLS_PROTOCOL_GET_VERSION] = ASKED("gnutls_protocol_get_version"),
	 [GNUTLS_ALPN_GET_SELECTED_PROTOCOL] = ASKED("gnutls_alpn_get_selected_protocol"),
	 [GNUTLS_CIPHER_GET] = ASKED("gnutls_cipher_get"),
	 [GNUTLS_CIPHERSUITE_GET] = ASKED("gnutls_ciphersuite_get"),
	 [GNUTLS_ALERT_GET] = ASKED("gnutls_alert_get"),
	 [GNUTLS_ERROR_TO_ALERT] = ASKED("gnutls_error_to_alert"),
	 [GNUTLS_SESSION_GET_VERIFY_CERT_STATUS] = ASKED("gnutls_session_get_verify_cert_status")},
};
