// Functions of which gcc moves parts elsewhere: code that rarely runs, code that throws, and the rest
// of a function of which it inlines the beginning. The program prints each call as sslsniff shows it.
#include <cstdio>
#include <stdexcept>

static int table[64];

__attribute__((cold, noinline)) void report(int one, int two, int three)
{
	table[one & 63] += two ^ three;
}

extern "C" __attribute__((noinline)) int check(int i, int *value)
{
	if (__builtin_expect(i == 3, 0)) {
		report(i, 1, 2);
		report(i + 1, 2, 3);
		value[0] += i;
		report(*value, *value + 1, i);
		return -1;
	}
	for (int each = 0; each < i; each++)
		value[0] ^= each * i;
	return value[0] + i;
}

__attribute__((noinline)) int thrower(int i)
{
	if (i % 3 == 0)
		throw std::runtime_error("three");
	return i;
}

__attribute__((noinline)) int fill(int i, int *value)
{
	for (int each = 0; each < 64; each++)
		table[each] += value[0] * each + i;
	return table[i & 63];
}

static int partial(int i, int *value)
{
	if (i == 0)
		return 0;
	for (int each = 0; each < 64; each++) {
		table[each] += value[0] * each + i;
		if (table[each] == 777777)
			std::printf("never%d", each);
	}
	std::printf("%s", "");
	return fill(i, value) + table[(i * 7) & 63];
}

__attribute__((noinline)) int first(int i, int *value)
{
	return partial(i, value) + 1;
}

__attribute__((noinline)) int second(int i, int *value)
{
	return partial(i + 1, value) + 2;
}

int main()
{
	int value = 1, before, sum = 0;
	for (int i = 0; i < 5; i++) {
		before = value;
		int result = check(i, &value);
		std::printf("check(i=%d, value=&%d) = %d\n", i, before, result);
		try {
			result = thrower(i + 1);
			std::printf("thrower(i=%d) = %d\n", i + 1, result);
		} catch (const std::exception &error) {
			std::printf("thrower(i=%d)\n", i + 1);
		}
		sum += first(i, &value) + second(i, &value);
	}
	return sum == 0;
}
