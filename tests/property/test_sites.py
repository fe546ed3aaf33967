"""A probe at the chosen site sees what one at the entry would, and once a call: by emulation."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
import unicorn
from hypothesis import assume, given
from hypothesis import strategies as st
from unicorn import x86_const

from sslsniff import instructions, sites
from sslsniff.elf import Elf
from tests import libraries
from tests.unit import encodings
from tests.unit.test_sites import CASES, NEEDED, find

PAGE = 4096
STACK, DATA, BACK = 0x70_0000, 0x80_0000, 0x90_0000
ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
MOST_INSTRUCTIONS = 200
NUMBERS = {
    name: getattr(x86_const, f"UC_X86_REG_{name.upper()}") for name in (*ARGUMENTS, "rsp", "rax")
}
PIECES = [
    *(encodings.ENDBR64, encodings.PUSH_RBP, encodings.PUSH_R12, encodings.NOP),
    *(encodings.MOV_RBX_RDI, encodings.MOV_RDI_RAX, encodings.XOR_EDX, encodings.XOR_CL),
    *(encodings.SUB_RSP, encodings.TEST_RDI, encodings.JE_RET, encodings.RET, b"\x5d"),
    *(bytes([jump, way & 0xFF]) for jump in (0x74, 0x75, 0xEB) for way in range(-12, 13, 3)),
]


class Passing(NamedTuple):
    """The registers at an address: of the entry first, then each time the site is reached."""

    entry: dict[str, int]
    site: list[dict[str, int]]


def run(code: bytes, address: int, site: int, arguments: list[int], *, to_site: bool) -> Passing:
    """Call ``code`` at ``address``; until it returns, fails, or has run for long enough."""
    machine = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
    start = address & -PAGE
    machine.mem_map(start, (address + len(code) - start + PAGE - 1) & -PAGE)
    machine.mem_write(address, code)
    for region in (STACK, DATA):
        machine.mem_map(region, 16 * PAGE)
    stack = STACK + 8 * PAGE + 8
    machine.mem_write(stack, BACK.to_bytes(8, "little"))
    entry = {**dict(zip(ARGUMENTS, arguments, strict=True)), "rsp": stack, "rax": 1}
    for name, value in entry.items():
        machine.reg_write(NUMBERS[name], value)
    seen: list[dict[str, int]] = []

    def reached(*_: object) -> None:
        seen.append({name: machine.reg_read(number) for name, number in NUMBERS.items()})
        if to_site:
            machine.emu_stop()

    machine.hook_add(unicorn.UC_HOOK_CODE, reached, begin=site, end=site)
    try:
        machine.emu_start(address, BACK, count=MOST_INSTRUCTIONS)
    except unicorn.UcError:
        assert not to_site  # it went where a call of random bytes may go
    return Passing(entry, seen)


def assert_same(passing: Passing, needed: set[str]) -> None:
    [at_site] = passing.site
    assert {name: at_site[name] for name in needed} == {
        name: passing.entry[name] for name in needed
    }


def outside(code: bytes) -> set[int]:
    """Return where jumps of made-up functions may lead out of them."""
    end = encodings.AT + len(code)
    return {*range(encodings.AT - PAGE, encodings.AT), *range(end, end + PAGE)}


def addresses() -> Iterator[int]:
    """Yield arguments that all can be dereferenced, and tell of each other."""
    yield from range(DATA + PAGE, DATA + 7 * PAGE, PAGE)


@pytest.mark.parametrize(("series", "name"), CASES)
def test_real_functions(series: str, name: str) -> None:
    registers, with_return = NEEDED[name]
    with Elf(str(libraries.library(series).path)) as elf:
        function = find(elf, name)
        code = elf.code(function)
    site = sites.best_site(code, function.address, registers, with_return=with_return)
    assert site is not None
    passing = run(code, function.address, site.address, list(addresses()), to_site=True)
    assert_same(passing, {*registers, *(["rsp"] if with_return else [])})


@given(
    pieces=st.lists(st.sampled_from(PIECES), min_size=1, max_size=8),
    arguments=st.lists(st.integers(0, 2**64 - 1), min_size=6, max_size=6),
    needed=st.sets(st.sampled_from(ARGUMENTS)),
    with_return=st.booleans(),
)
def test_made_up_functions(
    pieces: list[bytes], arguments: list[int], needed: set[str], with_return: bool
) -> None:
    code = b"".join(pieces) + encodings.RET
    site = sites.best_site(code, encodings.AT, needed, with_return=with_return)
    starts = {each.address for each in instructions.disassemble(code, encodings.AT)}
    assume(instructions.jump_targets(code, encodings.AT, ("j",)) <= starts | outside(code))
    if site is not None:
        passing = run(code, encodings.AT, site.address, arguments, to_site=False)
        assert_same(passing, needed | ({"rsp"} if with_return else set()))
