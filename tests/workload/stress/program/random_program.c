/* A program that does random things, the same ones for the same seed, and prints a line about each.
 *
 *   random_program SEED CERTIFICATE KEY PLUGIN LIBRARY
 *
 * PLUGIN is made from plugin.c, LIBRARY is a libssl whose copies are opened. What it prints and its exit code depend on its
 * arguments only, so a run that is watched can be compared with one that is not.
 */
#include <err.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "steps.h"

enum { MOST_STEPS = 5 };

char **arguments;
SSL_CTX *server_context, *client_context;
static uint64_t state;

uint32_t below(uint32_t most)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 11) % most;
}

static void (*const STEPS[])(void) = {
    in_memory,	   over_sockets, many_threads, forked,	 forked_beside_threads, spawned, handlers, plugin,
    beside_dlopen, copies,	 limits,       filtered, small_stacks,		symbols, failures, daemonised,
};

static void *exits(void *argument)
{
	exit((int)(intptr_t)argument);
}

int main(int count, char **given)
{
	if (count != 6)
		errx(2, "usage: random_program SEED CERTIFICATE KEY PLUGIN LIBRARY");
	arguments = given;
	state = strtoull(given[1], NULL, 10) * 0x9e3779b97f4a7c15u + 1;
	for (int each = 0; each < 8; each++)
		below(2);
	server_context = SSL_CTX_new(TLS_server_method());
	client_context = SSL_CTX_new(TLS_client_method());
	if (SSL_CTX_use_certificate_file(server_context, given[2], SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_use_PrivateKey_file(server_context, given[3], SSL_FILETYPE_PEM) != 1)
		errx(1, "no certificate");
	int steps = 1 + below(MOST_STEPS);
	for (int each = 0; each < steps; each++)
		STEPS[below(sizeof(STEPS) / sizeof(*STEPS))]();
	fflush(stdout);
	int code = below(100), way = below(3);
	pthread_t thread;
	if (way == 0)
		_exit(code);
	if (way == 1) {
		pthread_create(&thread, NULL, exits, (void *)(intptr_t)code);
		pause();
	}
	return code;
}
