/* Functions whose arguments are of all types of C; tests/unit/functions/values has their values. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACED __attribute__((noinline)) void

enum color { RED, GREEN = 5, BELOW = -2 };
struct point {
	short x;
	unsigned y : 3, z : 5;
	signed s : 4;
	union {
		int whole;
		unsigned char bytes[4];
	};
};
struct node {
	int value;
	struct node *next;
	const char *name;
};
typedef int (*callback)(int);
typedef struct {
	char text[8];
	int numbers[3];
	struct point points[2];
} arrays;

TRACED c_integers(signed char a, unsigned char b, short c, unsigned short d, int e, unsigned f, long g, unsigned long h)
{
}
TRACED c_scalars(char a, _Bool b, enum color c, enum color d, size_t e, int8_t f, uint64_t g, __int128 h)
{
}
TRACED c_texts(const char *a, char *b, const char *c, unsigned char *d, const char **e, const char *f)
{
}
TRACED c_pointers(void *a, int *b, struct node *c, struct node *d, callback e, int **f, double *g, long double *h)
{
}
TRACED c_structures(struct point a, arrays b, struct point *c)
{
}

int main(void)
{
	struct node second = {2, NULL, "two"}, first = {1, &second, NULL};
	struct point point = {-2, 5, 17, -3, {0x01020304}};
	arrays all = {"text", {1, 2, -3}, {{1, 1, 1, 1, {1}}, {2, 2, 2, 2, {2}}}};
	int number = 42, *to_number = &number;
	double half = 0.5;
	long double quarter = -0.25L;
	const char *words[] = {"word", NULL};
	char large[600];
	for (size_t i = 0; i < sizeof(large); i++)
		large[i] = i < sizeof(large) - 1 ? 'x' : 0;
	c_integers(-1, 255, -2, 65535, -3, 4294967295U, -4, -1UL);
	c_scalars('c', true, GREEN, (enum color)7, 1, -8, 1, -5);
	c_texts("h\xc3\xa4lt\n", NULL, (char *)16, (unsigned char *)"\1", words, large);
	c_pointers((void *)0x1234, &number, &first, NULL, (callback)main, &to_number, &half, &quarter);
	c_structures(point, all, &point);
	return 0;
}
