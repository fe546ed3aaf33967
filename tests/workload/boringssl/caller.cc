// Calls what any client and any server of BoringSSL calls. It is linked, not run.

#include <openssl/ssl.h>

#define KEPT extern "C" __attribute__((used, noinline, visibility("default")))

KEPT int talk_as_client(SSL_CTX *context, int fd, char *buffer, int size) {
  SSL *ssl = SSL_new(context);
  if (ssl == nullptr) {
    return -1;
  }
  SSL_set_fd(ssl, fd);
  SSL_set_tlsext_host_name(ssl, buffer);
  if (SSL_connect(ssl) == 1 && SSL_write(ssl, buffer, size) == size) {
    while (SSL_read(ssl, buffer, size) > 0) {
    }
    SSL_shutdown(ssl);
  }
  int error = SSL_get_error(ssl, -1);
  SSL_free(ssl);
  return error;
}

KEPT int talk_as_server(SSL_CTX *context, int fd, char *buffer, int size) {
  SSL *ssl = SSL_new(context);
  if (ssl == nullptr) {
    return -1;
  }
  SSL_set_fd(ssl, fd);
  SSL_set_accept_state(ssl);
  int count = SSL_do_handshake(ssl);
  if (count == 1) {
    count = SSL_read(ssl, buffer, size);
    if (count > 0) {
      count = SSL_write(ssl, buffer, count);
    }
    SSL_shutdown(ssl);
  }
  SSL_free(ssl);
  return count;
}

KEPT void _start() {
  SSL_CTX *context = SSL_CTX_new(TLS_method());
  char buffer[64] = "";
  talk_as_client(context, 3, buffer, sizeof(buffer));
  talk_as_server(context, 4, buffer, sizeof(buffer));
  SSL_CTX_free(context);
}
