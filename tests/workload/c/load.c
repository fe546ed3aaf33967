/* Bytes through OpenSSL, and their hashes as the ends know them:
 *
 *     load receive CERTIFICATE KEY          prints its port, then serves one connection after the
 *                                           other; prints a line for each, until it is ended
 *     load send PORT SEED [COUNT SIZE]...   makes COUNT calls of SSL_write with SIZE bytes each,
 *                                           or, where SIZE is 0, waits COUNT milliseconds;
 *                                           from 2 GiB on SSL_write_ex, with zeros
 *     load wait PORT SEED                   asks for /SEED and waits for an answer that never comes
 *
 * The line: process id, the object's address, the client's port, bytes, their SHA-256.
 * The bytes vary with SEED and never repeat.
 */
#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void fail(const char *what)
{
	perror(what);
	ERR_print_errors_fp(stderr);
	exit(1);
}

static void fill(unsigned char *data, size_t size, uint64_t *state)
{
	for (size_t i = 0; i < size; i += sizeof(*state)) { /* xorshift64 */
		*state ^= *state << 13;
		*state ^= *state >> 7;
		*state ^= *state << 17;
		memcpy(data + i, state, size - i < sizeof(*state) ? size - i : sizeof(*state));
	}
}

static void tell(const SSL *ssl, int port, uint64_t bytes, EVP_MD_CTX *hash)
{
	unsigned char digest[32];
	EVP_DigestFinal_ex(hash, digest, NULL);
	printf("%d %p %d %llu ", getpid(), (void *)ssl, port, (unsigned long long)bytes);
	for (size_t i = 0; i < sizeof(digest); i++)
		printf("%02x", digest[i]);
	printf("\n");
	fflush(stdout);
}

static void receive(const char *certificate, const char *key)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t size = sizeof(address);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 64) ||
	    getsockname(listener, (struct sockaddr *)&address, &size))
		fail("listen");
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);

	SSL_CTX *context = SSL_CTX_new(TLS_server_method());
	if (SSL_CTX_use_certificate_file(context, certificate, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
		fail("certificate");
	SSL_CTX_set_num_tickets(context, 0);
	unsigned char *data = malloc(1 << 16);
	for (;;) {
		int fd = accept(listener, (struct sockaddr *)&address, &size);
		SSL *ssl = SSL_new(context);
		EVP_MD_CTX *hash = EVP_MD_CTX_new();
		EVP_DigestInit_ex(hash, EVP_sha256(), NULL);
		uint64_t bytes = 0;
		int got;
		SSL_set_fd(ssl, fd);
		if (SSL_accept(ssl) != 1)
			fail("SSL_accept");
		while ((got = SSL_read(ssl, data, 1 << 16)) > 0) {
			EVP_DigestUpdate(hash, data, got);
			bytes += got;
		}
		tell(ssl, ntohs(address.sin_port), bytes, hash);
		EVP_MD_CTX_free(hash);
		SSL_free(ssl);
		close(fd);
	}
}

/* Connect; return the object and the port of this end. */
static SSL *open_connection(int port, int *own_port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	socklen_t size = sizeof(address);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (struct sockaddr *)&address, size) || getsockname(fd, (struct sockaddr *)&address, &size))
		fail("connect");
	*own_port = ntohs(address.sin_port);
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(context);
	SSL_CTX_free(context);
	SSL_set_fd(ssl, fd);
	if (SSL_connect(ssl) != 1)
		fail("SSL_connect");
	return ssl;
}

/* One call of SSL_write_ex with zeros: pages that were never written take no memory. */
static void send_zeros(SSL *ssl, size_t size, EVP_MD_CTX *hash)
{
	void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t written;
	if (data == MAP_FAILED || !SSL_write_ex(ssl, data, size, &written) || written != size)
		fail("SSL_write_ex");
	EVP_DigestUpdate(hash, data, size);
	munmap(data, size);
}

static void send_all(int port, uint64_t seed, int pairs, char **arguments)
{
	int own_port;
	SSL *ssl = open_connection(port, &own_port);
	EVP_MD_CTX *hash = EVP_MD_CTX_new();
	EVP_DigestInit_ex(hash, EVP_sha256(), NULL);
	uint64_t state = seed * 0x9e3779b97f4a7c15 + 1, bytes = 0;
	for (int pair = 0; pair < pairs; pair++) {
		long calls = atol(arguments[2 * pair]);
		size_t size = strtoull(arguments[2 * pair + 1], NULL, 10);
		if (!size) {
			usleep(calls * 1000);
			continue;
		}
		if (size > INT32_MAX) {
			send_zeros(ssl, size, hash);
			bytes += size;
			continue;
		}
		unsigned char *data = malloc(size);
		for (long i = 0; i < calls; i++) {
			fill(data, size, &state);
			if (SSL_write(ssl, data, size) != (int)size)
				fail("SSL_write");
			EVP_DigestUpdate(hash, data, size);
			bytes += size;
		}
		free(data);
	}
	tell(ssl, own_port, bytes, hash);
	SSL_shutdown(ssl);
	SSL_free(ssl);
}

static void wait_in_vain(int port, const char *seed)
{
	char request[256], answer;
	int own_port;
	SSL *ssl = open_connection(port, &own_port);
	EVP_MD_CTX *hash = EVP_MD_CTX_new();
	int size = snprintf(request, sizeof(request), "GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n", seed);
	EVP_DigestInit_ex(hash, EVP_sha256(), NULL);
	EVP_DigestUpdate(hash, request, size);
	if (SSL_write(ssl, request, size) != size)
		fail("SSL_write");
	tell(ssl, own_port, size, hash);
	SSL_read(ssl, &answer, 1);
}

int main(int count, char **arguments)
{
	signal(SIGPIPE, SIG_IGN);
	if (count == 4 && !strcmp(arguments[1], "receive"))
		receive(arguments[2], arguments[3]);
	else if (count >= 4 && !strcmp(arguments[1], "send"))
		send_all(atoi(arguments[2]), strtoull(arguments[3], NULL, 10), (count - 4) / 2, arguments + 4);
	else if (count == 4 && !strcmp(arguments[1], "wait"))
		wait_in_vain(atoi(arguments[2]), arguments[3]);
	else
		return 2;
	return 0;
}
