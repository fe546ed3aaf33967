#include <cstdio>
#include <execinfo.h>
#include <stdexcept>
namespace shop {
struct Order {
    int number;
    __attribute__((noinline)) int probed(int n) const {
        void *at[64];
        backtrace_symbols_fd(at, backtrace(at, 64), 1);
        return n + number;
    }
};
struct Guard {
    const Order &order;
    __attribute__((noinline)) ~Guard() { if (order.probed(1) > 100) std::puts("large"); }
};
__attribute__((noinline)) void fails(const Order &order) {
    Guard guard{order};
    if (order.number) throw std::runtime_error("no");
}
template <class T> __attribute__((noinline)) int attempt(const T &order) {
    try { fails(order); } catch (const std::exception &error) { return order.probed(2); }
    return 0;
}
}
int main() { return shop::attempt(shop::Order{3}) == 5 ? 0 : 1; }
