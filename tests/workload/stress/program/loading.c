/* Libraries that are loaded, and functions that may be there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <err.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "steps.h"

extern int SSL_SESSION_is_resumable(const SSL_SESSION *) __attribute__((weak));
extern int gnutls_init(void *, unsigned) __attribute__((weak));
extern int PR_Write(void *, const void *, int) __attribute__((weak));

/* A plugin's constructor waits for a thread that sends. */
void plugin(void)
{
	int many = 1 + below(3);
	for (int each = 0; each < many; each++) {
		void *library = dlopen(arguments[4], below(2) ? RTLD_NOW : RTLD_NOW | RTLD_GLOBAL);
		if (!library)
			errx(1, "%s", dlerror());
		int *sent = dlsym(library, "plugin_sent");
		printf("plugin: %d\n", sent ? *sent : -1);
		dlclose(library);
	}
}

static volatile int goes_on;

static void *open_and_close(void *argument)
{
	while (goes_on) {
		void *library = dlopen(argument, RTLD_NOW | RTLD_LOCAL);
		if (library)
			dlclose(library);
	}
	return NULL;
}

void beside_dlopen(void)
{
	pthread_t thread;
	goes_on = 1;
	pthread_create(&thread, NULL, open_and_close, "libm.so.6");
	int whole = tls(20, 300), fds[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		err(1, "socketpair");
	int sent = send(fds[0], "x", 1, 0) + write(fds[0], "y", 1);
	goes_on = 0;
	pthread_join(thread, NULL);
	close(fds[0]);
	close(fds[1]);
	printf("beside dlopen: %d, %d\n", whole, sent);
}

/* Each copy of a library is a library of its own. */
void copies(void)
{
	int count = 1 + below(20), made = 0;
	char folder[] = "/tmp/copies-XXXXXX", path[128];
	fflush(stdout);
	pid_t child = fork();
	if (child) {
		show_status("copies", child);
		return;
	}
	if (!mkdtemp(folder))
		err(1, "mkdtemp");
	for (int each = 0; each < count; each++) {
		snprintf(path, sizeof(path), "%s/libssl-%d.so", folder, each);
		FILE *from = fopen(arguments[5], "r"), *to = fopen(path, "w");
		char bytes[65536];
		for (size_t size; (size = fread(bytes, 1, sizeof(bytes), from)) > 0;)
			fwrite(bytes, 1, size, to);
		fclose(from);
		fclose(to);
		void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		unlink(path);
		if (!library)
			continue;
		void *(*method)(void) = dlsym(library, "TLS_client_method");
		void *(*new_context)(void *) = dlsym(library, "SSL_CTX_new");
		void *(*new_connection)(void *) = dlsym(library, "SSL_new");
		int (*write_to)(void *, const void *, int) = dlsym(library, "SSL_write");
		void *connection = new_connection(new_context(method()));
		/* It has no peer: what fails is the write, not the wrapper. */
		made += connection && write_to(connection, "x", 1) < 0;
	}
	rmdir(folder);
	_exit(made == count ? made : 99);
}

void symbols(void)
{
	printf("symbols: %d %d %d, next %d, default %d %d\n", SSL_SESSION_is_resumable != NULL, gnutls_init != NULL,
	       PR_Write != NULL, dlsym(RTLD_NEXT, "SSL_read") != NULL,
	       dlsym(RTLD_DEFAULT, "gnutls_record_send") != NULL, dlsym(RTLD_DEFAULT, "PR_Read") != NULL);
}
