/* wolfSSL, opened by its path, and its functions declared here: so one program serves for all releases.
 *
 * plain  wolfSSL_write and wolfSSL_read
 * flags  wolfSSL_send and wolfSSL_recv
 * list   wolfSSL_writev, and wolfSSL_read
 * peek   wolfSSL_peek before each wolfSSL_read
 * ex     wolfSSL_write_ex and wolfSSL_read_ex (5.8)
 */
#include "end.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>

enum { PEM = 1, SUCCESS = 1, WANT_READ = 2, WANT_WRITE = 3, HOST_NAME = 0, VERIFY_NONE = 0 };

static void *library, *context;
static struct setup own;

/* Call a function of the library, of that type. */
#define CALL(result, name, types, ...) ((result(*) types)dlsym(library, #name))(__VA_ARGS__)

void end_setup(const struct setup *setup)
{
	own = *setup;
	library = dlopen(setup->library, RTLD_NOW);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	CALL(int, wolfSSL_Init, (void));
	void *method = setup->key ? CALL(void *, wolfSSLv23_server_method, (void))
				  : CALL(void *, wolfSSLv23_client_method, (void));
	context = CALL(void *, wolfSSL_CTX_new, (void *), method);
	int done = SUCCESS;
	if (setup->key) {
		done &= CALL(int, wolfSSL_CTX_use_certificate_file, (void *, const char *, int), context,
			     setup->certificate, PEM);
		done &=
		    CALL(int, wolfSSL_CTX_use_PrivateKey_file, (void *, const char *, int), context, setup->key, PEM);
	} else {
		done = CALL(int, wolfSSL_CTX_load_verify_locations, (void *, const char *, const char *), context,
			    setup->certificate, 0);
	}
	if (done != SUCCESS)
		fail("the certificate");
}

void *end_open(int fd)
{
	void *ssl = CALL(void *, wolfSSL_new, (void *), context);
	if (!own.key)
		CALL(int, wolfSSL_UseSNI, (void *, unsigned char, const void *, unsigned short), ssl, HOST_NAME,
		     "localhost", 9);
	CALL(int, wolfSSL_set_fd, (void *, int), ssl, fd);
	int done = own.key ? CALL(int, wolfSSL_accept, (void *), ssl) : CALL(int, wolfSSL_negotiate, (void *), ssl);
	if (own.key ? done != SUCCESS : done < 0) {
		fprintf(stderr, "error %d\n", CALL(int, wolfSSL_get_error, (void *, int), ssl, done));
		fail("the handshake");
	}
	return ssl;
}

static long outcome(void *ssl, long done)
{
	if (done > 0)
		return done;
	int error = CALL(int, wolfSSL_get_error, (void *, int), ssl, (int)done);
	return error == WANT_READ || error == WANT_WRITE ? 0 : -1;
}

static int write_list(void *ssl, const char *data, size_t size)
{
	size_t first = size / 3;
	struct iovec list[] = {
	    {(void *)data, first},
	    {(void *)data, 0},
	    {(void *)(data + first), size - first},
	};
	return CALL(int, wolfSSL_writev, (void *, const struct iovec *, int), ssl, list, 3);
}

long end_write(void *ssl, const char *data, size_t size)
{
	if (is(own.way, "flags"))
		return outcome(ssl, CALL(int, wolfSSL_send, (void *, const void *, int, int), ssl, data, (int)size, 0));
	if (is(own.way, "list"))
		return outcome(ssl, write_list(ssl, data, size));
	if (is(own.way, "ex")) {
		size_t done = 0;
		int result =
		    CALL(int, wolfSSL_write_ex, (void *, const void *, size_t, size_t *), ssl, data, size, &done);
		return result == SUCCESS ? (long)done : outcome(ssl, result);
	}
	return outcome(ssl, CALL(int, wolfSSL_write, (void *, const void *, int), ssl, data, (int)size));
}

long end_read(void *ssl, char *data, size_t size)
{
	if (is(own.way, "flags"))
		return outcome(ssl, CALL(int, wolfSSL_recv, (void *, void *, int, int), ssl, data, (int)size, 0));
	if (is(own.way, "ex")) {
		size_t done = 0;
		int result = CALL(int, wolfSSL_read_ex, (void *, void *, size_t, size_t *), ssl, data, size, &done);
		return result == SUCCESS ? (long)done : outcome(ssl, result);
	}
	if (is(own.way, "peek")) {
		int seen = CALL(int, wolfSSL_peek, (void *, void *, int), ssl, data, (int)size);
		if (seen <= 0)
			return outcome(ssl, seen);
	}
	return outcome(ssl, CALL(int, wolfSSL_read, (void *, void *, int), ssl, data, (int)size));
}

void end_close(void *ssl)
{
	CALL(int, wolfSSL_shutdown, (void *), ssl);
	CALL(void, wolfSSL_free, (void *), ssl);
}
