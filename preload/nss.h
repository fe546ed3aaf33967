/* SPDX-License-Identifier: MIT
 *
 * Wraps NSS. Its connections are file descriptors of NSPR with a layer for TLS, which SSL_ImportFD adds: only calls on
 * these count, and those of files and plain sockets pass. A program may put layers of its own on top, such as Firefox: the
 * descriptor stays the same (PR_PushIOLayer).
 */
enum nspr_function {
	PR_READ,
	PR_WRITE,
	PR_RECV,
	PR_SEND,
	PR_CLOSE,
};

static const struct names nspr_names = {
    .mark = "PR_GetDefaultIOMethods",
    .files = {"libnspr4.so"},
    .functions = {[PR_READ] = "PR_Read",
		  [PR_WRITE] = "PR_Write",
		  [PR_RECV] = "PR_Recv",
		  [PR_SEND] = "PR_Send",
		  [PR_CLOSE] = "PR_Close"},
};

enum nss_function {
	SSL_IMPORT_FD,
	SSL_RESET_HANDSHAKE,
	SSL_FORCE_HANDSHAKE,
	SSL_GET_CHANNEL_INFO,
};

static const struct names nss_names = {
    .mark = "SSL_GetChannelInfo",
    .files = {"libssl3.so"},
    .functions = {[SSL_IMPORT_FD] = "SSL_ImportFD",
		  [SSL_RESET_HANDSHAKE] = "SSL_ResetHandshake",
		  [SSL_FORCE_HANDSHAKE] = "SSL_ForceHandshake",
		  [SSL_GET_CHANNEL_INFO] = "SSL_GetChannelInfo"},
};

#define PR_MSG_PEEK 2

#define NSS(library, function, type, ...) ((type (*)(__VA_ARGS__))(library)->functions[function])

/* The beginning of struct SSLChannelInfoStr (lib/ssl/sslt.h). */
struct nss_channel {
	u32 bytes;
	u16 version, cipher;
};

static void describe_nss(struct event_opened *event, void *descriptor, const struct library *library)
{
	struct nss_channel channel = {0};
	if (!NSS(library, SSL_GET_CHANNEL_INFO, int, void *, void *, u32)(descriptor, &channel, sizeof(channel)))
		event->tls_version = channel.version;
}

static int is_nss(const void *descriptor)
{
	return has_connections() && find_connection((u64)descriptor);
}

#define NSPR_CALL(name, function, direction, is_peek, parameters, arguments)                                      \
	EXPORTED int name parameters                                                                              \
	{                                                                                                         \
		if (!is_nss(descriptor) || (is_peek)) {                                                           \
			struct library *library = library_of(FAMILY_NSPR, __builtin_return_address(0));           \
			return library ? ((int(*) parameters)library->functions[function])arguments : -1;         \
		}                                                                                                 \
		struct wrapped call =                                                                             \
		    begin_call(FAMILY_NSPR, descriptor, __builtin_return_address(0), __builtin_frame_address(0)); \
		if (!call.library)                                                                                \
			return -1;                                                                                \
		int result = ((int(*) parameters)call.library->functions[function])arguments;                     \
		end_call(&call, direction, buffer, result > 0 ? (u64)result : 0, CUT_CALL_LIMIT);                 \
		return result;                                                                                    \
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

EXPORTED int PR_Close(void *descriptor)
{
	struct library *library = library_of(FAMILY_NSPR, __builtin_return_address(0));
	if (is_nss(descriptor))
		free_object(descriptor);
	return library ? NSS(library, PR_CLOSE, int, void *)(descriptor) : -1;
}

EXPORTED void *SSL_ImportFD(void *model, void *descriptor)
{
	struct library *library = library_of(FAMILY_NSS, __builtin_return_address(0));
	void *layered = library ? NSS(library, SSL_IMPORT_FD, void *, void *, void *)(model, descriptor) : 0;
	struct connection *connection = new_object(FAMILY_NSS, layered, __builtin_return_address(0));
	if (connection)
		connection->role = ROLE_CLIENT;
	return layered;
}

EXPORTED int SSL_ResetHandshake(void *descriptor, int as_server)
{
	struct library *library = library_of(FAMILY_NSS, __builtin_return_address(0));
	struct connection *connection = has_connections() ? find_connection((u64)descriptor) : 0;
	if (connection)
		connection->role = as_server ? ROLE_SERVER : ROLE_CLIENT;
	return library ? NSS(library, SSL_RESET_HANDSHAKE, int, void *, int)(descriptor, as_server) : -1;
}
