/* SPDX-License-Identifier: MIT
 *
 * Wraps NSS. Its connections are file descriptors of NSPR with a layer for TLS, which SSL_ImportFD adds: only calls on
 * these count, and those of files and plain sockets pass. A program may put layers of its own on top, such as Firefox: the
 * descriptor stays the same (PR_PushIOLayer).
 */
#pragma once

#include "calls.h"

enum nspr_function {
	PR_READ,
	PR_WRITE,
	PR_RECV,
	PR_SEND,
	PR_CLOSE,
};

enum nss_function {
	SSL_IMPORT_FD,
	SSL_RESET_HANDSHAKE,
	SSL_FORCE_HANDSHAKE,
	SSL_FORCE_HANDSHAKE_WITH_TIMEOUT,
	SSL_AUTH_CERTIFICATE_COMPLETE,
	SSL_GET_CHANNEL_INFO,
};

#define PR_MSG_PEEK 2

/* The beginning of struct SSLChannelInfoStr (lib/ssl/sslt.h). */
struct nss_channel {
	u32 bytes;
	u16 version, cipher;
};

static void describe_nss(struct event_opened *event, void *descriptor, const struct library *library)
{
	struct nss_channel channel = {0};
	if (!REAL(library, SSL_GET_CHANNEL_INFO, int, void *, void *, u32)(descriptor, &channel, sizeof(channel)))
		event->tls_version = channel.version;
}

static int is_nss(const void *descriptor)
{
	return has_connections() && find_connection((u64)descriptor);
}

/* Errors of TLS and of certificates (nss/sslerr.h, nss/secerr.h). */
#define SSL_ERROR_BASE (-0x3000)
#define SEC_ERROR_BASE (-0x2000)
#define MOST_ERRORS 1000

static int is_error_of(s32 error, s32 base)
{
	return error >= base && error < base + MOST_ERRORS;
}

/* After a call that failed, or would block, before any data was read: report why the library gives up, if it says so. */
static __attribute__((noinline)) void check_nss(struct connection *connection)
{
	const struct library *library = GET(connection->library);
	u64 (*last_error)(void) = library ? __atomic_load_n(&library->last_error, __ATOMIC_RELAXED) : 0;
	if (!last_error || GET(connection->phase) == PHASE_ANSWERED || GET(connection->failures))
		return;
	s32 error = (s32)last_error();
	if (is_error_of(error, SSL_ERROR_BASE) || is_error_of(error, SEC_ERROR_BASE))
		report_failure(connection, -1, 0, -error); /* as sslsniff/libraries/nss/failures.py reads it */
}

#define NSPR_CALL(name, function, direction, is_peek, parameters, arguments)                              \
	WRAP(int, name, parameters, arguments)                                                            \
	{                                                                                                 \
		if (!is_nss(descriptor) || (is_peek))                                                     \
			return ((int(*) parameters)library->functions[function])arguments;                \
		struct wrapped call = begin_call(library, descriptor, __builtin_frame_address(0));        \
		int result = ((int(*) parameters)library->functions[function])arguments;                  \
		u64 size = result > 0 ? (u64)result : 0;                                                  \
		struct connection *connection = end_call(&call, direction, buffer, size, CUT_CALL_LIMIT); \
		if (connection && result < 0)                                                             \
			check_nss(connection);                                                            \
		return result;                                                                            \
	}

NSPR_CALL(PR_Read, PR_READ, DIRECTION_READ, 0, (void *descriptor, void *buffer, int wanted),
	  (descriptor, buffer, wanted))
NSPR_CALL(PR_Write, PR_WRITE, DIRECTION_WRITE, 0, (void *descriptor, const void *buffer, int wanted),
	  (descriptor, buffer, wanted))
NSPR_CALL(PR_Recv, PR_RECV, DIRECTION_READ, flags &PR_MSG_PEEK,
	  (void *descriptor, void *buffer, int wanted, int flags, u32 timeout),
	  (descriptor, buffer, wanted, flags, timeout))
NSPR_CALL(PR_Send, PR_SEND, DIRECTION_WRITE, 0,
	  (void *descriptor, const void *buffer, int wanted, int flags, u32 timeout),
	  (descriptor, buffer, wanted, flags, timeout))

WRAP(int, PR_Close, (void *descriptor), (descriptor))
{
	if (is_nss(descriptor))
		free_object(descriptor);
	return REAL(library, PR_CLOSE, int, void *)(descriptor);
}

WRAP(void *, SSL_ImportFD, (void *model, void *descriptor), (model, descriptor))
{
	void *layered = REAL(library, SSL_IMPORT_FD, void *, void *, void *)(model, descriptor);
	struct connection *connection = new_object(library, layered);
	if (connection)
		connection->role = ROLE_CLIENT;
	return layered;
}

WRAP(int, SSL_ResetHandshake, (void *descriptor, int as_server), (descriptor, as_server))
{
	struct connection *connection = has_connections() ? find_connection((u64)descriptor) : 0;
	if (connection)
		connection->role = as_server ? ROLE_SERVER : ROLE_CLIENT;
	return REAL(library, SSL_RESET_HANDSHAKE, int, void *, int)(descriptor, as_server);
}

#define NSS_HANDSHAKE(name, function, parameters, arguments)                                       \
	WRAP(int, name, parameters, arguments)                                                     \
	{                                                                                          \
		if (!is_nss(descriptor))                                                           \
			return ((int(*) parameters)library->functions[function])arguments;         \
		struct wrapped call = begin_call(library, descriptor, __builtin_frame_address(0)); \
		int result = ((int(*) parameters)library->functions[function])arguments;           \
		struct connection *connection = end_call(&call, DIRECTION_READ, 0, 0, CUT_NONE);   \
		if (connection && !result)                                                         \
			complete_handshake(connection);                                            \
		else if (connection)                                                               \
			check_nss(connection);                                                     \
		return result;                                                                     \
	}

NSS_HANDSHAKE(SSL_ForceHandshake, SSL_FORCE_HANDSHAKE, (void *descriptor), (descriptor))
NSS_HANDSHAKE(SSL_ForceHandshakeWithTimeout, SSL_FORCE_HANDSHAKE_WITH_TIMEOUT, (void *descriptor, u32 timeout),
	      (descriptor, timeout))

/* The program says what it found of the peer's certificate; the library sends an alert if that is an error. */
WRAP(int, SSL_AuthCertificateComplete, (void *descriptor, s32 error), (descriptor, error))
{
	if (!is_nss(descriptor))
		return REAL(library, SSL_AUTH_CERTIFICATE_COMPLETE, int, void *, s32)(descriptor, error);
	struct wrapped call = begin_call(library, descriptor, __builtin_frame_address(0));
	int result = REAL(library, SSL_AUTH_CERTIFICATE_COMPLETE, int, void *, s32)(descriptor, error);
	struct connection *connection = end_call(&call, DIRECTION_WRITE, 0, 0, CUT_NONE);
	if (connection && error < 0)
		report_failure(connection, -1, 0, -error);
	return result;
}

static const struct family_functions nspr_functions = {
    .mark = "PR_GetDefaultIOMethods",
    .functions = {[PR_READ] = WRAPPED(PR_Read),
		  [PR_WRITE] = WRAPPED(PR_Write),
		  [PR_RECV] = WRAPPED(PR_Recv),
		  [PR_SEND] = WRAPPED(PR_Send),
		  [PR_CLOSE] = WRAPPED(PR_Close)},
};

static const struct family_functions nss_functions = {
    .mark = "SSL_GetChannelInfo",
    .functions = {[SSL_IMPORT_FD] = WRAPPED(SSL_ImportFD),
		  [SSL_RESET_HANDSHAKE] = WRAPPED(SSL_ResetHandshake),
		  [SSL_FORCE_HANDSHAKE] = WRAPPED(SSL_ForceHandshake),
		  [SSL_FORCE_HANDSHAKE_WITH_TIMEOUT] = {"SSL_ForceHandshakeWithTimeout",
							SSL_ForceHandshakeWithTimeout_wrappers},
		  [SSL_AUTH_CERTIFICATE_COMPLETE] = WRAPPED(SSL_AuthCertificateComplete),
		  [SSL_GET_CHANNEL_INFO] = ASKED("SSL_GetChannelInfo")},
};
