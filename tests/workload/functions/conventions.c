/* Functions with all kinds of arguments and results. For each call it prints the line that a trace
   of it should have, in the order of the calls. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define KEPT __attribute__((noinline, noipa))

struct pair {
	int64_t first, second;
};
struct small {
	int32_t x;
	int16_t y;
	int8_t z;
};
struct three {
	int32_t a, b, c;
};
struct mixed {
	int64_t whole;
	double part;
};
struct floats {
	float x, y;
};
struct large {
	int64_t items[4];
};
struct packed {
	int8_t tag;
	int64_t value;
} __attribute__((packed));
struct bits {
	unsigned low : 3, middle : 7, high : 22;
};
union number {
	int64_t whole;
	double part;
};
struct byte {
	uint8_t only;
};
struct tail {
	int64_t whole;
	uint8_t rest;
};
enum color { RED = 1, GREEN = 2 };

static volatile int64_t one = 1;

KEPT int8_t small_sum(int8_t a, uint8_t b)
{
	return a + b;
}
KEPT int16_t short_sum(int16_t a, uint16_t b)
{
	return a + b;
}
KEPT int32_t sum(int32_t a, uint32_t b)
{
	return a + b;
}
KEPT int64_t long_sum(int64_t a, uint64_t b)
{
	return a + b;
}
KEPT bool is_more(int a, int b)
{
	return a > b;
}
KEPT char letter(char first, int distance)
{
	return first + distance;
}
KEPT enum color other(enum color color)
{
	return color == RED ? GREEN : RED;
}
KEPT const char *text_after(const char *text, int count)
{
	return text + count;
}
KEPT int64_t eight(int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f, int64_t g, int64_t h)
{
	return a + b + c + d + e + f + g + h;
}
KEPT struct pair swap(struct pair pair)
{
	return (struct pair){pair.second, pair.first};
}
KEPT struct small small_of(int32_t x)
{
	return (struct small){x, x + 1, x + 2};
}
KEPT struct three three_of(int32_t a)
{
	return (struct three){a, a + 1, a + 2};
}
KEPT struct large large_of(int64_t first)
{
	return (struct large){{first, first + 1, first + 2, first + 3}};
}
KEPT int64_t total(struct large large, int64_t more)
{
	return large.items[0] + large.items[1] + large.items[2] + large.items[3] + more;
}
KEPT struct packed packed_of(int64_t value)
{
	return (struct packed){7, value};
}
KEPT struct bits bits_of(unsigned low)
{
	return (struct bits){low, low + 90, low + 1000};
}
KEPT struct byte byte_of(uint8_t only)
{
	return (struct byte){only};
}
KEPT struct tail tail_of(int64_t whole)
{
	return (struct tail){whole, 200};
}
KEPT int64_t address_taken(int64_t value)
{
	int64_t *at = &value;
	__asm__ volatile("" : "+r"(at) : : "memory");
	return *at + 1;
}
KEPT int64_t many_times(int64_t count)
{
	int64_t total = 0;
	while (count--)
		total += one;
	return total;
}
KEPT int64_t choice(int64_t value)
{
	switch (value) {
	case 0:
		return 10;
	case 1:
		return one + 20;
	case 2:
		return one * 30;
	case 3:
		return 44;
	case 4:
		return one - 50;
	case 5:
		return 61;
	default:
		return -1;
	}
}
KEPT double half(double value)
{
	return value / 2;
}
KEPT int64_t whole_of(double value)
{
	return value;
}
KEPT struct mixed mixed_of(int64_t whole)
{
	return (struct mixed){whole, 0.5};
}
KEPT struct floats floats_of(float x)
{
	return (struct floats){x, x + 1};
}
KEPT union number number_of(int64_t whole)
{
	return (union number){whole};
}
KEPT void nothing(int32_t a)
{
	one += a - a;
}

int main(void)
{
	int64_t i = one;
	printf("small_sum(a=-5, b=200) = %d\n", small_sum(-5, 200));
	printf("short_sum(a=-300, b=60000) = %d\n", short_sum(-300, 60000));
	printf("sum(a=-3, b=7) = %d\n", sum(-3, 7));
	printf("long_sum(a=-5000000000, b=1) = %ld\n", (long)long_sum(-5000000000, 1));
	printf("is_more(a=2, b=1) = %s\n", is_more(2, 1) ? "true" : "false");
	printf("letter(first='a', distance=2) = '%c'\n", letter('a', 2));
	printf("other(color=RED) = %s\n", other(RED) == GREEN ? "GREEN" : "RED");
	printf("text_after(text=\"abcdef\", count=2) = \"%s\"\n", text_after("abcdef", 2));
	printf("eight(a=1, b=2, c=3, d=4, e=5, f=6, g=7, h=8) = %ld\n", (long)eight(i, 2, 3, 4, 5, 6, 7, 8));
	struct pair pair = swap((struct pair){i, 2});
	printf("swap(pair={first=1, second=2}) = {first=%ld, second=%ld}\n", (long)pair.first, (long)pair.second);
	struct small small = small_of(-9);
	printf("small_of(x=-9) = {x=%d, y=%d, z=%d}\n", small.x, small.y, small.z);
	struct three three = three_of(5);
	printf("three_of(a=5) = {a=%d, b=%d, c=%d}\n", three.a, three.b, three.c);
	struct large large = large_of(i);
	printf("large_of(first=1) = {items=[%ld, 2, 3, 4]}\n", (long)large.items[0]);
	printf("total(large={items=[1, 2, 3, 4]}, more=5) = %ld\n", (long)total(large, 5));
	struct packed packed = packed_of(-2);
	printf("packed_of(value=-2) = {tag=%d, value=%ld}\n", packed.tag, (long)packed.value);
	struct bits bits = bits_of(5);
	printf("bits_of(low=5) = {low=%u, middle=%u, high=%u}\n", bits.low, bits.middle, bits.high);
	printf("byte_of(only=201) = {only=%u}\n", byte_of(201).only);
	struct tail tail = tail_of(-1);
	printf("tail_of(whole=-1) = {whole=%ld, rest=%u}\n", (long)tail.whole, tail.rest);
	printf("address_taken(value=41) = %ld\n", (long)address_taken(41));
	printf("many_times(count=3) = %ld\n", (long)many_times(3));
	for (int64_t value = 0; value < 7; value++)
		printf("choice(value=%ld) = %ld\n", (long)value, (long)choice(value));
	printf("half(value=%.1f) = %.2f\n", 2.5, half(2.5));
	printf("whole_of(value=%.1f) = %ld\n", 7.5, (long)whole_of(7.5));
	struct mixed mixed = mixed_of(3);
	printf("mixed_of(whole=3) = {whole=%ld, part=%.1f}\n", (long)mixed.whole, mixed.part);
	struct floats floats = floats_of(1.5);
	printf("floats_of(x=1.5) = {x=%.1f, y=%.1f}\n", floats.x, floats.y);
	union number number = number_of(1);
	printf("number_of(whole=1) = {whole=%ld, part=5e-324}\n", (long)number.whole);
	nothing(4);
	puts("nothing(a=4)");
}
