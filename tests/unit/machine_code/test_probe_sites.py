"""Where probes belong: made-up prologues, and the functions of real libraries against objdump."""

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function
from sslsniff.machine_code import callers, instructions, probe_sites
from sslsniff.machine_code.probe_sites import Cost, Site
from tests import libraries
from tests.unit.machine_code.encodings import (
    AT,
    CALL,
    ENDBR64,
    JE_RET,
    JMP_FAR,
    JMP_RAX,
    JMP_SELF,
    MOV_RBX_RDI,
    MOV_RDI_RAX,
    NOP,
    NOP5,
    PUSH_R12,
    PUSH_RBP,
    RET,
    SUB_RSP,
    TEST_RDI,
    XOR_CL,
    XOR_EDX,
)

ARGUMENTS = ("rdi", "rsi", "rdx", "rcx")


@pytest.mark.parametrize(
    ("encoded", "emulated"),
    [
        (PUSH_RBP, True),
        (PUSH_R12, True),
        (NOP, True),
        (JE_RET, True),
        (b"\x0f\x84\x00\x00\x00\x00", True),
        (JMP_SELF, True),
        (JMP_FAR, True),
        (CALL, True),
        (ENDBR64, False),
        (SUB_RSP, False),
        (RET, False),
        (b"\x5d", False),  # pop
        (b"\x6a\x01", False),  # push $1
        (b"\xff\x75\x00", False),  # push (%rbp)
        (b"\x66\x55", False),  # push %bp
        (b"\x48\x55", False),  # push with a prefix that says nothing
        (b"\x66\xe9\x00\x10", False),  # AMD and Intel differ
        (JMP_RAX, False),
        (b"\x41\x90", False),  # xchg
        (b"\x0f\x1f\x00", False),  # a long nop: newer kernels only
        (b"\xe3\x00", False),  # jrcxz
        (b"\xe9\0\0\0\0", False),  # to the next instruction: a nop that may be replaced
    ],
)
def test_what_the_kernel_emulates(encoded: bytes, emulated: bool) -> None:
    assert probe_sites.is_emulated(encoded) is emulated


@pytest.mark.parametrize(
    ("code", "with_return", "offset", "cost"),
    [
        (PUSH_RBP + RET, True, 0, Cost.EMULATED),
        (ENDBR64 + PUSH_R12 + RET, True, 4, Cost.EMULATED),
        (MOV_RBX_RDI + PUSH_RBP + RET, True, 3, Cost.EMULATED),
        (TEST_RDI + JE_RET + RET, True, 3, Cost.EMULATED),
        (SUB_RSP + PUSH_RBP + RET, True, 0, Cost.STEPPED),
        (SUB_RSP + PUSH_RBP + RET, False, 4, Cost.EMULATED),
        (XOR_EDX + PUSH_RBP + RET, True, 0, Cost.STEPPED),
        (XOR_CL + PUSH_RBP + RET, True, 0, Cost.STEPPED),
        (MOV_RDI_RAX + PUSH_RBP + RET, True, 0, Cost.STEPPED),
        (RET + PUSH_RBP, True, 0, Cost.STEPPED),
        (JMP_RAX + PUSH_RBP, True, 0, Cost.STEPPED),
        # A jump back to the push: it is not once a call.
        (TEST_RDI + PUSH_RBP + b"\x75\xfd" + RET, True, 0, Cost.STEPPED),
        # A jump back into the instruction before it, which ends as another one.
        (ENDBR64 + PUSH_RBP + b"\x74\xfc" + RET, True, 0, Cost.STEPPED),
        (TEST_RDI * 20 + PUSH_RBP + RET, True, 0, Cost.STEPPED),
        # What a kernel may replace by a call is passed.
        (NOP5 + RET, True, 5, Cost.STEPPED),
        (NOP5 * 2 + SUB_RSP + PUSH_RBP + RET, True, 10, Cost.STEPPED),
        (NOP5 + PUSH_RBP + RET, True, 5, Cost.EMULATED),
    ],
)
def test_the_first_cheap_place_where_nothing_changed_is_taken(
    code: bytes, with_return: bool, offset: int, cost: Cost
) -> None:
    found = probe_sites.best_site(code, AT, ARGUMENTS, with_return=with_return)
    assert found == Site(AT + offset, cost)


@pytest.mark.parametrize(
    "code",
    [b"", b"\x06", NOP5, NOP5 + TEST_RDI + b"\x75\xfb", PUSH_RBP + JMP_SELF[:1] + b"\xfd" + RET],
)
def test_there_is_no_place_in_what_is_no_beginning(code: bytes) -> None:
    assert probe_sites.best_site(code, AT, ARGUMENTS, with_return=True) is None


def test_registers_that_are_not_needed_may_change() -> None:
    code = XOR_EDX + PUSH_RBP + RET
    assert probe_sites.best_site(code, AT, ("rdi", "rsi"), with_return=True) == Site(
        AT + 2, Cost.EMULATED
    )


@pytest.mark.tools
@given(code=st.binary(max_size=64), with_return=st.booleans())
def test_arbitrary_bytes_raise_nothing(code: bytes, with_return: bool) -> None:
    found = probe_sites.best_site(code, AT, ARGUMENTS, with_return=with_return)
    starts = {each.address for each in instructions.disassemble(code, AT)}
    assert found is None or found.address in starts


class Expected(NamedTuple):
    """How far after a function's entry the probe belongs, and what a hit costs."""

    offset: int
    cost: Cost


E0, E3, E4, E7, E11 = (Expected(each, Cost.EMULATED) for each in (0, 3, 4, 7, 11))
S0 = Expected(0, Cost.STEPPED)
# Read from objdump -d of Debian's builds. The first two are the functions without symbols that
# SSL_read_ex and SSL_write_ex (since 3.3: SSL_write_ex2) call.
TABLE = {
    "1.1.1": {"read": E0, "write": E0, "SSL_read": S0, "SSL_new": E0, "SSL_free": E3,
              "SSL_clear": E0, "SSL_ctrl": E3},
    "3.0": {"read": E0, "write": E0, "SSL_read": S0, "SSL_new": E0, "SSL_free": E3,
            "SSL_clear": E0, "SSL_ctrl": E0, "SSL_sendfile": E0},
    "3.5": {"read": E4, "write": E4, "SSL_read": S0, "SSL_new": S0, "SSL_free": E7,
            "SSL_clear": E11, "SSL_ctrl": E7, "SSL_sendfile": E4},
    "3.6": {"read": S0, "write": S0, "SSL_read": S0, "SSL_new": S0, "SSL_free": E7,
            "SSL_clear": E11, "SSL_ctrl": E7, "SSL_sendfile": S0},
    "4.0": {"read": S0, "write": S0, "SSL_read": S0, "SSL_new": S0, "SSL_free": E7,
            "SSL_clear": E11, "SSL_ctrl": E7, "SSL_sendfile": S0},
    "boringssl": {"SSL_read": E4, "SSL_write": E4, "SSL_new": E4, "SSL_free": E7},
}  # fmt: skip
NEEDED = {
    "read": (("rdi", "rsi", "rcx"), True),
    "write": (("rdi", "rsi", "rcx", "r8"), True),
    "SSL_read": (("rdi", "rsi"), True),
    "SSL_write": (("rdi", "rsi"), True),
    "SSL_new": ((), True),
    "SSL_free": (("rdi",), False),
    "SSL_clear": (("rdi",), False),
    "SSL_ctrl": (("rdi", "rsi", "rcx"), False),
    "SSL_sendfile": (("rdi",), True),
}
CASES = [(series, name) for series, row in TABLE.items() for name in row]


def find(elf: Elf, name: str) -> Function:
    if name not in ("read", "write"):
        function = elf.function(name)
        assert function is not None
        return function
    names = (f"SSL_{name}_ex2", f"SSL_{name}_ex")
    caller = next(found for each in names if (found := elf.function(each)))
    everything = {"rdi", "rsi", "rdx", "rcx"}
    [callee] = [
        address
        for address, kept in callers.passed_arguments(elf.code(caller), caller.address).items()
        if kept >= everything
    ]
    inner = elf.function_at(callee)
    assert inner is not None
    assert callers.arguments(elf.code(inner), callee) >= everything
    return inner


@pytest.mark.tools
@pytest.mark.parametrize(("series", "name"), CASES)
def test_real_functions(series: str, name: str) -> None:
    path = libraries.library(series).path
    registers, with_return = NEEDED[name]
    with Elf(str(path)) as elf:
        function = find(elf, name)
        site = probe_sites.best_site(
            elf.code(function), function.address, registers, with_return=with_return
        )
    assert site is not None
    assert (site.address - function.address, site.cost) == TABLE[series][name]
    skipped, there = disassembled(path, function, site.address)
    changed = {register for line in skipped for register in changed_by(line)}
    assert changed.isdisjoint(registers)
    assert not (with_return and "rsp" in changed)
    cheap = re.match(r"push +%r|j\w+ +[0-9a-f]|nop$", there) is not None
    assert cheap is (site.cost is Cost.EMULATED)


def disassembled(path: Path, function: Function, site: int) -> tuple[list[str], str]:
    """Return what objdump shows before a site in its function, and at it."""
    end = function.address + function.size
    places = (f"--start-address={function.address:#x}", f"--stop-address={end:#x}")
    shown = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", *places, path],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    lines = {
        int(address, 16): text.split("#")[0].split("<")[0].strip()
        for address, text in re.findall(r"^ +([0-9a-f]+):\t(.*)$", shown, re.MULTILINE)
    }
    jumps = {int(target, 16) for target in re.findall(r"\tj\w+ +([0-9a-f]+)", shown)}
    assert site not in jumps
    return [text for address, text in lines.items() if address < site], lines[site]


def changed_by(line: str) -> set[str]:
    """Return the register that an instruction changes, as objdump shows it: the last one named.

    Only for the few kinds that are before sites.
    """
    mnemonic, _, operands = line.partition(" ")
    if mnemonic in {"endbr64", "test", "cmp", "cmpq"}:
        return set()
    assert mnemonic in {"mov", "lea", "xor"}, line
    last = re.search(r"%(\w+)$", operands)
    assert last, line
    whole = re.sub(r"^e", "r", last[1])
    return {re.sub(r"^(r\d+)d$", r"\1", whole)}


JUMPS = (
    b"\xeb\xfe",
    b"\x74\x80",
    b"\xe3\xf0",
    b"\xe9\xe0\xff\xff\xff",
    b"\x0f\x84\x70\xff\xff\xff",
    b"\x66\xe9\xf0\xff",
    b"\x66\x41\x0f\x84\xf0\xff",
    b"\x2e\xeb\xf0",
    b"\x48\xb8\xeb\xfe\xeb\xfe\xeb\xfe\xeb\xfe",  # a number with bytes as of jumps
)


@pytest.mark.tools
@given(
    code=st.lists(st.one_of(st.sampled_from(JUMPS), st.binary(max_size=8)), max_size=40),
    size=st.integers(1, 64),
)
@example(code=[NOP * 126, b"\xeb\x80"], size=1)  # the furthest that two bytes lead back
@example(code=[NOP * 127, b"\xeb\x80"], size=2)
@example(code=[NOP * 300, b"\xe9\xcf\xfe\xff\xff"], size=1)
def test_jumps_to_a_beginning_are_those_among_all_jumps(code: list[bytes], size: int) -> None:
    found = instructions.jump_targets_before(AT + size, b"".join(code), AT)
    everything = instructions.jump_targets(b"".join(code), AT, ("j",))
    assert found == {each for each in everything if AT <= each < AT + size}


def test_jumps_back_are_found_where_they_just_reach() -> None:
    for jump, distance in ((b"\xeb\x80", 126), (b"\xe9\xcf\xfe\xff\xff", 300)):
        assert instructions.jump_targets_before(AT + 1, NOP * distance + jump, AT) == {AT}
        assert instructions.jump_targets_before(AT + 1, NOP * (distance + 1) + jump, AT) == set()
