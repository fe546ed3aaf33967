// Functions with arguments and results of C++. For each call it prints the line that a trace of it
// should have, in the order of the calls.
#include <cstdint>
#include <cstdio>
#include <string>

#define KEPT __attribute__((noinline, noipa))

struct Trivial {
	int64_t a, b;
};

struct Counted { // a class that is not trivial is returned in memory, however small
	int32_t number;
	explicit Counted(int32_t number) : number(number)
	{
	}
	Counted(const Counted &other) : number(other.number + 0)
	{
	}
	~Counted()
	{
	}
};

struct Defaulted { // trivial, as its destructor is the compiler's
	int32_t number;
	~Defaulted() = default;
};

struct Holder { // not trivial, as its part is not
	Counted counted;
};

struct Virtual {
	int32_t number;
	virtual int32_t get()
	{
		return number;
	}
};

struct MoveOnly {
	int32_t number;
	explicit MoveOnly(int32_t number) : number(number)
	{
	}
	MoveOnly(const MoveOnly &) = delete;
	MoveOnly(MoveOnly &&other) : number(other.number)
	{
	}
};

struct Base {
	int32_t base;
};

struct Derived : Base {
	int32_t own;
	KEPT int32_t sum(int32_t more) const
	{
		return base + own + more;
	}
	KEPT static int32_t twice(int32_t number)
	{
		return 2 * number;
	}
	KEPT Derived plus(int32_t more) const
	{
		return {{base + more}, own + more};
	}
};

struct Empty {};
struct WithEmpty {
	Empty empty;
	int32_t number;
};
enum class Kind : uint8_t { One = 1, Two = 2 };

namespace space
{
KEPT Trivial trivial(int64_t a)
{
	return {a, a + 1};
}
} // namespace space
KEPT Counted counted(int32_t number)
{
	return Counted(number + 1);
}
KEPT int32_t count_of(Counted counted)
{
	return counted.number;
}
KEPT int32_t by_reference(const int32_t &number, int32_t &&other)
{
	return number + other;
}
KEPT Kind kind(Kind kind)
{
	return kind == Kind::One ? Kind::Two : Kind::One;
}
KEPT std::string text(int32_t count)
{
	return std::string(count, 'x');
}
KEPT std::string long_text(int32_t count)
{
	return std::string(count, 'y');
}
KEPT WithEmpty with_empty(int32_t number)
{
	return {{}, number};
}
KEPT int64_t throws(int64_t number)
{
	if (number > 2)
		throw number;
	return number;
}
KEPT Defaulted defaulted(int32_t number)
{
	return {number};
}
KEPT Holder holder(int32_t number)
{
	return {Counted(number)};
}
KEPT MoveOnly move_only(int32_t number)
{
	return MoveOnly(number);
}
KEPT int32_t number_of(Virtual object)
{
	return object.number;
}
KEPT __int128 wide(int64_t number)
{
	return (__int128)number << 64;
}

int main()
{
	Trivial t = space::trivial(5);
	printf("trivial(a=5) = {a=%ld, b=%ld}\n", (long)t.a, (long)t.b);
	printf("counted(number=7) = {number=%d}\n", counted(7).number);
	printf("count_of(counted={number=9}) = %d\n", count_of(Counted(9)));
	printf("by_reference(number=1, other=2) = %d\n", by_reference(1, 2));
	printf("kind(kind=One) = %s\n", kind(Kind::One) == Kind::Two ? "Two" : "One");
	printf("text(count=3) = \"%s\"\n", text(3).c_str());
	printf("long_text(count=40) = \"%s\"\n", long_text(40).c_str());
	printf("with_empty(number=-4) = {empty={}, number=%d}\n", with_empty(-4).number);
	Derived derived{{1}, 2};
	printf("sum(this=&{base=1, own=2}, more=3) = %d\n", derived.sum(3));
	printf("twice(number=4) = %d\n", Derived::twice(4));
	Derived more = derived.plus(5);
	printf("plus(this=&{base=1, own=2}, more=5) = {base=%d, own=%d}\n", more.base, more.own);
	printf("throws(number=1) = %ld\n", (long)throws(1));
	printf("wide(number=1) = 18446744073709551616\n");
	return wide(1) == 0;
}
