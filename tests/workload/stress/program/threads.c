/* Many threads, and small ones. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>

#include "steps.h"

enum { MOST_THREADS = 100, SMALL_STACK = 65536 };

/* Many threads make their first call at once. */
static pthread_barrier_t start;

static void *one_of_many(void *argument)
{
	(void)argument;
	pthread_barrier_wait(&start);
	return (void *)(intptr_t)tls(3, 100);
}

void many_threads(void)
{
	int count = 2 + below(MOST_THREADS - 2), whole = 0;
	pthread_t threads[MOST_THREADS];
	pthread_barrier_init(&start, NULL, count);
	for (int each = 0; each < count; each++)
		pthread_create(&threads[each], NULL, one_of_many, NULL);
	for (int each = 0; each < count; each++) {
		void *result;
		pthread_join(threads[each], &result);
		whole += (int)(intptr_t)result;
	}
	printf("threads: %d of %d\n", whole, count * 3);
}

static void *small(void *argument)
{
	(void)argument;
	return (void *)(intptr_t)tls(5, 64);
}

void small_stacks(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	void *result;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, SMALL_STACK);
	pthread_create(&thread, &attributes, small, NULL);
	pthread_join(thread, &result);
	printf("small stack: %d\n", (int)(intptr_t)result);
}
