/* Calls a function with two numbers and a text: each line of input is a count, a number without meaning, and how many
 * calls a second, 0: as fast as they go. It prints the seconds of CPU, so that nobody else's work counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pace.h"

#define AT_ONCE 100

static volatile long total;

static double cpu_seconds(void)
{
	struct timespec used;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return used.tv_sec + used.tv_nsec / 1e9;
}

__attribute__((noinline)) int add(int amount)
{
	total += amount;
	return amount;
}

__attribute__((noinline)) int handle_request(int number, int size, const char *path)
{
	return add(number) + size + path[0];
}

int main(void)
{
	long count, unused;
	double rate;
	char *path = strdup("/index.html");
	printf("ready\n");
	fflush(stdout);
	while (scanf("%ld %ld %lf", &count, &unused, &rate) == 3) {
		double started = seconds(), began = cpu_seconds();
		for (long made = 0; made < count; made++) {
			if (made % AT_ONCE == 0)
				await_turn(started, rate, made);
			handle_request(made, 1024, path);
		}
		printf("%.6f 0\n", cpu_seconds() - began);
		fflush(stdout);
	}
	return 0;
}
