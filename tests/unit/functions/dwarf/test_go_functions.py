"""Functions and types of programs that Go made."""

import os
import subprocess
from pathlib import Path

import pytest

from sslsniff.elf.elf_file import Elf
from sslsniff.functions.dwarf.debug_info import open_debug_info
from sslsniff.functions.dwarf.function_model import DescribedFunction, Language
from sslsniff.functions.dwarf.type_model import Pointer, Structure

pytestmark = pytest.mark.heavy

SOURCE = """\
package main

type Point struct{ X, Y int }
type Shape interface{ Area() int }

func (p *Point) Area() int { return p.X * p.Y }

//go:noinline
func traceme(a, b int) int { return a + b }

//go:noinline
func mixed(s string, list []int, m map[string]int, shape Shape, p Point) (n int, e error) {
\tprintln(s, len(list), len(m), shape.Area(), p.X)
\treturn len(s), nil
}

func main() {
\tprintln(traceme(1, 2))
\tprintln(mixed("abc", []int{1, 2}, map[string]int{"a": 1}, &Point{1, 2}, Point{3, 4}))
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("go")
    (folder / "main.go").write_text(SOURCE)
    environment = os.environ | {"GO111MODULE": "off", "GOFLAGS": ""}
    command = ["go", "build", "-o", "program", "main.go"]
    subprocess.run(command, cwd=folder, env=environment, check=True)
    return folder / "program"


def function(path: Path, name: str) -> DescribedFunction:
    with Elf(str(path)) as elf:
        info = open_debug_info(elf)
        assert info is not None
        [found] = info.functions(lambda each: each == name)
        symbol = elf.function(name)
    assert symbol is not None
    assert found.copies[0].entries == (symbol.address,)
    return found


def test_results_are_told_from_parameters(program: Path) -> None:
    found = function(program, "main.traceme")
    assert found.language == Language.GO
    assert found.signature == "(a: int, b: int) -> (~r0: int)"
    [copy] = found.copies
    assert [each.is_result for each in copy.parameters] == [False, False, True]
    assert all(each.expression_at(copy.entries[0]) for each in copy.parameters[:2])


def test_types_have_the_names_of_the_source(program: Path) -> None:
    found = function(program, "main.mixed")
    assert found.signature == (
        "(s: string, list: []int, m: map[string]int, shape: main.Shape, p: main.Point)"
        " -> (n: int, e: error)"
    )
    text, elements, _, _, point, *_ = (each.type for each in found.parameters)
    assert isinstance(text, Structure)
    assert [each.name for each in text.members] == ["str", "len"]
    assert isinstance(elements, Structure)
    assert isinstance(elements.members[0].type, Pointer)
    assert isinstance(point, Structure)
    assert [(each.name, each.offset) for each in point.members] == [("X", 0), ("Y", 8)]
