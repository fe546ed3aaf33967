"""A probe at the chosen site sees what one at the entry would, and once a call: by emulation."""

import itertools
import struct
from collections.abc import Iterator
from typing import NamedTuple

import pytest
import unicorn
from hypothesis import given
from hypothesis import strategies as st
from unicorn import arm64_const, x86_const

from sslsniff.elf.elf_file import Elf
from sslsniff.machine_code import aarch64, instructions, probe_sites
from tests import libraries
from tests.unit.machine_code import encodings, test_aarch64, test_probe_sites
from tests.unit.machine_code import encodings_aarch64 as words

PAGE = 4096
STACK, DATA, BACK = 0x70_0000, 0x80_0000, 0x90_0000
MOST_INSTRUCTIONS = 200


class Machine(NamedTuple):
    """How unicorn runs code of a machine; ``numbers`` are those of the registers that are watched.

    ``back`` is the register that a call leaves the address of its return in, None: on the stack.
    """

    kind: tuple[int, int]
    rules: probe_sites.Machine
    numbers: dict[str, int]
    stack: str
    back: str | None


X86_64 = Machine(
    kind=(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64),
    rules=probe_sites.MACHINES["x86-64"],
    numbers={
        name: getattr(x86_const, f"UC_X86_REG_{name.upper()}")
        for name in (*instructions.ARGUMENTS, "rsp", "rax")
    },
    stack="rsp",
    back=None,
)
AARCH64 = Machine(
    kind=(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM),
    rules=probe_sites.MACHINES["aarch64"],
    numbers={
        name: getattr(arm64_const, f"UC_ARM64_REG_{name.upper()}")
        for name in (*(f"x{number}" for number in range(31)), "sp")
    },
    stack="sp",
    back="x30",
)
PIECES = [
    *(encodings.ENDBR64, encodings.PUSH_RBP, encodings.PUSH_R12, encodings.NOP),
    *(encodings.MOV_RBX_RDI, encodings.MOV_RDI_RAX, encodings.XOR_EDX, encodings.XOR_CL),
    *(encodings.SUB_RSP, encodings.TEST_RDI, encodings.JE_RET, encodings.RET),
    *(encodings.ADD_RSP, encodings.POP_RBP, encodings.XOR_EAX, encodings.NOP5),
]
LEFT_BY = {
    encodings.PUSH_RBP: encodings.POP_RBP,
    encodings.SUB_RSP: encodings.ADD_RSP,
    encodings.NOP: encodings.NOP,
}
JUMPS = [b"\x74\x00", b"\x75\x00", b"\xeb\x00"]
WORDS = [
    *(words.NOP, words.BTI_C, words.PACIASP, words.STP_FRAME, words.SUB_SP, words.MOV_X29_SP),
    *(words.MOV_X19_X0, words.MOV_X0_X19, words.MOV_W3_0, words.ADR_X3, words.ADRP_X3, words.RET),
    *(jump(way) for jump in (words.b, words.b_eq, words.cbz_x0) for way in range(-4, 5)),
]


class Passing(NamedTuple):
    """The registers at an address: of the entry first, then each time the site is reached."""

    entry: dict[str, int]
    site: list[dict[str, int]]


def stack_at_call(machine: Machine) -> int:
    return STACK + 8 * PAGE + (0 if machine.back else 8)


def started(machine: Machine, code: bytes, address: int, arguments: list[int]) -> unicorn.Uc:
    """Return a machine that is about to call ``code`` at ``address``."""
    emulator = unicorn.Uc(*machine.kind)
    start = address & -PAGE
    emulator.mem_map(start, (address + len(code) - start + PAGE - 1) & -PAGE)
    emulator.mem_write(address, code)
    for region in (STACK, DATA):
        emulator.mem_map(region, 16 * PAGE)
    stack = stack_at_call(machine)
    emulator.mem_write(stack, BACK.to_bytes(8, "little"))
    entry = {
        **dict.fromkeys(machine.numbers, 1),
        **dict(zip(machine.rules.arguments, arguments, strict=False)),
        machine.stack: stack,
        **({machine.back: BACK} if machine.back else {}),
    }
    for name, value in entry.items():
        emulator.reg_write(machine.numbers[name], value)
    return emulator


def registers(machine: Machine, emulator: unicorn.Uc) -> dict[str, int]:
    return {name: emulator.reg_read(number) for name, number in machine.numbers.items()}


def run(
    machine: Machine, code: bytes, address: int, site: int, arguments: list[int], *, to_site: bool
) -> Passing:
    """Call ``code`` at ``address``; until it returns, fails, or has run for long enough."""
    emulator = started(machine, code, address, arguments)
    entry = registers(machine, emulator)
    seen: list[dict[str, int]] = []

    def reached(*_: object) -> None:
        seen.append(registers(machine, emulator))
        if to_site:
            emulator.emu_stop()

    emulator.hook_add(unicorn.UC_HOOK_CODE, reached, begin=site, end=site)
    try:
        emulator.emu_start(address, BACK, count=MOST_INSTRUCTIONS)
    except unicorn.UcError:
        assert not to_site  # it went where a call of random bytes may go
    return Passing(entry, seen)


def assert_same(passing: Passing, needed: set[str]) -> None:
    [at_site] = passing.site
    assert {name: at_site[name] for name in needed} == {
        name: passing.entry[name] for name in needed
    }


@st.composite
def made_up(draw: st.DrawFn) -> bytes:
    """Functions of x86-64 that end with a return; their jumps lead to instructions, or out.

    Most have a frame, which they leave before that return.
    """
    frame = draw(st.lists(st.sampled_from(list(LEFT_BY)), max_size=3))
    inner = draw(st.lists(st.sampled_from(PIECES + JUMPS), min_size=1, max_size=8))
    pieces = [*frame, *inner, *(LEFT_BY[each] for each in reversed(frame))]
    ends = list(itertools.accumulate(map(len, pieces)))
    targets = st.sampled_from([0, *ends, -3, ends[-1] + 6])
    made = [
        each[:1] + struct.pack("b", draw(targets) - end) if each in JUMPS else each
        for each, end in zip(pieces, ends, strict=True)
    ]
    return b"".join(made) + encodings.RET


def addresses() -> Iterator[int]:
    """Yield arguments that all can be dereferenced, and tell of each other."""
    yield from range(DATA + PAGE, DATA + 7 * PAGE, PAGE)


def assert_site_serves(
    machine: Machine, code: bytes, address: int, needed: tuple[str, ...], *, with_return: bool
) -> None:
    site = probe_sites.best_site(
        code, address, needed, with_return=with_return, machine=machine.rules
    )
    assert site is not None
    passing = run(machine, code, address, site.address, list(addresses()), to_site=True)
    assert_same(passing, {*needed, *(machine.rules.by_return if with_return else ())})


@pytest.mark.tools
@pytest.mark.parametrize(("series", "name"), test_probe_sites.CASES)
def test_real_functions(series: str, name: str) -> None:
    needed, with_return = test_probe_sites.NEEDED[name]
    with Elf(str(libraries.library(series).path)) as elf:
        function = test_probe_sites.find(elf, name)
        code = elf.code(function)
    assert_site_serves(X86_64, code, function.address, needed, with_return=with_return)


@pytest.mark.heavy
@pytest.mark.parametrize(("series", "name", "with_return"), test_aarch64.CASES)
def test_real_functions_of_aarch64(series: str, name: str, with_return: bool) -> None:
    with Elf(str(libraries.library(series, "arm64").path)) as elf:
        function = test_aarch64.find(elf, name)
        code = elf.code(function)
    needed = test_aarch64.NEEDED[name]
    assert_site_serves(AARCH64, code, function.address, needed, with_return=with_return)


@pytest.mark.tools
@given(
    code=made_up(),
    arguments=st.lists(st.integers(0, 2**64 - 1), min_size=6, max_size=6),
    needed=st.sets(st.sampled_from(instructions.ARGUMENTS)),
    with_return=st.booleans(),
)
def test_made_up_functions(
    code: bytes, arguments: list[int], needed: set[str], with_return: bool
) -> None:
    site = probe_sites.best_site(code, encodings.AT, needed, with_return=with_return)
    if site is not None:
        assert not probe_sites.may_be_replaced(code[site.address - encodings.AT :])
        passing = run(X86_64, code, encodings.AT, site.address, arguments, to_site=False)
        assert_same(passing, needed | ({"rsp"} if with_return else set()))


@pytest.mark.tools
@given(
    pieces=st.lists(st.sampled_from(WORDS), min_size=1, max_size=8),
    arguments=st.lists(st.integers(0, 2**64 - 1), min_size=8, max_size=8),
    needed=st.sets(st.sampled_from(aarch64.ARGUMENTS)),
    with_return=st.booleans(),
)
def test_made_up_functions_of_aarch64(
    pieces: list[bytes], arguments: list[int], needed: set[str], with_return: bool
) -> None:
    code = b"".join(pieces) + words.RET
    rules = AARCH64.rules
    site = probe_sites.best_site(code, words.AT, needed, with_return=with_return, machine=rules)
    if site is not None:
        passing = run(AARCH64, code, words.AT, site.address, arguments, to_site=False)
        assert_same(passing, needed | ({*rules.by_return} if with_return else set()))


@pytest.mark.heavy
@pytest.mark.parametrize("series", test_aarch64.TABLE)
def test_an_aarch64_instruction_changes_no_other_registers(series: str) -> None:
    """Each by itself; but that paciasp signs an address is not seen: unicorn leaves it out."""
    with Elf(str(libraries.library(series, "arm64").path)) as elf:
        functions = {symbol.function for symbol in elf.functions() if symbol.function.size}
        codes = {elf.code(each)[:64] for each in functions}
    encodings_seen = {
        bytes(each.bytes): aarch64.registers_written(each)
        for code in codes
        for each in aarch64.disassemble(code, words.AT)
        if aarch64.is_emulated(each.bytes) is False
    }
    assert len(encodings_seen) > 100
    ran = 0
    for code, told in encodings_seen.items():
        emulator = started(AARCH64, code, words.AT, list(addresses()))
        before = registers(AARCH64, emulator)
        try:
            emulator.emu_start(words.AT, 0, count=1)
        except unicorn.UcError:
            continue  # of memory that is not there
        after = registers(AARCH64, emulator)
        ran += 1
        assert {name for name in before if before[name] != after[name]} <= told
    assert ran > 100
