/* Calls a function with numbers and texts that conditions choose from. */
#include <stdio.h>

struct request {
	int length;
	const char *path;
};

__attribute__((noinline)) int handle(int i, struct request *request)
{
	__asm__ volatile("" ::: "memory");
	return i + request->length;
}

int main(void)
{
	int sum = 0;
	for (int i = 0; i < 6; i++) {
		struct request request = {i * 2, i % 2 ? "/odd" : "/even"};
		sum += handle(i, &request);
	}
	printf("%d\n", sum);
	return 0;
}
