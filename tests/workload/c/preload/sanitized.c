/* Has options of its own for AddressSanitizer, and passes bytes on a connection. The library is made from shallow_plugin.c. */
#include <stdio.h>
#include <unistd.h>

extern void *SSL_new(void *context);
extern int SSL_set_fd(void *ssl, int fd);
extern int SSL_write(void *ssl, const void *buffer, int size);

const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

int main(void)
{
	int ends[2];
	void *ssl = SSL_new(0);
	if (pipe(ends))
		return 2;
	SSL_set_fd(ssl, ends[1]);
	printf("%d\n", SSL_write(ssl, "asked", 5));
	return 0;
}
