"""The canonical frame address of every row of a program's unwind tables, against readelf."""

import re
import subprocess
from pathlib import Path

import pytest

from sslsniff.elf.call_frames import RegisterOffset, RuleKind, call_frame_at, cfa_at
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.frame_descriptions import FrameDescriptions

pytestmark = pytest.mark.tools

SOURCE = """
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) int many(int a, int b, int c, int d, int e, int f, int g) {
    char *room = __builtin_alloca(a);
    printf("%p %d\\n", room, a + b + c + d + e + f + g);
    return room[0] + a;
}
int main(int count, char **words) {
    if (count > 3) return 1;
    return many(count, 2, 3, 4, 5, 6, 7) + many(count, 1, 1, 1, 1, 1, atoi(words[0]));
}
"""
# As readelf names the registers of x86-64 (System V ABI, figure 3.36).
REGISTERS = {"rax": 0, "rdx": 1, "rcx": 2, "rbx": 3, "rsi": 4, "rdi": 5, "rbp": 6, "rsp": 7} | {
    f"r{number}": number for number in range(8, 16)
}
REGISTERS["ra"] = 16


@pytest.fixture(scope="module", params=["-O0", "-O2", "-fno-asynchronous-unwind-tables"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("frames") / "program"
    command = ["gcc", "-g", "-O1", request.param, "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=SOURCE.encode(), check=True)
    return path


def rows_of(path: Path) -> dict[int, str]:
    """Return how readelf shows the canonical frame address, by the address of each row."""
    command = ["readelf", "--debug-dump=frames-interp", str(path)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[int, str] = {}
    for part in re.split(r"\n\n", shown):
        if " FDE " in part:
            found |= {
                int(at, 16): cfa
                for at, cfa in re.findall(r"^([0-9a-f]{16}) (\S+)", part, re.MULTILINE)
            }
    return found


def test_every_row_is_that_of_readelf(program: Path) -> None:
    rows = rows_of(program)
    assert len(rows) > 10
    with Elf(str(program)) as elf:
        for address, shown in rows.items():
            found = cfa_at(elf, address)
            if shown == "exp":
                assert isinstance(found, bytes)
            else:
                register, offset = re.fullmatch(r"(\w+)([+-]\d+)", shown).groups()  # type: ignore[union-attr]
                assert found == RegisterOffset(REGISTERS[register], int(offset))


def rules_of(path: Path) -> dict[int, dict[str, str]]:
    """Return how readelf shows the rules of registers, by the address of each row."""
    command = ["readelf", "--debug-dump=frames-interp", str(path)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[int, dict[str, str]] = {}
    for part in re.split(r"\n\n", shown):
        if " FDE " in part:
            head, *rows = re.findall(r"^(?:   LOC|[0-9a-f]{16}) .*$", part, re.MULTILINE) or [""]
            for row in rows:
                at, _, *rules = row.split()
                found[int(at, 16)] = dict(zip(head.split()[2:], rules, strict=True))
    return found


def test_the_rule_of_every_register_is_that_of_readelf(program: Path) -> None:
    rows = rules_of(program)
    assert any(len(rules) > 1 for rules in rows.values())
    with Elf(str(program)) as elf:
        descriptions = FrameDescriptions(elf)
        for address, rules in rows.items():
            frame = call_frame_at(descriptions, address)
            assert frame is not None
            found = {}
            for register, rule in frame.rules.items():
                if rule.kind is RuleKind.OFFSET and isinstance(rule.value, int):
                    found[register] = f"c{rule.value:+}"
                else:
                    found[register] = rule.kind.value[0]
            expected = {
                REGISTERS[name]: rule for name, rule in rules.items() if rule != "u" or name == "ra"
            }
            assert found == expected


def test_an_address_outside_of_functions_has_none(program: Path) -> None:
    with Elf(str(program)) as elf:
        assert cfa_at(elf, 1) is None
        assert cfa_at(elf, 1 << 40) is None
