/* Makes more connections than the preloaded library has room for, and passes a byte through the first two and the last two. The
 * library is made from shallow_plugin.c. */
#include <stdio.h>
#include <sys/socket.h>

enum { OBJECTS = 400000 };

extern void *SSL_new(void *context);
extern int SSL_set_fd(void *ssl, int fd);
extern int SSL_read(void *ssl, void *buffer, int size);
extern int SSL_write(void *ssl, const void *buffer, int size);

static int ends[2];

static int pass_byte(char byte)
{
	void *writer = SSL_new(0), *reader = SSL_new(0);
	SSL_set_fd(writer, ends[0]);
	SSL_set_fd(reader, ends[1]);
	return SSL_write(writer, &byte, 1) + SSL_read(reader, &byte, 1);
}

int main(void)
{
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 2;
	printf("%d\n", pass_byte('f'));
	for (int i = 0; i < OBJECTS; i++)
		if (!SSL_new(0))
			return 3;
	printf("%d\n", pass_byte('l'));
	return 0;
}
