"""Types of C and C++, as gcc describes them, against what the compiler says of them."""

import subprocess
from pathlib import Path

import pytest

from sslsniff.elf.elf_file import Elf
from sslsniff.functions.dwarf.debug_info import open_debug_info
from sslsniff.functions.dwarf.function_model import DescribedFunction
from sslsniff.functions.dwarf.type_model import (
    Array,
    Boolean,
    Character,
    Enumeration,
    Floating,
    Integer,
    Pointer,
    Structure,
    Type,
)

pytestmark = pytest.mark.tools

C = """\
#include <stdbool.h>
typedef struct node { struct node *next; int values[2][3]; } node_t;
enum color { RED, GREEN = 5, BLUE = -1 };
struct bits { unsigned low : 3, high : 7; int : 0; long after; };
union number { long whole; double real; };
typedef float four __attribute__((vector_size(16)));
int take(node_t *node, const char *name, enum color color, struct bits bits, union number number,
         bool flag, long double wide, char letter, unsigned char byte, int (*call)(int),
         void *anything, four lanes) {
    return node->values[1][2] + *name + color + bits.high + number.whole + flag + wide + letter
        + byte + call(1) + (anything != 0) + lanes[0];
}
int main(void) { return 0; }
"""
CPP = """\
#include <string>
#include <vector>
struct base { long first; virtual ~base() {} };
template <typename T> struct derived : base { T value; static int count; };
enum class size : unsigned char { small = 1, large = 255 };
int take(std::string text, std::vector<int> &list, derived<char> *one, size how, int &&moved) {
    return text.size() + list.size() + one->value + (int)how + moved;
}
int main() { derived<char> one; return one.value; }
"""


def function(folder: Path, source: str, *command: str) -> DescribedFunction:
    path = folder / "program"
    subprocess.run([*command, "-", "-o", str(path)], input=source.encode(), check=True)
    with Elf(str(path)) as elf:
        info = open_debug_info(elf)
        assert info is not None
        [found] = info.functions(lambda each: each == "take")
        for each in found.parameters:  # what pointers lead to is read while the file is open
            if isinstance(each.type, Pointer):
                each.type.target()
            if isinstance(each.type, Structure):
                each.type.type_arguments()
        return found


@pytest.mark.parametrize("version", ["-gdwarf-4", "-gdwarf-5"])
def test_types_of_c(tmp_path: Path, version: str) -> None:
    found = function(tmp_path, C, "gcc", version, "-x", "c")
    types: dict[str, Type | None] = {each.name: each.type for each in found.parameters}
    node = types["node"]
    assert isinstance(node, Pointer)
    target = node.target()
    assert isinstance(target, Structure)
    assert (node.name, target.name, target.size) == ("node_t *", "node_t", 32)
    following, values = (each.type for each in target.members)
    assert isinstance(following, Pointer)
    assert isinstance(values, Array)
    assert isinstance(values.element, Array)
    assert (values.count, values.element.count, values.size) == (2, 3, 24)
    name = types["name"]
    assert isinstance(name, Pointer)
    assert isinstance(name.target(), Character)
    assert name.name == "const char *"
    color = types["color"]
    assert isinstance(color, Enumeration)
    assert color.names == {0: "RED", 5: "GREEN", -1: "BLUE"}
    bits = types["bits"]
    assert isinstance(bits, Structure)
    low, high, after = bits.members
    assert (low.bits, high.bits, after.bits, after.offset) == ((0, 3), (3, 7), None, 8)
    number = types["number"]
    assert isinstance(number, Structure)
    assert number.is_union
    assert [each.offset for each in number.members] == [0, 0]
    assert isinstance(types["flag"], Boolean)
    wide = types["wide"]
    assert isinstance(wide, Floating)
    assert wide.size == 16
    assert isinstance(types["letter"], Character)
    assert types["call"] is not None
    assert types["call"].name == "int (*)(int)"
    anything = types["anything"]
    assert isinstance(anything, Pointer)
    assert anything.target() is None
    assert anything.name == "void *"
    lanes = types["lanes"]
    assert isinstance(lanes, Array)
    assert lanes.is_vector


@pytest.mark.parametrize(
    "options", [("-gdwarf-4",), ("-gdwarf-5",), ("-gdwarf-5", "-fdebug-types-section")], ids=str
)
def test_types_of_cpp(tmp_path: Path, options: tuple[str, ...]) -> None:
    found = function(tmp_path, CPP, "g++", *options, "-x", "c++")
    types: dict[str, Type | None] = {each.name: each.type for each in found.parameters}
    text = types["text"]
    assert isinstance(text, Structure)
    assert (text.name, text.size) == ("string", 32)
    assert [each.name for each in text.members][:2] == ["_M_dataplus", "_M_string_length"]
    elements = types["list"]
    assert isinstance(elements, Pointer)
    assert elements.is_reference
    vector = elements.target()
    assert isinstance(vector, Structure)
    assert vector.name == "vector<int, std::allocator<int> >"
    one = types["one"]
    assert isinstance(one, Pointer)
    derived = one.target()
    assert isinstance(derived, Structure)
    assert [each.name for each in derived.members] == ["base", "value"]
    how = types["how"]
    assert isinstance(how, Enumeration)
    assert (how.names, how.size) == ({1: "small", 255: "large"}, 1)
    moved = types["moved"]
    assert isinstance(moved, Pointer)
    assert moved.name == "int &&"
    assert isinstance(moved.target(), Integer)
