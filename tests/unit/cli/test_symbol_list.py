"""``sslsniff symbols`` on programs that gcc made, against nm and readelf."""

import contextlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf
from sslsniff.functions.dwarf.debug_info import open_debug_info
from tests import hostile_files
from tests.unit import rust_files
from tests.unit.rust_files import assembled, function

SOURCE = """
#include <stdio.h>
static int counted(int number) { printf("%d", number); return number + 1; }
__attribute__((noinline)) static int called(int number) { printf("%x", number); return 1; }
int main(int count, char **words) {
    int sum = 0;
    for (int at = 0; at < count; at++)
        sum += counted(at);
    return sum + counted(count) + called(sum);
}
"""
PROBE = """
.text
nop
1: nop
.section .stapsdt.base, "aG", "progbits", .stapsdt.base, comdat
_.stapsdt.base: .space 1
.section .probes, "aw"
counter: .short 0
.section .note.stapsdt, "", "note"
.balign 4
.4byte 8, 3f - 2f, 3
.asciz "stapsdt"
2: .8byte 1b, _.stapsdt.base, %s
.asciz "provider", "name", "-4@%%edi 8@%%rsi"
3: .balign 4
"""

Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a program with debug info in which one function was inlined twice."""
    path = tmp_path_factory.mktemp("inlined") / "program"
    command = ["gcc", "-O2", "-g", "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=SOURCE.encode(), check=True)
    return path


def symbols(*arguments: str | Path) -> Done:
    command = [sys.executable, "-m", "sslsniff", "symbols", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def objects(*arguments: str | Path) -> list[dict[str, Any]]:
    done = symbols("--json", *arguments)
    assert done.returncode == 0
    return [json.loads(line) for line in done.stdout.splitlines()]


def named(path: Path) -> dict[str, int]:
    """Return the functions of a file as nm shows them."""
    shown = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    return {name: int(at, 16) for at, name in re.findall(r"^(\w+) [tTwW] (\S+)$", shown, re.M)}


@pytest.mark.heavy
def test_all_functions_are_those_of_nm(program: Path) -> None:
    found = {each["symbol"]: each for each in objects(program)}
    assert {name: each["address"] for name, each in found.items()} == {
        name: address for name, address in named(program).items() if name in found
    }
    assert {"main", "called", "_start"} <= found.keys()
    with Elf(str(program)) as elf:
        for each in found.values():
            assert each["type"] == "function"
            assert each["offset"] == elf.offset(each["address"])
    assert found["called"]["probe"]["address"] >= found["called"]["address"]


@pytest.mark.heavy
def test_a_function_that_was_inlined_is_told_with_where(program: Path) -> None:
    with Elf(str(program)) as elf:
        main = elf.function("main")
    assert main is not None
    found = objects(program, "^counted$")
    assert len(found) == 2
    for each in found:
        assert (each["type"], each["name"], each["into"]) == ("inlined", "counted", "main")
        assert main.address <= each["address"] < main.address + main.size
    done = symbols(program, "^counted$")
    assert done.stderr == ""
    _, *lines = done.stdout.splitlines()
    assert [line.split() for line in lines] == [
        [hex(each["address"]), hex(each["offset"]), "-", "inlined", "counted", "into", "main"]
        for each in found
    ]


@pytest.mark.heavy
def test_without_debug_info_it_may_have_been(program: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run(["strip", "-g", program, "-o", bare], check=True)
    done = symbols(bare, "^counted$")
    assert done.returncode == 1
    told = "a function that matches may have been inlined into its callers: there is no debug info"
    assert done.stderr == f"sslsniff: {bare}: nothing in it matches; {told} that would tell\n"
    assert done.stdout == ""
    done = symbols(bare, "^called$")
    assert done.stderr == f"sslsniff: {bare}: {told} that would tell\n"
    done = symbols(program, "^no such$")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("callers: the available debug info has none\n")
    done = symbols(program, "^caled$")
    assert "nothing in it matches (did you mean called?); a function" in done.stderr
    assert symbols(program, "^called$").stderr == ""


@pytest.mark.heavy
def test_debug_info_is_read_from_its_own_file(program: Path, tmp_path: Path) -> None:
    stripped, debug = tmp_path / "stripped", tmp_path / "stripped.debug"
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    link = f"--add-gnu-debuglink={debug}"
    subprocess.run(["objcopy", "--strip-all", link, program, stripped], check=True)
    assert objects(stripped, "counted|called") == objects(program, "counted|called")


@pytest.mark.tools
@pytest.mark.parametrize("arguments", [(), ("main",), ("--json",)])
def test_a_stripped_file_is_one_line(
    arguments: tuple[str, ...], program: Path, tmp_path: Path
) -> None:
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "--strip-all", program, "-o", stripped], check=True)
    done = symbols(stripped, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    remedy = "it has no symbols: build it with symbols, or install its debug file"
    assert done.stderr == f"sslsniff: {stripped}: {remedy}\n"


@pytest.mark.tools
def test_damaged_debug_info_is_an_error_or_names_no_other_code(
    program: Path, tmp_path: Path
) -> None:
    whole = program.read_bytes()
    with Elf(str(program)) as elf:
        main = elf.function("main")
    assert main is not None
    shown = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True, check=True)
    match = re.search(r"\.debug_info +PROGBITS +\w+ (\w+) (\w+)", shown.stdout)
    assert match
    begin, size = (int(each, 16) for each in match.groups())
    for at in range(begin, begin + size, 7):
        path = tmp_path / "damaged"
        path.write_bytes(whole[:at] + b"\xff" * 8 + whole[at + 8 :])
        with Elf(str(path)) as elf, contextlib.suppress(ElfError):
            info = open_debug_info(elf)
            assert info is not None
            # A damaged name of the compiler changes which ranges begin a call.
            calls = [*info.inlined_calls(lambda *_: True)]
            assert len(calls) <= 3
            assert all(main.address <= each.address < main.address + main.size for each in calls)


@pytest.mark.heavy
@pytest.mark.parametrize("option", [(), ("--mangled",)])
def test_names_are_in_words_unless_asked_otherwise(option: tuple[str, ...], tmp_path: Path) -> None:
    names = [rust_files.TLS13_ENCRYPT, rust_files.TLS13_ENCRYPT_V0, "plain"]
    path = assembled(tmp_path / "program", [function(each, "nop\nret") for each in names])
    done = symbols(*option, path, "MessageEncrypter>::encrypt$|^plain$")
    words = "<rustls::crypto::ring::tls13::Tls13MessageEncrypter as rustls::crypto::cipher::"
    expected = names if option else [f"{words}MessageEncrypter>::encrypt"] * 2 + ["plain"]
    _, *lines = done.stdout.splitlines()
    assert [line.split(maxsplit=4)[-1] for line in lines] == expected


@pytest.mark.heavy
@pytest.mark.parametrize(("semaphore", "has_one"), [("0", False), ("counter", True)])
def test_static_probes_are_those_of_readelf(semaphore: str, has_one: bool, tmp_path: Path) -> None:
    path = assembled(tmp_path / "program", [PROBE % semaphore])
    shown = subprocess.run(["readelf", "-nW", path], capture_output=True, text=True, check=True)
    location, counter = re.findall(r"(?:Location|Semaphore): 0x(\w+)", shown.stdout)
    [found] = objects(path, "^provider:name$")
    assert found == {
        "type": "usdt",
        "provider": "provider",
        "name": "name",
        "arguments": "-4@%edi 8@%rsi",
        "address": int(location, 16),
        "semaphore": int(counter, 16) or None,
        "offset": int(location, 16),
    }
    assert (found["semaphore"] is not None) is has_one
    assert "usdt              provider:name -4@%edi 8@%rsi" in symbols(path).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["/no/such"], 1, "cannot read /no/such (No such file or directory): name an x86-64"),
        ([__file__], 1, "is not an ELF file: name an x86-64 program"),
        (["/bin/true", "("], 2, "'(' is no regular expression"),
        ([], 2, "FILE"),
    ],
)
def test_what_is_wrong_is_told(arguments: list[str], code: int, told: str) -> None:
    done = symbols(*arguments)
    assert done.returncode == code
    assert told in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_file_that_takes_too_much_memory_is_one_line(tmp_path: Path) -> None:
    path = hostile_files.names(tmp_path / "hostile", size=5 << 30)
    done = symbols(path, "SSL")
    assert done.returncode == 1
    assert done.stderr == (
        f"sslsniff: {path} takes more than 2 GB of memory: see readelf or objdump\n"
    )


@pytest.mark.heavy
def test_signatures_are_those_of_the_source(program: Path, tmp_path: Path) -> None:
    found = {each["name"]: each for each in objects("--signatures", program)}
    assert found["called"]["signature"] == "(number: int) -> int"
    assert found["main"]["signature"] == "(count: int, words: char **) -> int"
    assert found["_start"]["signature"] is None
    assert {each["signature"] for each in objects("--signatures", program, "^counted$")} == {
        "(number: int) -> int"
    }
    shown = symbols("--signatures", program, "^counted$").stdout
    assert "counted(number: int) -> int into main\n" in shown
    bare = tmp_path / "bare"
    subprocess.run(["strip", "-g", program, "-o", bare], check=True)
    assert {each["signature"] for each in objects("--signatures", bare)} == {None}
    assert "signature" not in objects(program)[0]


@pytest.mark.tools
def test_inlined_functions_of_cpp_have_their_scopes(tmp_path: Path) -> None:
    source = """
    namespace shop {
    struct shape { int side; inline int area(int by) const { return side * by; } };
    int total(const shape &of, int by) { return of.area(by) + 1; }
    }
    int main(int count, char **) { shop::shape one{count}; return shop::total(one, 3); }
    """
    path = tmp_path / "program"
    command = ["g++", "-O2", "-g", "-x", "c++", "-", "-o", str(path)]
    subprocess.run(command, input=source.encode(), check=True)
    found = objects(path, "shop::shape::area")
    assert {(each["name"], each["into"]) for each in found} >= {
        ("shop::shape::area", "shop::total")
    }
