/* One end of a TLS connection, as each library has it: https.c uses it, a file for each library defines it. */
#ifndef END_H
#define END_H

#include <stddef.h>
#include <string.h>

/* How a program calls the library. `way` names the functions for data; each library has its own. */
struct setup {
	const char *library; /* its path, for libraries that are opened at run time */
	const char *way;
	const char *certificate; /* the server's own, or the one that the client trusts */
	const char *key;	 /* 0: client */
};

static inline int is(const char *way, const char *name)
{
	return !strcmp(way, name);
}

/* Print what failed, and end the program. */
void fail(const char *what);

void end_setup(const struct setup *setup);

/* Shake hands over a socket that blocks. */
void *end_open(int fd);

/* Write, or read, up to `size` bytes. Returns how many; 0: it would block, call it with the same again; -1: the
 * connection is over. */
long end_write(void *end, const char *data, size_t size);
long end_read(void *end, char *data, size_t size);

void end_close(void *end);

#endif
