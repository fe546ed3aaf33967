// What programs that clang compiled with libc++ need of that library beside its headers, from its
// own sources. The rest is in libstdc++, whose names they share.
#include <src/memory.cpp>
// clang-format off: memory.cpp comes first, as it defines what others declare
#include <src/functional.cpp>
#include <src/hash.cpp>
#include <src/string.cpp>
#include <src/verbose_abort.cpp>
// clang-format on

std::bad_alloc::bad_alloc() noexcept
{
}
std::bad_array_new_length::bad_array_new_length() noexcept
{
}
