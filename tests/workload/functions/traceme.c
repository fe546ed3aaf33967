/* Functions that call each other, for indent, results and a line: build it with and without optimisation. */
#include <stdio.h>
#include <stdlib.h>

#define SEPARATE __attribute__((noinline, noclone))

SEPARATE int larger(int a, int b)
{
	return a > b ? a : b;
}

SEPARATE int smaller(int a, int b)
{
	return a < b ? a : b;
}

SEPARATE int traceme2(int a, int b)
{
	int low = smaller(a, b);
	int high = larger(a, b);
	return high - low;
}

SEPARATE int traceme(int a, int b)
{
	int ret = larger(a, b) * 10;
	ret += traceme2(a, b);
	return ret; /* a line with the local `ret` */
}

int main(int count, char **arguments)
{
	int rounds = count > 1 ? atoi(arguments[1]) : 1;
	for (int i = 0; i < rounds; i++)
		printf("%d\n", traceme(i + 3, 5));
	return 0;
}
