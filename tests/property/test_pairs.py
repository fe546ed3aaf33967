"""Cheap places see what the entry and the return of a call would, and each once: by emulation."""

import contextlib
import itertools
import random
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
import unicorn
from hypothesis import example, given
from hypothesis import strategies as st
from unicorn import x86_const

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function
from sslsniff.machine_code.call_steps import FunctionBody
from sslsniff.machine_code.conventions import Signature
from sslsniff.machine_code.data_flow import Flow
from sslsniff.machine_code.function_code import Code
from sslsniff.machine_code.instructions import ARGUMENTS
from sslsniff.machine_code.known_values import Argument
from sslsniff.machine_code.operations import OperationKind
from sslsniff.machine_code.probe_pairs import Leave, Needs, Pair, find_pair
from sslsniff.matching.handed_calls import handed_calls
from tests import libraries
from tests.property.test_sites import BACK, DATA, PAGE, STACK, X86_64, stack_at_call, started
from tests.unit.machine_code import encodings, test_call_chains
from tests.unit.machine_code.encodings import AT

MOST_INSTRUCTIONS = 2000
RUNS = 200
FLAGS, RIP = x86_const.UC_X86_REG_EFLAGS, x86_const.UC_X86_REG_RIP
CHANGED_BY_CALLS = ("rcx", "rdx", "rsi", "rdi", "r8", "r9")
# What calls return, and what is in memory: a little of each kind.
RESULTS = (1, 0, -1, 2, 0x4000, DATA + 8 * PAGE)
SMALL = (0, 1, 0x17, 100, 5000)
WORDS = (0, 1, 2, 3, 4, 8, 0x17, 0x4001, -1, DATA + 8 * PAGE, DATA + 9 * PAGE)


def register(name: str) -> int:
    return int(getattr(x86_const, f"UC_X86_REG_{name.upper()}"))


def holds(condition: int | None, flags: int) -> bool:
    """Say whether a condition holds (Intel SDM, volume 1, appendix B)."""
    if condition is None:
        return True
    carry, parity, zero, sign, overflow = (bool(flags >> bit & 1) for bit in (0, 2, 6, 7, 11))
    less = sign != overflow
    tests = (overflow, carry, zero, carry or zero, sign, parity, less, less or zero)
    return tests[condition >> 1] != bool(condition & 1)


@dataclass
class Run:
    """What was seen of a call; ``result`` is None if it did not return.

    ``left`` are the results seen at ways out, each with what is done after it.
    """

    arguments: Mapping[str, int]
    entered: list[dict[str, int]] = field(default_factory=list)
    left: list[tuple[int | None, list[str]]] = field(default_factory=list)
    result: int | None = None


class Emulated:
    """A function that is called again and again, and whose own calls end as choices say.

    ``wanted`` are the registers of arguments that point somewhere; the others are numbers, too.
    """

    def __init__(self, code: bytes, address: int, places: Pair, wanted: Mapping[str, str]) -> None:
        self._code = Code(code, address)
        self._enter, self._leaves = places
        self._wanted = wanted
        self._machine = started(X86_64, code, address, [])
        self._machine.mem_map(0, PAGE)  # fs is 0: there is what the stack protector compares
        self._machine.hook_add(unicorn.UC_HOOK_CODE, self._executed)
        self._machine.hook_add(unicorn.UC_HOOK_MEM_WRITE, self._stored)
        self._is_over = False

    def call(self, choices: random.Random) -> Run:
        """Call it, with a choice of what is in memory and of what its calls return."""
        self._choices = choices
        # A few at a time: else hardly a call gets through all that the function looks at.
        self._words = choices.choices(WORDS, k=choices.randint(1, 4))
        self._results = choices.choices(RESULTS, k=choices.randint(1, 3))
        places = {name: DATA + PAGE * number for number, name in enumerate(ARGUMENTS, 1)}
        others = places.keys() - {*self._wanted.values()}
        places |= {name: choices.choice((places[name], *SMALL)) for name in sorted(others)}
        self.run = Run(places)
        self._machine.mem_write(DATA, self._page() * 16)
        stack = stack_at_call(X86_64)
        self._machine.mem_write(stack, BACK.to_bytes(8, "little"))
        for name, value in {**places, "rsp": stack, "rax": 0}.items():
            self._machine.reg_write(register(name), value)
        self._is_over = False
        with contextlib.suppress(unicorn.UcError):
            self._machine.emu_start(self._code.address, BACK, count=MOST_INSTRUCTIONS)
        if self._machine.reg_read(RIP) == BACK and not self._is_over:
            self.run.result = _int(self._machine.reg_read(register("rax")))
        return self.run

    def _page(self) -> bytes:
        return struct.pack(f"<{PAGE // 8}q", *self._choices.choices(self._words, k=PAGE // 8))

    def _executed(self, _: object, address: int, *__: object) -> None:
        operation = self._code.operations.get(address)
        if operation is None:
            return  # where it returns to
        if address == self._enter.address:
            assert self._stack(self._enter.depth) == stack_at_call(X86_64)
            registers = self._enter.registers.items()
            seen = {name: self._machine.reg_read(register(each)) for name, each in registers}
            self.run.entered.append(seen)
        for leave in self._leaves:
            if leave.address == address and holds(leave.condition, self._machine.reg_read(FLAGS)):
                assert self._stack(leave.depth) == stack_at_call(X86_64)
                self.run.left.append((self._result(leave), []))
        if operation.kind is OperationKind.CALL:
            self._call(self._code.is_fatal(operation), operation.following)

    def _stack(self, depth: int) -> int:
        return int(self._machine.reg_read(register("rsp"))) + depth

    def _result(self, leave: Leave) -> int | None:
        if isinstance(leave.result, str):
            return _int(self._machine.reg_read(register(leave.result)))
        if leave.result is None:
            return None
        data = self._machine.mem_read(stack_at_call(X86_64) + leave.result, 4)
        return int(struct.unpack("<i", data)[0])

    def _call(self, is_fatal: bool, following: int) -> None:
        if is_fatal:
            self._is_over = True
            self._machine.emu_stop()
            return
        for _, behind in self.run.left:
            behind.append("a call")
        told = self._machine.reg_read(register("rsi"))
        if STACK <= told < stack_at_call(X86_64):  # it writes where it was told to
            self._machine.mem_write(told, self._page()[:16])
        self._machine.reg_write(register("rax"), self._choices.choice(self._results))
        for name in CHANGED_BY_CALLS:
            self._machine.reg_write(register(name), self._choices.choice(WORDS))
        self._machine.reg_write(FLAGS, self._choices.randrange(1 << 12) & 0x8D5 | 2)
        self._machine.reg_write(RIP, following)

    def _stored(self, _: object, __: int, address: int, *___: object) -> None:
        """Note stores where arguments other than the object point to."""
        if DATA + 2 * PAGE <= address < DATA + 8 * PAGE:
            for _, behind in self.run.left:
                behind.append(f"a store at {address:#x}")


def _int(value: int) -> int:
    return (value & 0xFFFFFFFF) - ((value & 0x80000000) << 1)


def assert_serves(run: Run, wanted: Mapping[str, str]) -> None:
    """The places saw the call if it succeeded: arguments at the way in, the result at one out."""
    assert len(run.entered) <= 1
    for entered in run.entered:
        assert entered == {name: run.arguments[each] for name, each in wanted.items()}
    if run.result is None:
        return
    results = [result for result, _ in run.left]
    if run.result > 0:
        assert run.entered
        assert results == [run.result]
        assert run.left[0][1] == []
    else:
        assert len(results) == 1 if run.entered else len(results) <= 1
        assert all(result is None or result <= 0 for result in results)


MOV_EBX_EAX, MOV_EAX_EBX, MOV_EAX_1 = b"\x89\xc3", b"\x89\xd8", b"\xb8\x01\x00\x00\x00"
OR_EAX_1, CMOVS = b"\x83\xc8\xff", b"\x0f\x48\xc2"
TEST_EAX, CMP_EAX_1, TEST_EBX = b"\x85\xc0", b"\x83\xf8\xff", b"\x85\xdb"
STORE_EAX, LOAD_EAX = b"\x89\x44\x24\x08", b"\x8b\x44\x24\x08"
STORE_BEHIND_COUNT, STORE_IN_OBJECT = b"\x48\x89\x01", b"\x89\x47\x10"
LEA_RSI_STACK, MOV_R12_RDI, MOV_RDI_R12 = b"\x48\x8d\x34\x24", b"\x49\x89\xfc", b"\x4c\x89\xe7"
MOVUPS_STACK, MOVZX_EAX_AL = b"\x0f\x11\x44\x24\x08", b"\x0f\xb6\xc0"
CDQE = b"\x48\x98"
PIECES = [
    *(
        MOV_EBX_EAX,
        MOV_EAX_EBX,
        MOV_EAX_1,
        OR_EAX_1,
        encodings.XOR_EAX,
        CMOVS,
        TEST_EAX,
        CMP_EAX_1,
        TEST_EBX,
    ),
    *(STORE_EAX, LOAD_EAX, STORE_BEHIND_COUNT, STORE_IN_OBJECT, LEA_RSI_STACK),
    *(MOVUPS_STACK, MOVZX_EAX_AL, CDQE, b"\x48" + TEST_EAX),
    *(MOV_R12_RDI, MOV_RDI_R12, encodings.MOV_RDI_RAX, encodings.TEST_RDI, encodings.NOP),
]
TAIL = [
    MOV_EAX_EBX,
    MOV_EAX_1,
    CDQE,
    OR_EAX_1,
    CMOVS,
    STORE_EAX,
    LOAD_EAX,
    STORE_BEHIND_COUNT,
    TEST_EAX,
]
LEFT_BY = {
    encodings.PUSH_RBP: encodings.POP_RBP,
    encodings.PUSH_R12: encodings.POP_R12,
    encodings.SUB_RSP: encodings.ADD_RSP,
}
JUMPS = [bytes([first, 0]) for first in (0x74, 0x75, 0x78, 0x7E, 0x7F, 0xEB)]


@st.composite
def made_up(draw: st.DrawFn) -> bytes:
    """Functions with a frame and calls; their jumps lead on to some instruction of theirs."""
    pushes = draw(st.sampled_from([(), (encodings.PUSH_RBP, encodings.PUSH_R12)]))
    frame = [encodings.ENDBR64, *pushes, encodings.SUB_RSP]
    end = [LEFT_BY[each] for each in reversed(frame[1:])]
    inner = draw(st.lists(st.sampled_from(PIECES), max_size=2))
    for _ in range(draw(st.integers(1, 4))):
        inner += draw(st.lists(st.sampled_from(PIECES + JUMPS), max_size=4))
        inner += [draw(st.sampled_from([encodings.CALL, TEST_EAX, CMP_EAX_1]))]
        inner += [draw(st.sampled_from([*JUMPS, encodings.NOP]))]
    inner += draw(st.lists(st.sampled_from(TAIL), max_size=2))
    pieces = [*frame, *inner, *end]
    ends = list(itertools.accumulate(map(len, pieces)))
    first, last = len(frame), len(frame) + len(inner)
    made = []
    for index, (piece, behind) in enumerate(zip(pieces, ends, strict=True)):
        if piece in JUMPS:
            to = ends[draw(st.integers(max(first, index - 2), last - 1))]
            piece = piece[:1] + struct.pack("b", to - behind)
        made.append(piece)
    return b"".join(made) + encodings.RET


COUNTED = {"object": "rdi", "buffer": "rsi", "count_pointer": "rcx"}


def needs(wanted: Mapping[str, str]) -> Needs:
    values = {name: Argument(each) for name, each in wanted.items()}
    return Needs(values, Argument(wanted["object"]))


JUMP_TO_NEXT = bytes.fromhex(
    "f30f1efa554154 4883ec18 89c3 e800100000 7400 7407 e800100000 74f9 4883c418 415c5d c3"
)


@pytest.mark.tools
@given(code=made_up(), seed=st.integers(0, 1 << 32))
@example(code=JUMP_TO_NEXT, seed=0)
def test_made_up_functions(code: bytes, seed: int) -> None:
    pair = find_pair(Flow(Code(code, AT)), needs(COUNTED))
    if pair is not None:
        function = Emulated(code, AT, pair, COUNTED)
        for number in range(8):
            assert_serves(function.call(random.Random(seed + number)), COUNTED)


def _inner_of_gnutls(elf: Elf) -> tuple[Function, Signature]:
    """Return the function from which ``gnutls_record_recv`` gets application data."""
    outer = elf.function("gnutls_record_recv_seq")
    assert outer is not None
    [(address, signature)] = handed_calls(elf, outer, Signature("rdi", "rsi"), 23)
    inner = elf.function_at(address)
    assert inner is not None
    return inner, signature


@pytest.mark.tools
@pytest.mark.parametrize("series", ["gnutls-3.7.1", "gnutls-3.7.9"])
def test_reads_of_gnutls(series: str) -> None:
    """As above; 3.8 has no cheap places."""
    with Elf(str(libraries.library(series).path)) as elf:
        inner, signature = _inner_of_gnutls(elf)
        code = elf.code(inner)
    pair = FunctionBody(code, inner.address).pair(signature)
    assert pair is not None
    assert signature.kind is not None
    pointers = {"object": signature.object, "buffer": signature.buffer}
    function = Emulated(code, inner.address, pair, pointers)
    runs = [function.call(random.Random(seed)) for seed in range(5 * RUNS)]
    for run in runs:
        assert_serves(run, {**pointers, "kind": signature.kind[0]})
    results = [run.result for run in runs if run.result is not None]
    assert min(results) <= 0 < max(results)


@pytest.mark.slow
@pytest.mark.parametrize(
    "series",
    [
        pytest.param(each, marks=[pytest.mark.heavy] if each == "Node.js" else [])
        for each in test_call_chains.LIBRARIES
    ],
)
def test_inner_functions(series: str) -> None:
    """Those that the probes of a library are in, with whatever they find and are told."""
    path = test_call_chains.LIBRARIES[series]()
    with Elf(str(path)) as elf:
        links = test_call_chains.links(elf)
        codes = [elf.code(each.function) for each in links]
    for link, code in zip(links, codes, strict=True):
        if link.pair is None:
            continue
        named = {**link.signature._asdict(), "kind": (link.signature.kind or (None,))[0]}
        wanted = {name: each for name, each in named.items() if each is not None}
        function = Emulated(code, link.function.address, link.pair, wanted)
        runs = [function.call(random.Random(seed)) for seed in range(RUNS)]
        for run in runs:
            assert_serves(run, wanted)
        results = [run.result for run in runs if run.result is not None]
        assert min(results) <= 0
        assert max(results) > 0 or not link.is_usual
