"""Names of functions as people write them."""

import pytest

from sslsniff.elf.readable_names import readable_name


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("main", "main"),
        ("_Z3fooi", "foo"),
        ("_Znot a name", "_Znot a name"),
        ("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back"),
        ("_ZNKSt8functionIFviEEclEi", "std::function<void (int)>::operator()"),
        ("_Z5twiceIiET_S0_", "twice<int>"),
        ("_Z4makeIiESt6vectorIT_SaIS1_EES1_", "make<int>"),
        ("_ZN12_GLOBAL__N_16hiddenEv", "(anonymous namespace)::hidden"),
        ("_ZlsRSoRK5Point", "operator<<"),
        ("_ZN5PointptEv", "Point::operator->"),
        ("_ZNK5PointcvmEv", "Point::operator unsigned long"),
        ("_Znwm", "operator new"),
        ("_ZdaPv", "operator delete[]"),
        ("_ZN5PointC2Eii", "Point::Point"),
        ("_ZN5PointD0Ev", "Point::~Point"),
        ("_ZZ4mainENKUliE_clEi", "main::{lambda(int)#1}::operator()"),
        ("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"),
        ("_RNvC5hello4main", "hello::main"),
    ],
)
def test_names(symbol: str, name: str) -> None:
    assert readable_name(symbol) == name
