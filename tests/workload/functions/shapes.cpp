// Functions of C++ with namespaces, classes and templates.
#include <cstdio>
#include <string>
#include <vector>

namespace shapes {

template <typename Number> struct Point {
	Number x, y;
	__attribute__((noipa)) Number area(Number width) const { return (x + y) * width; }
};

__attribute__((noipa)) long count(const std::vector<int> &numbers, const std::string &name)
{
	return static_cast<long>(numbers.size() + name.size());
}

} // namespace shapes

int main()
{
	shapes::Point<int> point{3, 4};
	std::printf("%d\n", point.area(5));
	std::printf("%ld\n", shapes::count({1, 2, 3}, "circle"));
}
