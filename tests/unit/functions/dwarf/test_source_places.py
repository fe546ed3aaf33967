"""Which functions an address is of, inlined ones too, against addr2line."""

import subprocess
from pathlib import Path

import pytest

from sslsniff.elf.elf_file import Elf
from sslsniff.functions.dwarf.debug_info import open_debug_info

pytestmark = pytest.mark.tools

SOURCE = """
#include <stdio.h>
#include <stdlib.h>
static inline __attribute__((always_inline)) int half(int n) { return n / 2 + rand(); }
static inline __attribute__((always_inline)) int both(int a, int b) {
    return half(a) * 3
        + half(b);
}
__attribute__((noinline)) int sum(int count) {
    int found = 0;
    for (int i = 0; i < count; i++)
        found += both(i, found);
    return found;
}
int main(int count, char **words) {
    printf("%d\\n", sum(count) + half(atoi(words[0])));
    return 0;
}
"""


def test_each_address_is_of_the_functions_that_addr2line_says(tmp_path: Path) -> None:
    program = tmp_path / "program"
    command = ["gcc", "-g", "-O2", "-x", "c", "-", "-o", str(program)]
    subprocess.run(command, input=SOURCE.encode(), check=True)
    compared = set()
    with Elf(str(program)) as elf:
        debug = open_debug_info(elf)
        assert debug is not None
        addresses: list[int] = []
        for name in ("sum", "main"):
            function = elf.function(name)
            assert function is not None
            addresses += range(function.address, function.address + function.size)
        for address in addresses:
            places = debug.places_at(address)
            found = [
                (each.function, Path(each.source.file).name if each.source else "??")
                for each in places
            ]
            lines = [each.source.line if each.source else 0 for each in places]
            expected = addr2line(program, address)
            assert [(name, line) for (name, _), line in zip(found, lines, strict=True)] == expected
            assert [each.is_inlined for each in places] == [True] * (len(places) - 1) + [False]
            compared.add(tuple(name for name, _ in found))
        assert debug.places_at(1) == []
    assert compared == {
        ("sum",),
        ("both", "sum"),
        ("half", "both", "sum"),
        ("main",),
        ("half", "main"),
        ("atoi", "main"),
    }


def addr2line(program: Path, address: int) -> list[tuple[str, int]]:
    """Return function and line of each function at an address, the innermost first."""
    command = ["addr2line", "-f", "-i", "-e", str(program), hex(address)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    numbers = [each.rpartition(":")[2].split()[0] for each in lines[1::2]]
    return [
        (name, int(number) if number.isdecimal() else 0)
        for name, number in zip(lines[::2], numbers, strict=True)
    ]
