// Functions whose arguments are of C++'s types; tests/unit/functions/values has their values.
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#define TRACED extern "C" __attribute__((noinline)) void

enum class Color : unsigned char { Red, Green = 5 };
struct Base {
	int base = 1;
	virtual ~Base() = default;
};
struct Point : Base {
	float x = 1.1f;
	bool flag = true;
	Color color = Color::Green;
	std::string name = "point";
};
using Names = std::vector<std::string>;

TRACED cpp_texts(std::string a, const std::string &b, std::string_view c, std::string *d, const std::string &e)
{
}
TRACED cpp_vectors(std::vector<int> a, const Names &b, std::vector<Point> c, std::array<int, 3> d, const std::vector<long> &e)
{
}
TRACED cpp_optionals(std::optional<int> a, std::optional<std::string> b, std::optional<std::string> c)
{
}
TRACED cpp_pointers(std::unique_ptr<Point> a, std::shared_ptr<int> b, std::unique_ptr<int> c, const Point &d, std::nullptr_t e)
{
}
TRACED cpp_collections(std::map<int, int> a, std::unordered_map<int, int> b, std::set<int> c, std::list<int> d)
{
}
TRACED cpp_others(std::pair<int, std::string> a, std::tuple<int, char, bool> b, Color c, std::chrono::seconds d,
		  std::atomic<int> &e, std::tuple<std::string> f, char16_t g)
{
}

int main()
{
	std::string text = "a text that is longer than sixteen bytes", large(600, 'x');
	std::atomic<int> count{3};
	cpp_texts("short", text, "view", &text, large);
	cpp_vectors({1, 2, 3}, {"one", text}, std::vector<Point>(1), {1, 2, 3}, std::vector<long>(100, 7));
	cpp_optionals(7, std::nullopt, "some");
	cpp_pointers(std::make_unique<Point>(), std::make_shared<int>(5), nullptr, Point(), nullptr);
	cpp_collections({{1, 2}}, {{1, 2}, {3, 4}}, {}, {1, 2, 3});
	cpp_others({1, "pair"}, {1, 'x', true}, Color::Green, std::chrono::seconds(3), count, {"only"}, u'\u00e4');
}
