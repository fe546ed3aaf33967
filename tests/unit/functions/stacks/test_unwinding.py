"""Walking copied stacks: where it ends, and what it says then."""

import struct

import pytest

from sslsniff.elf.call_frames import CallFrame, RegisterOffset, RegisterRule, RuleKind
from sslsniff.functions.stacks.frame_expressions import run_expression
from sslsniff.functions.stacks.stack_trace import MOST_FRAMES, MissingFrames
from sslsniff.functions.stacks.unwinding import CopiedStack, UnwoundFrame, unwind

BASE = 0x7000
PUSHED = CallFrame(RegisterOffset(7, 16), {16: RegisterRule(RuleKind.OFFSET, -8)}, 16, False)
OUTERMOST = PUSHED._replace(rules={16: RegisterRule(RuleKind.UNDEFINED)})
SIGNAL = PUSHED._replace(is_signal=True)


def stack(*words: int, is_whole: bool = True) -> CopiedStack:
    registers = [0] * 17
    registers[7], registers[16] = BASE, 100
    return CopiedStack(tuple(registers), struct.pack(f"<{len(words)}Q", *words), is_whole)


def test_it_ends_at_the_outermost_function() -> None:
    frames, missing = unwind(stack(0, 200, 0, 300), lambda at: OUTERMOST if at == 299 else PUSHED)
    assert frames == [
        UnwoundFrame(100, False),
        UnwoundFrame(200, True),
        UnwoundFrame(300, True),
    ]
    assert missing is None


def test_it_ends_where_there_is_no_return_address() -> None:
    assert unwind(stack(0, 200, 0, 0), lambda at: PUSHED)[1] is None


@pytest.mark.parametrize(
    ("copied", "missing"),
    [
        (stack(0, 200), MissingFrames.UNKNOWN),
        (stack(0, 200, is_whole=False), MissingFrames.TOO_DEEP),
        (stack(*[200] * 2 * MOST_FRAMES), MissingFrames.TOO_MANY),
    ],
)
def test_what_is_missing(copied: CopiedStack, missing: MissingFrames) -> None:
    assert unwind(copied, lambda at: PUSHED)[1] is missing


def test_code_that_no_file_describes() -> None:
    frames, missing = unwind(stack(0, 200), lambda at: PUSHED if at == 100 else None)
    assert [each.address for each in frames] == [100, 200]
    assert missing is MissingFrames.UNKNOWN


def test_what_a_signal_interrupted_is_no_return_address() -> None:
    frames, _ = unwind(stack(0, 200), lambda at: SIGNAL if at == 100 else None)
    assert [each.inside for each in frames] == [100, 200]


def test_a_frame_that_does_not_get_larger_ends_it() -> None:
    same = PUSHED._replace(address=RegisterOffset(7, 0))
    assert unwind(stack(0, 200), lambda at: same) == (
        [UnwoundFrame(100, False)],
        MissingFrames.UNKNOWN,
    )


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        # The table of functions that are linked late: 8 more bytes from its 11th byte on.
        (bytes.fromhex("77088000 3f1a 3b2a 33 24 22"), 1008),
        (bytes.fromhex("7700 06"), 5),  # what is at the stack pointer
        (bytes.fromhex("7701 2308"), 1009),
        (bytes.fromhex("0a0201 09ff 1c"), 0x0103),
        (bytes.fromhex("31 12 22 32 16 1c"), 0),
        (b"\x06", None),
        (b"\xff", None),
        (b"\x70\x00", None),  # of a register that is not known
    ],
)
def test_expressions(expression: bytes, value: int | None) -> None:
    registers: list[int | None] = [None] * 17
    registers[7], registers[16] = 1000, 0x100A
    assert run_expression(expression, registers, {1000: 5}.get) == value
