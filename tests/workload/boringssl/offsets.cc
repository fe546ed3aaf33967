// Prints where the objects of a release have some fields: byte offsets, and the bits of the role.

#include <cstddef>
#include <cstdio>

#include "internal.h"

int main() {
  alignas(16) static unsigned char memory[sizeof(SSL)];
  reinterpret_cast<SSL *>(memory)->server = true;
  size_t server = 0;
  while (memory[server] == 0) {
    server++;
  }
  using State = bssl::SSL3_STATE;
  std::printf("{\"server\": %zu, \"server_mask\": %d, \"sni\": %zu, \"sni_base\": %zu, ", server,
              memory[server], offsetof(SSL, hostname), offsetof(SSL, s3));
  std::printf("\"sni_inner\": %zu, \"alpn_base\": %zu, \"alpn\": %zu, \"alpn_length\": %zu}\n",
              offsetof(State, hostname), offsetof(SSL, s3), offsetof(State, alpn_selected),
              offsetof(State, alpn_selected) + sizeof(void *));
  return 0;
}
