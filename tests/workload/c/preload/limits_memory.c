/* Limits its memory as the first argument says, then gets what the limit leaves. Its TLS works before and after. */
#define _GNU_SOURCE
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define MB (1L << 20)

static void use_tls(void)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(context);
	char byte = 0;
	SSL_set_connect_state(ssl);
	printf("%d\n", SSL_write(ssl, &byte, 1));
	SSL_free(ssl);
	SSL_CTX_free(context);
}

int main(int count, char **arguments)
{
	const char *what = count > 1 ? arguments[1] : "";
	struct rlimit limit = {64 * MB, 64 * MB};
	use_tls();
	printf("%d\n", setrlimit(strcmp(what, "data") ? RLIMIT_AS : RLIMIT_DATA, &limit));
	printf("%d\n", mmap(0, 40 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
	use_tls();
	return 0;
}
