/* SPDX-License-Identifier: MIT
 *
 * Wraps OpenSSL 1.1.1 to 4.0, and what has its interface as a library of its own (BoringSSL, AWS-LC). SSL_peek is not
 * wrapped: a read gets its bytes again.
 */
#pragma once

#include "bytes.h"
#include "calls.h"

enum openssl_function {
	SSL_READ,
	SSL_WRITE,
	SSL_READ_EX,
	SSL_WRITE_EX,
	SSL_WRITE_EX2,
	SSL_READ_EARLY_DATA,
	SSL_WRITE_EARLY_DATA,
	SSL_SENDFILE,
	SSL_NEW,
	SSL_FREE,
	SSL_UP_REF,
	SSL_DUP,
	SSL_CLEAR,
	SSL_SHUTDOWN,
	SSL_CONNECT,
	SSL_ACCEPT,
	SSL_DO_HANDSHAKE,
	BIO_F_SSL,
	BIO_NEW_SSL,
	BIO_NEW_SSL_CONNECT,
	BIO_NEW_BUFFER_SSL_CONNECT,
	SSL_VERSION, /* from here on those that are only asked */
	SSL_IS_SERVER,
	SSL_GET_SHUTDOWN,
	SSL_IS_INIT_FINISHED,
	SSL_GET_VERIFY_RESULT,
	SSL_GROUP_TO_NAME, /* since 3.0, which numbers errors in another way */
	SSL_GET_SERVERNAME,
	SSL_GET0_ALPN_SELECTED,
	SSL_GET_CURRENT_CIPHER,
	SSL_CIPHER_GET_NAME,
};

static int is_openssl_server(const struct library *library, const void *ssl)
{
	return HAS(library, SSL_IS_SERVER) && REAL(library, SSL_IS_SERVER, int, const void *)(ssl);
}

static void describe_openssl(struct event_opened *event, void *ssl, const struct library *library)
{
	if (HAS(library, SSL_IS_SERVER))
		event->role = REAL(library, SSL_IS_SERVER, int, const void *)(ssl) ? ROLE_SERVER : ROLE_CLIENT;
	if (HAS(library, SSL_VERSION))
		event->tls_version = (u32)REAL(library, SSL_VERSION, int, const void *)(ssl);
	const u8 *alpn = 0;
	u32 alpn_bytes = 0;
	if (HAS(library, SSL_GET0_ALPN_SELECTED))
		REAL(library, SSL_GET0_ALPN_SELECTED, void, const void *, const u8 **, u32 *)(ssl, &alpn, &alpn_bytes);
	event->alpn_bytes = (u8)(alpn_bytes < ALPN_BYTES ? alpn_bytes : ALPN_BYTES);
	if (alpn)
		memcpy(event->alpn, alpn, event->alpn_bytes);
	if (HAS(library, SSL_GET_SERVERNAME))
		copy_text(event->sni, REAL(library, SSL_GET_SERVERNAME, const char *, const void *, int)(ssl, 0),
			  SNI_BYTES);
	const void *cipher = 0;
	if (HAS(library, SSL_GET_CURRENT_CIPHER) && HAS(library, SSL_CIPHER_GET_NAME))
		cipher = REAL(library, SSL_GET_CURRENT_CIPHER, const void *, const void *)(ssl);
	if (cipher)
		copy_text(event->cipher, REAL(library, SSL_CIPHER_GET_NAME, const char *, const void *)(cipher),
			  CIPHER_BYTES);
}

/* Emit the ends of the directions that are over by the object's flags (openssl/ssl.h, SSL_get_shutdown). */
static __attribute__((noinline)) void check_ends(struct connection *connection)
{
	const struct library *library = connection->library;
	if (!GET(connection->is_announced) || !HAS(library, SSL_GET_SHUTDOWN))
		return;
	int flags = REAL(library, SSL_GET_SHUTDOWN, int, const void *)((void *)connection->object);
	u32 tid = this_thread()->tid;
	if (flags & 1) /* SSL_SENT_SHUTDOWN */
		end_direction(connection, tid, DIRECTION_WRITE);
	if (flags & 2) /* SSL_RECEIVED_SHUTDOWN */
		end_direction(connection, tid, DIRECTION_READ);
}

/* The numbers of libssl in an error (openssl/err.h), and of the first reason that is a received alert (openssl/sslerr.h). */
#define ERR_LIB_SSL 20
#define ERR_LIB_SSL_OF_BORINGSSL 16
#define SSL_AD_REASON_OFFSET 1000

/* The reason of libssl's that this thread's queue of errors has last; 0: it has none. The queue stays as it is. */
static u32 last_reason(const struct library *library)
{
	u64 (*last_error)(void) = __atomic_load_n(&library->last_error, __ATOMIC_RELAXED);
	u64 error = last_error ? last_error() : 0;
	u32 shift = HAS(library, SSL_GROUP_TO_NAME) ? 23 : 24;
	u32 own = library->name == LIBRARY_BORINGSSL ? ERR_LIB_SSL_OF_BORINGSSL : ERR_LIB_SSL;
	return (error >> shift & 0xff) == own ? (u32)error & 0xfff : 0;
}

static int is_finished(const struct library *library, const void *ssl)
{
	return HAS(library, SSL_IS_INIT_FINISHED) && REAL(library, SSL_IS_INIT_FINISHED, int, const void *)(ssl);
}

static s32 verify_result(const struct library *library, const void *ssl)
{
	return HAS(library, SSL_GET_VERIFY_RESULT) ? (s32)REAL(library, SSL_GET_VERIFY_RESULT, long, const void *)(ssl)
						   : 0;
}

/* After a call that failed, or would block, before any data was read: report why the library gives up. Each step of a handshake begins
 * with an empty queue (state_machine in ssl/statem/statem.c); later what is in it may be older, unless it is an alert. */
static __attribute__((noinline)) void check_failure(struct connection *connection)
{
	const struct library *library = GET(connection->library);
	const void *ssl = (const void *)connection->object;
	if (!library || GET(connection->failures)) /* none: see announce_opened */
		return;
	u32 reason = last_reason(library);
	int is_over = is_finished(library, ssl);
	if (is_over)
		complete_handshake(connection);
	if (!reason || (is_over && reason < SSL_AD_REASON_OFFSET))
		return;
	if (library->name == LIBRARY_BORINGSSL) /* as sslsniff/libraries/boringssl/failures.py reads it */
		report_failure(connection, -1, 0, (s32)reason);
	else
		report_failure(connection, -1, (s32)reason, verify_result(library, ssl));
}

/* After a call that moved nothing. */
static __attribute__((noinline)) void check_connection(struct connection *connection)
{
	check_ends(connection);
	if (GET(connection->phase) != PHASE_ANSWERED)
		check_failure(connection);
}

/* The object is about to be freed, or used for another connection: report what it says of a handshake without data. */
static __attribute__((noinline)) void check_unused(struct connection *connection)
{
	const struct library *library = GET(connection->library);
	const void *ssl = (const void *)connection->object;
	if (!library || !GET(connection->handshake) || GET(connection->failures))
		return;
	s32 verified = library->name == LIBRARY_BORINGSSL ? 0 : verify_result(library, ssl);
	if (is_finished(library, ssl))
		complete_handshake(connection);
	if (verified > 0)
		report_failure(connection, -1, 0, verified);
}

/* Wrap a call that moves bytes. `moved`: how many it did, after it. */
#define OPENSSL_CALL(name, function, direction, buffer, cut, moved, type, parameters, arguments) \
	WRAP(type, name, parameters, arguments)                                                  \
	{                                                                                        \
		struct wrapped call = begin_call(library, ssl, __builtin_frame_address(0));      \
		type result = ((type(*) parameters)library->functions[function])arguments;       \
		u64 size = (u64)(moved);                                                         \
		struct connection *connection = end_call(&call, direction, buffer, size, cut);   \
		if (connection && result <= 0)                                                   \
			check_connection(connection);                                            \
		return result;                                                                   \
	}

#define PLAIN (result > 0 ? result : 0)
#define COUNTED (result > 0 ? *count : 0)

OPENSSL_CALL(SSL_read, SSL_READ, DIRECTION_READ, buffer, CUT_CALL_LIMIT, PLAIN, int,
	     (void *ssl, void *buffer, int wanted), (ssl, buffer, wanted))
OPENSSL_CALL(SSL_write, SSL_WRITE, DIRECTION_WRITE, buffer, CUT_CALL_LIMIT, PLAIN, int,
	     (void *ssl, const void *buffer, int wanted), (ssl, buffer, wanted))
OPENSSL_CALL(SSL_read_ex, SSL_READ_EX, DIRECTION_READ, buffer, CUT_CALL_LIMIT, COUNTED, int,
	     (void *ssl, void *buffer, size_t wanted, size_t *count), (ssl, buffer, wanted, count))
OPENSSL_CALL(SSL_write_ex, SSL_WRITE_EX, DIRECTION_WRITE, buffer, CUT_CALL_LIMIT, COUNTED, int,
	     (void *ssl, const void *buffer, size_t wanted, size_t *count), (ssl, buffer, wanted, count))
OPENSSL_CALL(SSL_write_ex2, SSL_WRITE_EX2, DIRECTION_WRITE, buffer, CUT_CALL_LIMIT, COUNTED, int,
	     (void *ssl, const void *buffer, size_t wanted, u64 flags, size_t *count),
	     (ssl, buffer, wanted, flags, count))
OPENSSL_CALL(SSL_read_early_data, SSL_READ_EARLY_DATA, DIRECTION_READ, buffer, CUT_CALL_LIMIT, COUNTED, int,
	     (void *ssl, void *buffer, size_t wanted, size_t *count), (ssl, buffer, wanted, count))
OPENSSL_CALL(SSL_write_early_data, SSL_WRITE_EARLY_DATA, DIRECTION_WRITE, buffer, CUT_CALL_LIMIT, COUNTED, int,
	     (void *ssl, const void *buffer, size_t wanted, size_t *count), (ssl, buffer, wanted, count))
OPENSSL_CALL(SSL_sendfile, SSL_SENDFILE, DIRECTION_WRITE, 0, CUT_SENDFILE, PLAIN, ssize_t,
	     (void *ssl, int file, off_t offset, size_t wanted, int flags), (ssl, file, offset, wanted, flags))

#define OPENSSL_HANDSHAKE(name, function)                                                        \
	WRAP(int, name, (void *ssl), (ssl))                                                      \
	{                                                                                        \
		struct wrapped call = begin_call(library, ssl, __builtin_frame_address(0));      \
		int result = REAL(library, function, int, void *)(ssl);                          \
		struct connection *connection = end_call(&call, DIRECTION_READ, 0, 0, CUT_NONE); \
		if (connection && result > 0)                                                    \
			complete_handshake(connection);                                          \
		else if (connection)                                                             \
			check_connection(connection);                                            \
		return result;                                                                   \
	}

OPENSSL_HANDSHAKE(SSL_connect, SSL_CONNECT)
OPENSSL_HANDSHAKE(SSL_accept, SSL_ACCEPT)
OPENSSL_HANDSHAKE(SSL_do_handshake, SSL_DO_HANDSHAKE)

WRAP(int, SSL_shutdown, (void *ssl), (ssl))
{
	struct wrapped call = begin_call(library, ssl, __builtin_frame_address(0));
	int result = REAL(library, SSL_SHUTDOWN, int, void *)(ssl);
	if (counts(&call)) {
		struct connection *connection = find_connection(call.object);
		close_call(call.open, call.stack);
		if (connection)
			check_ends(connection);
	}
	return result;
}

WRAP(void *, SSL_new, (void *context), (context))
{
	void *ssl = REAL(library, SSL_NEW, void *, void *)(context);
	new_object(library, ssl);
	return ssl;
}

/* SSL_free only counts down while others hold the object. */
WRAP(void, SSL_free, (void *ssl), (ssl))
{
	struct connection *connection = ssl ? find_connection((u64)ssl) : 0;
	if (connection && GET(connection->references) <= 1) {
		check_ends(connection);
		check_unused(connection);
	}
	free_object(ssl);
	REAL(library, SSL_FREE, void, void *)(ssl);
}

static void add_reference(const void *ssl)
{
	struct connection *connection = find_connection((u64)ssl);
	if (connection)
		__atomic_add_fetch(&connection->references, 1, __ATOMIC_RELAXED);
}

WRAP(int, SSL_up_ref, (void *ssl), (ssl))
{
	int result = REAL(library, SSL_UP_REF, int, void *)(ssl);
	if (result)
		add_reference(ssl);
	return result;
}

/* SSL_dup returns the same object once its handshake has begun. */
WRAP(void *, SSL_dup, (void *ssl), (ssl))
{
	void *copy = REAL(library, SSL_DUP, void *, void *)(ssl);
	if (copy == ssl)
		add_reference(ssl);
	else
		new_object(library, copy);
	return copy;
}

/* SSL_clear makes the object ready for another connection. */
WRAP(int, SSL_clear, (void *ssl), (ssl))
{
	struct connection *connection = find_connection((u64)ssl);
	if (connection && (connection->positions[DIRECTION_READ] | connection->positions[DIRECTION_WRITE] |
			   GET(connection->handshake))) {
		check_ends(connection);
		check_unused(connection);
		new_object(library, ssl);
	}
	return REAL(library, SSL_CLEAR, int, void *)(ssl);
}

/* What a program passes through such a BIO is not seen: BIO_read and BIO_write, of libcrypto, call the library from inside
 * of itself. */
#define BIO_CALL(name, function, parameters, arguments)                              \
	WRAP(void *, name, parameters, arguments)                                    \
	{                                                                            \
		if (is_watched())                                                    \
			COUNT(bios, 1);                                              \
		return ((void *(*)parameters)library->functions[function])arguments; \
	}

BIO_CALL(BIO_f_ssl, BIO_F_SSL, (), ())
BIO_CALL(BIO_new_ssl, BIO_NEW_SSL, (void *context, int is_client), (context, is_client))
BIO_CALL(BIO_new_ssl_connect, BIO_NEW_SSL_CONNECT, (void *context), (context))
BIO_CALL(BIO_new_buffer_ssl_connect, BIO_NEW_BUFFER_SSL_CONNECT, (void *context), (context))

static const struct family_functions openssl_functions = {
    .mark = "SSL_CTX_new",
    .functions = {[SSL_READ] = WRAPPED(SSL_read),
		  [SSL_WRITE] = WRAPPED(SSL_write),
		  [SSL_READ_EX] = WRAPPED(SSL_read_ex),
		  [SSL_WRITE_EX] = WRAPPED(SSL_write_ex),
		  [SSL_WRITE_EX2] = WRAPPED(SSL_write_ex2),
		  [SSL_READ_EARLY_DATA] = WRAPPED(SSL_read_early_data),
		  [SSL_WRITE_EARLY_DATA] = WRAPPED(SSL_write_early_data),
		  [SSL_SENDFILE] = WRAPPED(SSL_sendfile),
		  [SSL_NEW] = WRAPPED(SSL_new),
		  [SSL_FREE] = WRAPPED(SSL_free),
		  [SSL_UP_REF] = WRAPPED(SSL_up_ref),
		  [SSL_DUP] = WRAPPED(SSL_dup),
		  [SSL_CLEAR] = WRAPPED(SSL_clear),
		  [SSL_SHUTDOWN] = WRAPPED(SSL_shutdown),
		  [SSL_CONNECT] = WRAPPED(SSL_connect),
		  [SSL_ACCEPT] = WRAPPED(SSL_accept),
		  [SSL_DO_HANDSHAKE] = WRAPPED(SSL_do_handshake),
		  [BIO_F_SSL] = WRAPPED(BIO_f_ssl),
		  [BIO_NEW_SSL] = WRAPPED(BIO_new_ssl),
		  [BIO_NEW_SSL_CONNECT] = WRAPPED(BIO_new_ssl_connect),
		  [BIO_NEW_BUFFER_SSL_CONNECT] = WRAPPED(BIO_new_buffer_ssl_connect),
		  [SSL_VERSION] = ASKED("SSL_version"),
		  [SSL_IS_SERVER] = ASKED("SSL_is_server"),
		  [SSL_GET_SHUTDOWN] = ASKED("SSL_get_shutdown"),
		  [SSL_IS_INIT_FINISHED] = ASKED("SSL_is_init_finished"),
		  [SSL_GET_VERIFY_RESULT] = ASKED("SSL_get_verify_result"),
		  [SSL_GROUP_TO_NAME] = ASKED("SSL_group_to_name"),
		  [SSL_GET_SERVERNAME] = ASKED("SSL_get_servername"),
		  [SSL_GET0_ALPN_SELECTED] = ASKED("SSL_get0_alpn_selected"),
		  [SSL_GET_CURRENT_CIPHER] = ASKED("SSL_get_current_cipher"),
		  [SSL_CIPHER_GET_NAME] = ASKED("SSL_CIPHER_get_name")},
};
