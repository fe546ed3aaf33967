// Functions whose arguments are of types of the standard library, in all states that they have.
#include <array>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#define TRACED extern "C" __attribute__((noinline)) void
#define TAKES(...)                             \
	{                                      \
		asm volatile("" ::: "memory"); \
	}

struct Point {
	int x, y;
	std::string name;
};
using Variant = std::variant<int, std::string, double>;
struct Deleter {
	int tag = 7;
	void operator()(int *pointer) const
	{
		delete pointer;
	}
};
class Named // not of the library, though its members' names begin with an underscore
{
	std::string _name = "own";
	int _count = 3;
};
struct Throws {
	Throws() = default;
	Throws(const Throws &)
	{
		throw 1;
	}
};
struct Shadowed {
	int x = 1, y = 2;
};
struct Shadows : Shadowed {
	int x = 3;
};
using Letter = char;

TRACED variants(const Variant &a, const Variant &b, const Variant &c, const std::variant<Point, char> &d,
		const std::variant<int, Throws> &e) TAKES();
TRACED bits(const std::vector<bool> &a, const std::vector<bool> &b, const std::vector<bool> &c) TAKES();
TRACED deques(const std::deque<int> &a, const std::deque<std::string> &b, const std::deque<long> &c,
	      const std::deque<Point> &d) TAKES();
TRACED maps(const std::map<int, std::string> &a, const std::multimap<int, int> &b, const std::set<std::string> &c,
	    const std::unordered_map<int, int> &d, const std::unordered_set<int> &e, const std::list<int> &f) TAKES();
TRACED pointers(const std::unique_ptr<int, Deleter> &a, const std::unique_ptr<Point> &b, const std::weak_ptr<int> &c,
		const std::vector<std::unique_ptr<int>> &d, const std::shared_ptr<Point> &e) TAKES();
TRACED tuples(const std::tuple<int, std::string, std::vector<int>> &a, const std::tuple<Deleter, int> &b,
	      const std::vector<std::optional<int>> &c, const std::optional<Point> &d, std::span<int> e,
	      const std::basic_string<Letter> &f) TAKES();
TRACED others(const Named &a, const std::u16string_view &b, const std::optional<bool> &c, const Letter &d,
	      const Shadows &e) TAKES();

int main()
{
	std::variant<int, Throws> without = 1;
	try {
		without.emplace<Throws>(Throws());
	} catch (int) {
	}
	variants(42, "a text that is longer than a short one", 2.5, 'q', without);
	std::vector<bool> many(200);
	many[1] = many[15] = true;
	bits({true, false, true}, many, {});
	std::deque<long> moved;
	for (long number = 0; number < 300; number++)
		moved.push_back(number);
	moved.erase(moved.begin(), moved.begin() + 190);
	deques({1, 2, 3}, {"a", "b"}, moved, {});
	maps({{1, "one"}}, {{1, 1}, {1, 2}}, {"x", "y", "z"}, {{1, 2}}, {5, 6, 7}, {1, 2});
	std::vector<std::unique_ptr<int>> owned;
	owned.push_back(std::make_unique<int>(9));
	owned.push_back(nullptr);
	auto shared = std::make_shared<int>(3);
	pointers(std::unique_ptr<int, Deleter>(new int(5)), std::make_unique<Point>(Point{1, 2, "p"}), shared, owned,
		 std::make_shared<Point>(Point{3, 4, "a text that is longer than a short one"}));
	int numbers[] = {4, 5, 6};
	tuples({1, "t", {2, 3}}, {Deleter(), 8}, {1, std::nullopt}, Point{5, 6, "o"}, numbers, "letters");
	others(Named(), u"wide", false, 'x', Shadows());
}
