/* Has the interface of OpenSSL, and hardly uses the stack: what a call takes of it beside that is the wrapper's. A connection passes
 * its bytes as they are. */
#include <stdlib.h>
#include <unistd.h>

struct ssl {
	int fd;
};

void *SSL_CTX_new(const void *method)
{
	return (void *)method;
}

struct ssl *SSL_new(void *context)
{
	(void)context;
	return calloc(1, sizeof(struct ssl));
}

int SSL_set_fd(struct ssl *ssl, int fd)
{
	ssl->fd = fd;
	return 1;
}

int SSL_read(struct ssl *ssl, void *buffer, int size)
{
	return (int)read(ssl->fd, buffer, (size_t)size);
}

int SSL_write(struct ssl *ssl, const void *buffer, int size)
{
	return (int)write(ssl->fd, buffer, (size_t)size);
}

int SSL_read_ex(struct ssl *ssl, void *buffer, size_t size, size_t *count)
{
	ssize_t got = read(ssl->fd, buffer, size);
	*count = (size_t)got;
	return got > 0;
}

int SSL_write_ex(struct ssl *ssl, const void *buffer, size_t size, size_t *count)
{
	ssize_t sent = write(ssl->fd, buffer, size);
	*count = (size_t)sent;
	return sent > 0;
}

int SSL_version(const struct ssl *ssl)
{
	(void)ssl;
	return 0x304;
}
