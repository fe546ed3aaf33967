/* SPDX-License-Identifier: MIT
 *
 * Wraps OpenSSL 1.1.1 to 4.0, and what has its interface as a library of its own (BoringSSL, AWS-LC). SSL_peek is not
 * wrapped: a read gets its bytes again.
 */
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
	SSL_GET_FD,
	SSL_GET_SERVERNAME,
	SSL_GET0_ALPN_SELECTED,
	SSL_GET_CURRENT_CIPHER,
	SSL_CIPHER_GET_NAME,
};

static const struct names openssl_names = {
    .mark = "SSL_CTX_new",
    .files = {"libssl.so.3", "libssl.so.1.1", "libssl.so.4", "libssl.so"},
    .functions = {[SSL_READ] = "SSL_read",
		  [SSL_WRITE] = "SSL_write",
		  [SSL_READ_EX] = "SSL_read_ex",
		  [SSL_WRITE_EX] = "SSL_write_ex",
		  [SSL_WRITE_EX2] = "SSL_write_ex2",
		  [SSL_READ_EARLY_DATA] = "SSL_read_early_data",
		  [SSL_WRITE_EARLY_DATA] = "SSL_write_early_data",
		  [SSL_SENDFILE] = "SSL_sendfile",
		  [SSL_NEW] = "SSL_new",
		  [SSL_FREE] = "SSL_free",
		  [SSL_UP_REF] = "SSL_up_ref",
		  [SSL_DUP] = "SSL_dup",
		  [SSL_CLEAR] = "SSL_clear",
		  [SSL_SHUTDOWN] = "SSL_shutdown",
		  [SSL_CONNECT] = "SSL_connect",
		  [SSL_ACCEPT] = "SSL_accept",
		  [SSL_DO_HANDSHAKE] = "SSL_do_handshake",
		  [BIO_F_SSL] = "BIO_f_ssl",
		  [BIO_NEW_SSL] = "BIO_new_ssl",
		  [BIO_NEW_SSL_CONNECT] = "BIO_new_ssl_connect",
		  [BIO_NEW_BUFFER_SSL_CONNECT] = "BIO_new_buffer_ssl_connect",
		  [SSL_VERSION] = "SSL_version",
		  [SSL_IS_SERVER] = "SSL_is_server",
		  [SSL_GET_SHUTDOWN] = "SSL_get_shutdown",
		  [SSL_GET_FD] = "SSL_get_fd",
		  [SSL_GET_SERVERNAME] = "SSL_get_servername",
		  [SSL_GET0_ALPN_SELECTED] = "SSL_get0_alpn_selected",
		  [SSL_GET_CURRENT_CIPHER] = "SSL_get_current_cipher",
		  [SSL_CIPHER_GET_NAME] = "SSL_CIPHER_get_name"},
};

#define OPENSSL(library, function, type, ...) ((type (*)(__VA_ARGS__))(library)->functions[function])

static void describe_openssl(struct event_opened *event, void *ssl, const struct library *library)
{
	if (OPENSSL(library, SSL_IS_SERVER, int, const void *))
		event->role = OPENSSL(library, SSL_IS_SERVER, int, const void *)(ssl) ? ROLE_SERVER : ROLE_CLIENT;
	event->tls_version = (u32)OPENSSL(library, SSL_VERSION, int, const void *)(ssl);
	const u8 *alpn = 0;
	u32 alpn_bytes = 0;
	OPENSSL(library, SSL_GET0_ALPN_SELECTED, void, const void *, const u8 **, u32 *)(ssl, &alpn, &alpn_bytes);
	event->alpn_bytes = (u8)(alpn_bytes < ALPN_BYTES ? alpn_bytes : ALPN_BYTES);
	if (alpn)
		memcpy(event->alpn, alpn, event->alpn_bytes);
	const char *name = OPENSSL(library, SSL_GET_SERVERNAME, const char *, const void *, int)(ssl, 0);
	copy_text(event->sni, name, SNI_BYTES);
	const void *cipher = OPENSSL(library, SSL_GET_CURRENT_CIPHER, const void *, const void *)(ssl);
	if (cipher)
		copy_text(event->cipher, OPENSSL(library, SSL_CIPHER_GET_NAME, const char *, const void *)(cipher),
			  CIPHER_BYTES);
}

/* Emit the ends of the directions that are over by the object's flags (openssl/ssl.h, SSL_get_shutdown). */
static void check_ends(struct connection *connection)
{
	const struct library *library = connection->library;
	if (!GET(connection->is_announced) || !library->functions[SSL_GET_SHUTDOWN])
		return;
	int flags = OPENSSL(library, SSL_GET_SHUTDOWN, int, const void *)((void *)connection->object);
	u32 tid = this_thread()->tid;
	if (flags & 1) /* SSL_SENT_SHUTDOWN */
		end_direction(connection, tid, DIRECTION_WRITE);
	if (flags & 2) /* SSL_RECEIVED_SHUTDOWN */
		end_direction(connection, tid, DIRECTION_READ);
}

/* Wrap a call that moves bytes. `moved`: how many it did, after it. */
#define OPENSSL_CALL(name, function, direction, buffer, cut, moved, type, parameters, arguments)              \
	EXPORTED type name parameters                                                                         \
	{                                                                                                     \
		struct wrapped call =                                                                         \
		    begin_call(FAMILY_OPENSSL, ssl, __builtin_return_address(0), __builtin_frame_address(0)); \
		if (!call.library || !call.library->functions[function])                                      \
			return 0;                                                                             \
		type result = ((type(*) parameters)call.library->functions[function])arguments;               \
		u64 size = (u64)(moved);                                                                      \
		struct connection *connection = end_call(&call, direction, buffer, size, cut);                \
		if (connection && result <= 0)                                                                \
			check_ends(connection);                                                               \
		return result;                                                                                \
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
OPENSSL_CALL(SSL_connect, SSL_CONNECT, DIRECTION_WRITE, 0, CUT_NONE, 0, int, (void *ssl), (ssl))
OPENSSL_CALL(SSL_accept, SSL_ACCEPT, DIRECTION_READ, 0, CUT_NONE, 0, int, (void *ssl), (ssl))
OPENSSL_CALL(SSL_do_handshake, SSL_DO_HANDSHAKE, DIRECTION_READ, 0, CUT_NONE, 0, int, (void *ssl), (ssl))

EXPORTED int SSL_shutdown(void *ssl)
{
	struct wrapped call = begin_call(FAMILY_OPENSSL, ssl, __builtin_return_address(0), __builtin_frame_address(0));
	if (!call.library)
		return -1;
	int result = OPENSSL(call.library, SSL_SHUTDOWN, int, void *)(ssl);
	struct connection *connection = call.counts ? find_connection(call.object) : 0;
	if (call.counts)
		close_call(call.open, call.stack);
	if (connection)
		check_ends(connection);
	return result;
}

EXPORTED void *SSL_new(void *context)
{
	struct library *library = library_of(FAMILY_OPENSSL, __builtin_return_address(0));
	void *ssl = library ? OPENSSL(library, SSL_NEW, void *, void *)(context) : 0;
	new_object(FAMILY_OPENSSL, ssl, __builtin_return_address(0));
	return ssl;
}

/* SSL_free only counts down while others hold the object. */
EXPORTED void SSL_free(void *ssl)
{
	struct library *library = library_of(FAMILY_OPENSSL, __builtin_return_address(0));
	struct connection *connection = reader && ssl ? find_connection((u64)ssl) : 0;
	if (connection && GET(connection->references) <= 1)
		check_ends(connection);
	free_object(ssl);
	if (library)
		OPENSSL(library, SSL_FREE, void, void *)(ssl);
}

static void add_reference(const void *ssl)
{
	struct connection *connection = reader ? find_connection((u64)ssl) : 0;
	if (connection)
		__atomic_add_fetch(&connection->references, 1, __ATOMIC_RELAXED);
}

EXPORTED int SSL_up_ref(void *ssl)
{
	struct library *library = library_of(FAMILY_OPENSSL, __builtin_return_address(0));
	int result = library ? OPENSSL(library, SSL_UP_REF, int, void *)(ssl) : 0;
	if (result)
		add_reference(ssl);
	return result;
}

/* SSL_dup returns the same object once its handshake has begun. */
EXPORTED void *SSL_dup(void *ssl)
{
	struct library *library = library_of(FAMILY_OPENSSL, __builtin_return_address(0));
	void *copy = library ? OPENSSL(library, SSL_DUP, void *, void *)(ssl) : 0;
	if (copy == ssl)
		add_reference(ssl);
	else
		new_object(FAMILY_OPENSSL, copy, __builtin_return_address(0));
	return copy;
}

/* SSL_clear makes the object ready for another connection. */
EXPORTED int SSL_clear(void *ssl)
{
	struct library *library = library_of(FAMILY_OPENSSL, __builtin_return_address(0));
	struct connection *connection = reader ? find_connection((u64)ssl) : 0;
	if (connection && (connection->positions[DIRECTION_READ] | connection->positions[DIRECTION_WRITE])) {
		check_ends(connection);
		new_object(FAMILY_OPENSSL, ssl, __builtin_return_address(0));
	}
	return library ? OPENSSL(library, SSL_CLEAR, int, void *)(ssl) : 0;
}

/* What a program passes through such a BIO is not seen: BIO_read and BIO_write, of libcrypto, call the library from inside
 * of itself. */
#define BIO_CALL(name, function, parameters, arguments)                               \
	EXPORTED void *name parameters                                                \
	{                                                                             \
		u64 caller = (u64)__builtin_return_address(0);                        \
		struct library *library = library_of(FAMILY_OPENSSL, (void *)caller); \
		if (!library || !library->functions[function])                        \
			return 0;                                                     \
		if (is_watched() && !is_within(caller, library->start, library->end)) \
			add_to(&writer->bios, 1);                                     \
		return ((void *(*)parameters)library->functions[function])arguments;  \
	}

BIO_CALL(BIO_f_ssl, BIO_F_SSL, (void), ())
BIO_CALL(BIO_new_ssl, BIO_NEW_SSL, (void *context, int is_client), (context, is_client))
BIO_CALL(BIO_new_ssl_connect, BIO_NEW_SSL_CONNECT, (void *context), (context))
BIO_CALL(BIO_new_buffer_ssl_connect, BIO_NEW_BUFFER_SSL_CONNECT, (void *context), (context))
