"""Walks a copied stack from frame to frame, by what the files say about their functions."""

import struct
from collections.abc import Callable
from typing import NamedTuple

from sslsniff.elf.call_frames import CallFrame, RegisterOffset, RegisterRule, RuleKind
from sslsniff.functions.stacks.frame_expressions import run_expression
from sslsniff.functions.stacks.stack_trace import MOST_FRAMES, MissingFrames

REGISTERS = 17
STACK_POINTER, INSTRUCTION_POINTER = 7, 16
_MASK = (1 << 64) - 1
_WORD = struct.Struct("<Q")


class CopiedStack(NamedTuple):
    """A thread at one moment: ``registers`` by their numbers in DWARF, and its stack.

    ``data``: of the stack, from the stack pointer up. ``is_whole``: it ends where the stack does.
    """

    registers: tuple[int, ...]
    data: bytes
    is_whole: bool


class UnwoundFrame(NamedTuple):
    """A frame: ``address`` of its code; ``is_caller``: it is a return address.

    The call is before a return address: that may already belong to another line or function.
    """

    address: int
    is_caller: bool

    @property
    def inside(self) -> int:
        """An address of the instruction that is run."""
        return self.address - self.is_caller


def unwind(
    stack: CopiedStack, call_frame: Callable[[int], CallFrame | None]
) -> tuple[list[UnwoundFrame], MissingFrames | None]:
    """Return the frames of a stack, the innermost first, and why more are missing.

    ``call_frame``: returns what leads from the code at an address of the process to its caller.
    """
    registers: list[int | None] = [*stack.registers]
    base, data = stack.registers[STACK_POINTER], stack.data

    def read(address: int) -> int | None:
        at = address - base
        return _WORD.unpack_from(data, at)[0] if 0 <= at <= len(data) - 8 else None

    frames = [UnwoundFrame(stack.registers[INSTRUCTION_POINTER], False)]
    while len(frames) < MOST_FRAMES:
        frame = call_frame(frames[-1].inside)
        if frame is None:
            return frames, MissingFrames.UNKNOWN
        rule = frame.rules.get(frame.return_register)
        if rule is not None and rule.kind is RuleKind.UNDEFINED:
            return frames, None
        address = _frame_address(frame, registers, read)
        if address is None or address <= (registers[STACK_POINTER] or 0):
            return frames, MissingFrames.UNKNOWN
        if address - base > len(data) and not stack.is_whole:
            return frames, MissingFrames.TOO_DEEP
        caller = _caller(frame, registers, address, read)
        found = caller[INSTRUCTION_POINTER]
        if found is None:
            return frames, MissingFrames.UNKNOWN
        if not found:
            return frames, None
        frames.append(UnwoundFrame(found, not frame.is_signal))
        registers = caller
    return frames, MissingFrames.TOO_MANY


def _frame_address(
    frame: CallFrame, registers: list[int | None], read: Callable[[int], int | None]
) -> int | None:
    """Return the canonical frame address; None: it is not known."""
    if not isinstance(frame.address, RegisterOffset):
        return run_expression(frame.address, registers, read)
    register, offset = frame.address
    value = registers[register] if register < REGISTERS else None
    return None if value is None else (value + offset) & _MASK


def _caller(
    frame: CallFrame,
    registers: list[int | None],
    address: int,
    read: Callable[[int], int | None],
) -> list[int | None]:
    """Return the registers of the caller; those that it cannot rely on keep what they have."""
    found = [*registers]
    found[STACK_POINTER] = address
    for register, rule in frame.rules.items():
        if register < REGISTERS:
            found[register] = _value(rule, registers, address, read)
    if frame.return_register != INSTRUCTION_POINTER and frame.return_register < REGISTERS:
        found[INSTRUCTION_POINTER] = found[frame.return_register]
    return found


def _value(
    rule: RegisterRule,
    registers: list[int | None],
    address: int,
    read: Callable[[int], int | None],
) -> int | None:
    kind, value = rule
    if isinstance(value, bytes):
        found = run_expression(value, registers, read, (address,))
        return read(found) if kind is RuleKind.EXPRESSION and found is not None else found
    if kind is RuleKind.OFFSET:
        return read((address + value) & _MASK)
    if kind is RuleKind.VALUE_OFFSET:
        return (address + value) & _MASK
    if kind is RuleKind.REGISTER and value < REGISTERS:
        return registers[value]
    return None
