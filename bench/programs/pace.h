/* Keeps the beat of a load. */
#include <time.h>

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

/* Wait until so many are due that are `rate` a second since `started`; 0: all are, at once. */
static void await_turn(double started, double rate, long count)
{
	double left = rate > 0 ? started + count / rate - seconds() : 0;
	if (left > 0) {
		struct timespec wait = {(time_t)left, (long)((left - (time_t)left) * 1e9)};
		nanosleep(&wait, NULL);
	}
}
