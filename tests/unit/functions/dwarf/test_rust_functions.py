"""Functions and types of programs that rustc made."""

import subprocess
from pathlib import Path

import pytest

from sslsniff.elf.elf_file import Elf
from sslsniff.functions.dwarf.debug_info import open_debug_info
from sslsniff.functions.dwarf.function_model import DescribedFunction, Language, SourceLine
from sslsniff.functions.dwarf.type_model import Enumeration, Pointer, Structure, Type

pytestmark = pytest.mark.heavy

HELLO = """\
fn hello(i: i32, len: usize) -> i32 {
    println!("hello {} {}", i, len);
    i + len as i32
}

fn main() {
    for i in 1..5 {
        let ret = hello(i, 5);
        println!("ret = {}", ret);
    }
}
"""
TYPES = """\
pub enum Shape { Circle(f64), Rect { w: u32, h: u32 }, Nothing }
pub enum Level { Low = 1, High = -3 }
#[inline(never)]
pub fn many(text: &str, list: &[u8], maybe: Option<Box<i32>>, shape: Shape, level: Level,
            pair: (u8, char), result: Result<u32, String>) -> Option<String> {
    println!("{} {:?} {:?} {} {:?} {:?}", text, list, maybe, level as i32, pair, result);
    match shape { Shape::Circle(r) => Some(r.to_string()), Shape::Rect { w, h } if w > h => None,
                  _ => Some("x".into()) }
}
fn main() {
    many("a", b"b", None, Shape::Nothing, Level::Low, (1, 'x'), Ok(1));
    many("a", b"b", None, Shape::Circle(1.0), Level::High, (1, 'x'), Err("x".into()));
    many("a", b"b", None, Shape::Rect { w: 1, h: 2 }, Level::High, (1, 'x'), Ok(1));
}
"""


def functions(folder: Path, source: str, name: str, *options: str) -> list[DescribedFunction]:
    (folder / "program.rs").write_text(source)
    command = ["rustc", *options, "program.rs", "-o", "program"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    with Elf(str(folder / "program")) as elf:
        info = open_debug_info(elf)
        assert info is not None
        return info.functions(lambda each: each == name)


@pytest.mark.parametrize("mangling", [(), ("-Csymbol-mangling-version=v0",)], ids=str)
def test_each_call_of_an_unrolled_loop_is_an_entry(
    tmp_path: Path, mangling: tuple[str, ...]
) -> None:
    options = ("-Cdebuginfo=2", "-Copt-level=2", *mangling)
    [found] = functions(tmp_path, HELLO, "program::hello", *options)
    assert found.language == Language.RUST
    assert found.declared == SourceLine(str(tmp_path / "program.rs"), 1)
    assert found.signature == "(i: i32, len: usize) -> i32"
    [copy] = found.copies
    assert copy.into == "program::main"
    assert copy.called_from == SourceLine(str(tmp_path / "program.rs"), 8)
    assert len(copy.entries) == len(copy.result_addresses) == 4
    assert copy.result_variable is not None
    assert copy.result_variable.name == "ret"
    for entry, result in zip(copy.entries, copy.result_addresses, strict=True):
        assert entry < result
        assert all(each.expression_at(entry) is not None for each in copy.parameters)


def test_unoptimised_code_has_one_entry(tmp_path: Path) -> None:
    [found] = functions(tmp_path, HELLO, "program::hello", "-Cdebuginfo=2")
    [copy] = found.copies
    assert copy.into is None
    assert len(copy.entries) == 1
    assert all(each.has_one_location for each in copy.parameters)


def test_limited_debug_info_has_no_parameters(tmp_path: Path) -> None:
    [found] = functions(tmp_path, HELLO, "program::hello", "-Cdebuginfo=1", "-Copt-level=2")
    assert not found.has_parameters
    assert found.parameters == ()
    assert [len(each.entries) for each in found.copies] == [4]


def structure(kind: Type | None) -> Structure:
    assert isinstance(kind, Structure)
    return kind


def test_types_are_those_of_the_source(tmp_path: Path) -> None:
    [found] = functions(tmp_path, TYPES, "program::many", "-Cdebuginfo=2", "-Copt-level=1")
    text, elements, maybe, shape, level, pair, result = (each.type for each in found.parameters)
    for fat, name in ((text, "&str"), (elements, "&[u8]")):
        assert fat is not None
        assert (fat.name, fat.size) == (name, 16)
        assert [each.name for each in structure(fat).members] == ["data_ptr", "length"]
    # The null pointer means None.
    niche = structure(maybe)
    assert niche.discriminant is not None
    assert {each.name: each.values for each in niche.variants} == {
        "None": frozenset({0}),
        "Some": frozenset(),
    }
    tagged = {each.name: each for each in structure(shape).variants}
    assert [*tagged] == ["Circle", "Rect", "Nothing"]
    assert [each.values for each in tagged.values()] == [frozenset({at}) for at in range(3)]
    assert [each.name for each in structure(tagged["Rect"].type).members] == ["w", "h"]
    assert isinstance(level, Enumeration)
    assert (level.names, level.is_signed) == ({1: "Low", -3: "High"}, True)
    assert [each.offset for each in structure(pair).members] == [0, 4]
    assert {each.name for each in structure(result).variants} == {"Ok", "Err"}
    assert structure(result).type_arguments() == {}
    some = structure(niche.variants[1].type)
    assert isinstance(some.members[0].type, Pointer)
    target = some.members[0].type.target()
    assert target is not None
    assert target.name == "i32"
    assert found.result is not None
    assert found.result.name == "Option<alloc::string::String>"
