// Throws and catches as many exceptions as its argument says, of two types; the last one twice.
#include <cstdlib>
#include <iostream>
#include <stdexcept>

static void fail(int number)
{
	if (number % 2)
		throw number;
	throw std::runtime_error("even");
}

static void fail_later(int number, bool is_last)
{
	try {
		fail(number);
	} catch (...) {
		if (is_last)
			throw;
	}
}

int main(int argc, char **argv)
{
	const int count = argc > 1 ? std::atoi(argv[1]) : 1;
	for (int number = 1; number <= count; number++) {
		try {
			fail_later(number, number == count);
		} catch (...) {
			std::cout << number << " exceptions" << std::endl;
		}
	}
}
