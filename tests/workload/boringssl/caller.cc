// Calls what any client and any server of BoringSSL calls. It is linked, not run.

#include <openssl/ssl.h>

#define KEPT extern "C" __attribute__((used, noinline, visibility("default")))

#ifdef BY_POINTERS
// Only data has the addresses of these functions.
#define CALLED(name) static decltype(&::name) volatile name##_pointer = &::name;
#define CALL(name) name##_pointer
#else
#define CALLED(name)
#define CALL(name) name
#endif

CALLED(SSL_accept)
CALLED(SSL_connect)
CALLED(SSL_do_handshake)
CALLED(SSL_free)
CALLED(SSL_get0_alpn_selected)
CALLED(SSL_get_servername)
CALLED(SSL_new)
CALLED(SSL_read)
CALLED(SSL_set_tlsext_host_name)
CALLED(SSL_shutdown)
CALLED(SSL_write)

KEPT int talk_as_client(SSL_CTX *context, int fd, char *buffer, int size) {
  SSL *ssl = CALL(SSL_new)(context);
  if (ssl == nullptr) {
    return -1;
  }
  SSL_set_fd(ssl, fd);
  CALL(SSL_set_tlsext_host_name)(ssl, buffer);
  if (CALL(SSL_connect)(ssl) == 1) {
    const uint8_t *protocol;
    unsigned protocol_size;
    CALL(SSL_get0_alpn_selected)(ssl, &protocol, &protocol_size);
    if (protocol_size == 2 && CALL(SSL_write)(ssl, buffer, size) == size) {
      while (CALL(SSL_read)(ssl, buffer, size) > 0) {
      }
    }
    CALL(SSL_shutdown)(ssl);
  }
  int error = SSL_get_error(ssl, -1);
  CALL(SSL_free)(ssl);
  return error;
}

KEPT int talk_as_server(SSL_CTX *context, int fd, char *buffer, int size) {
  SSL *ssl = CALL(SSL_new)(context);
  if (ssl == nullptr) {
    return -1;
  }
  SSL_set_fd(ssl, fd);
  SSL_set_accept_state(ssl);
  int count = CALL(SSL_do_handshake)(ssl);
  if (count == 1 && CALL(SSL_get_servername)(ssl, TLSEXT_NAMETYPE_host_name) != nullptr) {
    count = CALL(SSL_read)(ssl, buffer, size);
    if (count > 0) {
      count = CALL(SSL_write)(ssl, buffer, count);
    }
    CALL(SSL_shutdown)(ssl);
  }
  CALL(SSL_free)(ssl);
  return count;
}

// AWS-LC has them since its version 1.5.
#if defined(OPENSSL_IS_AWSLC) && AWSLC_API_VERSION >= 22
CALLED(SSL_peek_ex)
CALLED(SSL_read_ex)
CALLED(SSL_write_ex)

KEPT size_t talk_by_counts(SSL *ssl, char *buffer, size_t size) {
  size_t count = 0;
  if (CALL(SSL_peek_ex)(ssl, buffer, size, &count) == 1 &&
      CALL(SSL_read_ex)(ssl, buffer, size, &count) == 1) {
    CALL(SSL_write_ex)(ssl, buffer, count, &count);
  }
  return count;
}
#endif

KEPT void _start() {
  SSL_CTX *context = SSL_CTX_new(TLS_method());
  char buffer[64] = "";
  talk_as_client(context, 3, buffer, sizeof(buffer));
  talk_as_server(context, 4, buffer, sizeof(buffer));
  SSL_CTX_free(context);
}
