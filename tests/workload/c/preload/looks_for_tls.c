/* Looks in each way for functions of TLS libraries, of which there is none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

extern int SSL_read(void *, void *, int) __attribute__((weak));
extern int gnutls_init(void **, unsigned) __attribute__((weak));
extern void *SSL_ImportFD(void *, void *) __attribute__((weak));
extern int PR_Close(void *) __attribute__((weak));

int main(void)
{
	static const char *const names[] = {"SSL_read", "SSL_new", "gnutls_init", "PR_Close", "BIO_f_ssl"};
	printf("%d %d %d %d\n", SSL_read != 0, gnutls_init != 0, SSL_ImportFD != 0, PR_Close != 0);
	void *program = dlopen(0, RTLD_NOW);
	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++)
		printf("%d %d %d %d %d\n", dlsym(RTLD_DEFAULT, names[i]) != 0, dlsym(RTLD_NEXT, names[i]) != 0,
		       dlsym(program, names[i]) != 0, dlvsym(RTLD_DEFAULT, names[i], "OPENSSL_3.0.0") != 0,
		       dlvsym(RTLD_NEXT, names[i], "OPENSSL_3.0.0") != 0);
	return 0;
}
