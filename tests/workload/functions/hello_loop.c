/* A function that is inlined into two loops: one that is unrolled, and one that is not. */
#include <stdio.h>

static volatile int one = 1;

static inline int hello(int i, unsigned long len)
{
	printf("%d %lu\n", i, len);
	return i + (int)len;
}

int main(void)
{
	int first = one;
	for (int i = first; i < first + 4; i++) {
		int ret = hello(i, 5);
		printf("%d\n", ret);
	}
	for (int i = 1; i < 5; i++) {
		int ret = hello(i, 6);
		printf("%d\n", ret);
	}
}
