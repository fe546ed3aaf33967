"""Cheap places in one function: made-up ones, and real libraries against objdump."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.elf.elf_file import Elf
from sslsniff.machine_code import instructions
from sslsniff.machine_code.data_flow import Flow
from sslsniff.machine_code.function_code import Code
from sslsniff.machine_code.known_values import Argument
from sslsniff.machine_code.probe_pairs import Leave, Needs, arguments_in_place, find_pair
from tests import libraries
from tests.unit.machine_code.encodings import (
    ADD_RSP,
    AT,
    CALL,
    ENDBR64,
    JMP_RAX,
    JMP_SELF,
    MOV_RBX_RDI,
    MOV_RDI_RAX,
    NOP,
    POP_RBP,
    PUSH_RBP,
    RET,
    SUB_RSP,
    TEST_RDI,
    XOR_EAX,
    XOR_EDX,
)

JS, JNE, JE = b"\x78", b"\x75", b"\x74"
TEST_EAX, OR_EAX_1, MOV_EAX_EBX, MOV_EBX_EAX = (
    b"\x85\xc0",
    b"\x83\xc8\xff",
    b"\x89\xd8",
    b"\x89\xc3",
)
STORE_EAX, LOAD_EAX, ZERO_SLOT = (
    b"\x89\x44\x24\x08",
    b"\x8b\x44\x24\x08",
    b"\xc7\x44\x24\x08" + bytes(4),
)
MOV_RCX_RAX, LEA_RSI_STACK = b"\x48\x89\x01", b"\x48\x8d\x34\x24"
Found = tuple[int, list[tuple[int, int | None, str | int | None]]]
"""The way in, and the ways out with condition and result."""


def found(code: bytes, needs: Needs) -> Found | None:
    pair = find_pair(Flow(Code(code, AT)), needs)
    return pair and (pair.enter.address - AT, shown(pair.leaves))


def shown(leaves: tuple[Leave, ...]) -> list[tuple[int, int | None, str | int | None]]:
    return sorted((each.address - AT, each.condition, each.result) for each in leaves)


PLAIN = arguments_in_place(("rdi", "rsi"), is_plain=True)
IN_PLACE = arguments_in_place(("rdi", "rsi"), is_plain=False)
# What GCC makes: a frame, a look at an argument, and a check that ends in a call of no return.
BEGIN = ENDBR64 + SUB_RSP + TEST_RDI + JS + b"\x0f"
LONGER = BEGIN[:-1] + b"\x11"
MIDDLE = CALL + TEST_RDI
END = JNE + b"\x05" + ADD_RSP + RET + CALL
CHECKED = BEGIN + MIDDLE + END
PLACES = (11, [(21, None, "rax")])


@pytest.mark.parametrize(
    ("code", "places"),
    [
        (CHECKED, PLACES),
        (LONGER + MIDDLE + END.replace(RET, XOR_EDX + RET).replace(b"\x05", b"\x07"), PLACES),
        # Its result is not that of the call.
        (LONGER + MIDDLE + END.replace(RET, XOR_EAX + RET).replace(b"\x05", b"\x07"), None),
        # What it jumps to continues, and may come back.
        (CHECKED + RET, None),
        (CHECKED + JMP_SELF, PLACES),
        (CHECKED + NOP, None),
        # Behind a push: only there is the stack pointer that of the way out.
        (
            PUSH_RBP + SUB_RSP + MIDDLE + JNE + b"\x06" + ADD_RSP + POP_RBP + RET + CALL,
            (5, [(13, None, "rax")]),
        ),
        (CHECKED.replace(ADD_RSP, b"\x48\x89\xec" + NOP), PLACES),  # mov rbp, rsp
        # A way to the return that does not pass it.
        (BEGIN.replace(b"\x0f", b"\x0a") + MIDDLE + END, None),
        # No place at its beginning: the argument is gone, or there is none.
        (ENDBR64 + MOV_RDI_RAX + CHECKED[4:], None),
        (SUB_RSP + ADD_RSP + RET, None),
        # A jump to anywhere, and no return at all.
        (BEGIN + MIDDLE + END[:-5] + JMP_RAX + NOP * 3 + CALL, None),
        (SUB_RSP + NOP + JMP_SELF, None),
        # All of it in between two pushes and pops.
        (SUB_RSP + NOP + CALL + NOP + ADD_RSP + RET, (4, [(10, None, "rax")])),
        (NOP + CALL + PUSH_RBP + POP_RBP + NOP + RET, (0, [(8, None, "rax")])),
        (CHECKED + b"\x06", None),
    ],
)
def test_plain_pairs(code: bytes, places: Found | None) -> None:
    """Both stack pointers are the same, and the result is where it will be returned."""
    assert found(code, PLAIN) == places


@pytest.mark.parametrize(
    ("code", "places"),
    [
        (PUSH_RBP + SUB_RSP + MIDDLE + JNE + b"\x06" + ADD_RSP + POP_RBP + RET + CALL,
         (0, [(13, None, "rax")])),
        # The result comes from another register, or from the stack.
        (PUSH_RBP + CALL + MOV_EBX_EAX + NOP + XOR_EAX + MOV_EAX_EBX + POP_RBP + RET,
         (0, [(8, None, "rbx")])),
        (PUSH_RBP + SUB_RSP + CALL + STORE_EAX + NOP + LOAD_EAX + ADD_RSP + POP_RBP + RET,
         (0, [(14, None, -24)])),
        # Jumps that are a way out on one side only, and with another result on each.
        (NOP + CALL + TEST_EAX + JE + b"\x01" + RET + CALL + NOP + RET,
         (0, [(8, 5, "rax"), (16, None, "rax")])),
        (PUSH_RBP + SUB_RSP + CALL + STORE_EAX + TEST_EAX + JE + b"\x04" + LOAD_EAX + ADD_RSP
         + POP_RBP + RET, (0, [(16, 4, "rax"), (16, 5, -24)])),
        # It fails on this way: calls may still follow, to tell of it.
        (PUSH_RBP + CALL + TEST_EAX + JE + b"\x02" + POP_RBP + RET + CALL + OR_EAX_1 + POP_RBP
         + RET, (0, [(8, 5, "rax"), (12, None, None)])),
        # What follows may still change the result, or store it somewhere.
        (NOP + CALL + NOP + CALL + RET, None),
        (NOP + CALL + NOP + MOV_RCX_RAX + RET, None),
        (NOP + CALL + NOP + b"\x89\x07" + RET, None),  # where rdi points to by then
        (NOP + MOV_RBX_RDI + CALL + NOP + b"\x89\x03" + RET, (0, [(9, None, "rax")])),
        (NOP + SUB_RSP + ZERO_SLOT + LEA_RSI_STACK + NOP + CALL + LOAD_EAX + ADD_RSP + RET, None),
        # A loop over the way in.
        (NOP + CALL + TEST_EAX + JE + b"\xf6" + NOP + RET, None),
    ],
)  # fmt: skip
def test_pairs(code: bytes, places: Found | None) -> None:
    assert found(code, IN_PLACE) == places


def test_a_value_may_be_anywhere() -> None:
    """At a way in after others: the first is passed by calls that succeed, too."""
    code = MOV_RBX_RDI + XOR_EAX + MOV_RDI_RAX + CALL + NOP + RET
    needs = Needs({"object": Argument("rdi")}, Argument("rdi"))
    pair = find_pair(Flow(Code(code, AT)), needs)
    assert pair is not None
    assert pair.enter.registers == {"object": "rbx"}
    assert found(code, needs._replace(in_place=True)) is None


@pytest.mark.tools
@given(code=st.binary(max_size=64))
def test_arbitrary_bytes_raise_nothing(code: bytes) -> None:
    starts = {each.address for each in instructions.disassemble(code, AT)}
    pair = find_pair(Flow(Code(code, AT)), IN_PLACE)
    assert pair is None or {pair.enter.address, *(each.address for each in pair.leaves)} <= starts


# Read from objdump -d of Debian's builds: the jump on a negative size, or on a null object, and
# that of the stack protector.
PLAIN_PLACES = {
    "1.1.1": {"SSL_read": (22, 55), "SSL_write": (22, 55)},
    "3.0": {"SSL_read": (22, 56), "SSL_write": (22, 56)},
    "3.5": {"SSL_read": (26, 60), "SSL_write": (26, 62)},
    "3.6": {"SSL_read": (26, 58), "SSL_write": (26, 60)},
    "4.0": {"SSL_read": (28, 89), "SSL_write": (28, 91)},
}


@pytest.mark.tools
@pytest.mark.parametrize(
    ("series", "name"), [(series, name) for series, row in PLAIN_PLACES.items() for name in row]
)
def test_plain_pairs_of_real_functions(series: str, name: str) -> None:
    with Elf(str(libraries.library(series).path)) as elf:
        function = elf.function(name)
        assert function is not None
        pair = find_pair(Flow(Code(elf.code(function), function.address)), PLAIN)
    assert pair is not None
    enter, leave = PLAIN_PLACES[series][name]
    assert pair.enter.address - function.address == enter
    assert [each.address - function.address for each in pair.leaves] == [leave]
