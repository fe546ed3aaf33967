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

#define NSPR_CALL(name, function, direction, is_peek, parameters, arguments)                       \
	WRAP(int, name, parameters, arguments)                                                     \
	{                                                                                          \
		if (!is_nss(descriptor) || (is_peek))                                              \
			return ((int(*) parameters)library->functions[function])arguments;         \
		struct wrapped call = begin_call(library, descriptor, __builtin_frame_address(0)); \
		int result = ((int(*) parameters)library->functions[function])arguments;           \
		end_call(&call, direction, buffer, result > 0 ? (u64)result : 0, CUT_CALL_LIMIT);  \
		return result;                                                                     \
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
		  [SSL_GET_CHANNEL_INFO] = ASKED("SSL_GetChannelInfo")},
};
