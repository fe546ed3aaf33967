"""Where functions return, and spans within them that are cheap: made-up ones and real libraries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff import instructions, returns
from sslsniff.elf import Elf
from sslsniff.returns import Span
from tests import libraries
from tests.unit.encodings import (
    AT,
    CALL,
    ENDBR64,
    JMP_RAX,
    JMP_SELF,
    MOV_RDI_RAX,
    NOP,
    PUSH_RBP,
    RET,
    SUB_RSP,
    TEST_RDI,
    XOR_EDX,
)


@pytest.mark.parametrize(
    ("code", "offsets"),
    [
        (RET, [0]),
        (TEST_RDI + b"\x74\x01" + RET + XOR_EDX + RET, [5, 8]),
        (b"\xf3\xc3", [0]),
        (JMP_SELF, None),  # it never returns
        (TEST_RDI + b"\x74\x7f" + RET, None),  # out of the function
        (TEST_RDI + JMP_RAX + RET, None),
        (TEST_RDI + b"\x74\x02" + RET + XOR_EDX + RET, None),  # into an instruction
        (RET + b"\x06", None),  # not all of it is code
    ],
)
def test_return_instructions(code: bytes, offsets: list[int] | None) -> None:
    found = returns.return_sites(code, AT, lambda *_: None)
    assert found == (None if offsets is None else [AT + each for each in offsets])


LEA_TABLE = b"\x48\x8d\x05\xf9\x0f\x00\x00"  # lea 0x1000 behind the function, rax
SWITCH = LEA_TABLE + b"\x48\x63\x0c\x88" + b"\x48\x01\xc1" + b"\xff\xe1"
SWITCH_TABLE = AT + 0x1000


@pytest.mark.parametrize(
    ("code", "case", "offsets"),
    [
        (SWITCH + RET, len(SWITCH), [16]),
        (SWITCH + RET, 0, None),  # a call of itself
        (SWITCH + RET, 1, None),  # into an instruction
        (SWITCH + RET, 0x100, None),  # a table of functions
        (LEA_TABLE + SWITCH[7:].replace(b"\x0c\x88", b"\x0c\xc8") + RET, 16, None),  # of 8 bytes
        (NOP * 7 + SWITCH[7:] + RET, 16, None),  # what table?
    ],
)
def test_a_switch_does_not_lead_out(code: bytes, case: int, offsets: list[int] | None) -> None:
    def read(address: int, size: int) -> bytes | None:
        assert (address, size) == (SWITCH_TABLE, 4)
        return (AT + case - SWITCH_TABLE).to_bytes(4, "little", signed=True)

    found = returns.return_sites(code, AT, read)
    assert found == (None if offsets is None else [AT + each for each in offsets])


@given(code=st.binary(max_size=64))
def test_arbitrary_bytes_raise_nothing(code: bytes) -> None:
    starts = {each.address for each in instructions.disassemble(code, AT)}
    found = returns.return_sites(code, AT, lambda _, size: code[:size].ljust(size))
    assert set(found or ()) <= starts
    span = returns.emulated_span(code, AT, ("rdi",))
    assert span is None or {span.enter, *span.leaves} <= starts


ADD_RSP, POP_RBP, XOR_EAX = b"\x48\x83\xc4\x18", b"\x5d", b"\x31\xc0"
JS, JNE = b"\x78", b"\x75"
# What GCC makes: a frame, a look at an argument, and a check that ends in a call of no return.
BEGIN = ENDBR64 + SUB_RSP + TEST_RDI + JS + b"\x0f"
MIDDLE = CALL + TEST_RDI
END = JNE + b"\x05" + ADD_RSP + RET + CALL
CHECKED = BEGIN + MIDDLE + END
SPAN = Span(AT + 11, (AT + 21,))


@pytest.mark.parametrize(
    ("code", "span"),
    [
        (CHECKED, SPAN),
        (BEGIN + MIDDLE + END.replace(RET, XOR_EDX + RET).replace(b"\x05", b"\x07"), SPAN),
        # The result is made only behind it.
        (BEGIN + MIDDLE + END.replace(RET, XOR_EAX + RET).replace(b"\x05", b"\x07"), None),
        # What it jumps to goes on.
        (CHECKED + RET, None),
        (CHECKED + JMP_SELF, None),
        (CHECKED + NOP, None),
        # Another stack pointer at its end than at its beginning, or none that is known.
        (PUSH_RBP + SUB_RSP + MIDDLE + JNE + b"\x06" + ADD_RSP + POP_RBP + RET + CALL, None),
        (CHECKED.replace(ADD_RSP, b"\x48\x89\xec" + NOP), None),  # mov rbp, rsp
        # A way to the return that does not pass it.
        (BEGIN.replace(b"\x0f", b"\x0a") + MIDDLE + END, None),
        # No place at its beginning: the argument is gone, or there is none.
        (ENDBR64 + MOV_RDI_RAX + CHECKED[4:], None),
        (SUB_RSP + ADD_RSP + RET, None),
        # A jump to anywhere, and no return at all.
        (BEGIN + MIDDLE + END[:-5] + JMP_RAX + NOP * 3 + CALL, None),
        (SUB_RSP + NOP + JMP_SELF, None),
        # All of it in between two pushes and pops.
        (SUB_RSP + NOP + CALL + NOP + ADD_RSP + RET, Span(AT + 4, (AT + 10,))),
        (NOP + CALL + PUSH_RBP + POP_RBP + NOP + RET, Span(AT, (AT + 8,))),
        (CHECKED + b"\x06", None),
    ],
)
def test_a_span_is_between_emulated_instructions(code: bytes, span: Span | None) -> None:
    assert returns.emulated_span(code, AT, ("rdi", "rsi")) == span


# Read from objdump -d of Debian's builds: the jump on a negative size, or on a null object, and
# that of the stack protector.
SPANS = {
    "1.1.1": {"SSL_read": (22, 55), "SSL_write": (22, 55)},
    "3.0": {"SSL_read": (22, 56), "SSL_write": (22, 56)},
    "3.5": {"SSL_read": (26, 60), "SSL_write": (26, 62)},
    "3.6": {"SSL_read": (26, 58), "SSL_write": (26, 60)},
    "4.0": {"SSL_read": (28, 89), "SSL_write": (28, 91)},
}
CASES = [(series, name) for series, row in SPANS.items() for name in row]


@pytest.mark.parametrize(("series", "name"), CASES)
def test_spans_of_real_functions(series: str, name: str) -> None:
    with Elf(str(libraries.library(series).path)) as elf:
        function = elf.function(name)
        assert function is not None
        span = returns.emulated_span(elf.code(function), function.address, ("rdi", "rsi"))
    enter, leave = SPANS[series][name]
    assert span == Span(function.address + enter, (function.address + leave,))
