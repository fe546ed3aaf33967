/* A TLS connection in memory whose application protocol was allocated where its page ends; the next page cannot be read:
 *
 *     guarded_alpn CERTIFICATE KEY
 *
 * Its client writes "asked" to its server after a line of input.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tls_pair.h"

#define PAGE 4096
#define MOST_GUARDED 4096
#define PROTOCOL "http/1.1"

static char *guarded[MOST_GUARDED];
static int count;

/* Allocate what is as long as the protocol at the end of a page. */
static void *take(size_t size, const char *file, int line)
{
	(void)file, (void)line;
	if (size != strlen(PROTOCOL) || count == MOST_GUARDED)
		return malloc(size);
	char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED || mprotect(pages + PAGE, PAGE, PROT_NONE))
		exit(3);
	guarded[count] = pages + PAGE - size;
	return guarded[count++];
}

static int is_guarded(const char *memory)
{
	for (int i = 0; i < count; i++)
		if (guarded[i] == memory)
			return 1;
	return 0;
}

static void give(void *memory, const char *file, int line)
{
	(void)file, (void)line;
	if (!is_guarded(memory))
		free(memory);
}

static void *resize(void *memory, size_t size, const char *file, int line)
{
	(void)file, (void)line;
	if (!is_guarded(memory))
		return realloc(memory, size);
	void *larger = malloc(size);
	return memcpy(larger, memory, size < strlen(PROTOCOL) ? size : strlen(PROTOCOL));
}

static int choose(SSL *ssl, const unsigned char **chosen, unsigned char *size, const unsigned char *offered,
		  unsigned int bytes, void *argument)
{
	(void)ssl, (void)bytes, (void)argument;
	*chosen = offered + 1;
	*size = *offered;
	return SSL_TLSEXT_ERR_OK;
}

int main(int arguments, char **argument)
{
	static const unsigned char offered[] = "\x08" PROTOCOL;
	char line[100];
	SSL *both[2];
	if (arguments != 3 || !CRYPTO_set_mem_functions(take, resize, give))
		return 2;
	if (!make_pair(both, argument[1], argument[2]))
		return 4;
	SSL_CTX_set_alpn_select_cb(SSL_get_SSL_CTX(both[0]), choose, NULL);
	SSL_set_alpn_protos(both[1], offered, sizeof(offered) - 1);
	connect_by_memory(both);
	shake_hands(both);
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 5;
	return !send_message(both);
}
