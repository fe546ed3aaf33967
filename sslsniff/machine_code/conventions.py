"""Packs where a probe finds the values of a call, for its BPF program (bpf/convention.bpf.h).

The number is a part of the probe's attach cookie, which kernels have since 5.15. 0 stands for the
calling convention: arguments and result are in its registers, and the stack pointer is that of the
entry.
"""

from collections.abc import Sequence
from typing import NamedTuple

BITS = 54
"""The bits of a convention in a cookie's 64; the others are the index of the layout."""

_WORD_BYTES = 8
_INT_BYTES = 4
# The order of struct pt_regs (arch/x86/include/asm/ptrace.h).
_REGISTERS = (
    *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8"),
    *("rax", "rcx", "rdx", "rsi", "rdi"),
)
_GIVEN = 16  # the bit that distinguishes a number from a missing one
_DEPTH_BITS = 12
_PLACE_BITS = 11
_ON_STACK_BIT = 1 << 10
_USUAL, _IN_REGISTER, _ON_STACK, _NOWHERE = range(4)


class Signature(NamedTuple):
    """The registers in which a function gets the arguments that a probe needs.

    ``count_pointer``: points to where the count is stored; None: the result is the count.
    ``kind``: an argument, and its value in the calls that count. Other calls of the same function
    have another value there.
    """

    object: str
    buffer: str
    count_pointer: str | None = None
    kind: tuple[str, int] | None = None


def pack_depth(depth: int) -> int:
    """Pack by how many bytes the stack pointer is below that of the entry.

    This and the functions below raise ``ValueError`` for a number that needs more bits.
    """
    return _field(_whole(depth, _WORD_BYTES), _DEPTH_BITS)


def pack_enter(depth: int, signature: Signature, *, writes: bool) -> int:
    """Pack the places of arguments, for the program ``c_call_enter``."""
    register, value = signature.kind or (None, 0)
    return _packed(
        (pack_depth(depth), _DEPTH_BITS),
        (_REGISTERS.index(signature.object), 4),
        (_REGISTERS.index(signature.buffer), 4),
        (_optional(signature.count_pointer), 5),
        (_optional(register), 5),
        (value, 8),
        (writes, 1),
    )


def pack_leave(depth: int, condition: int | None, result: str | int | None) -> int:
    """Pack the place of a result, for the program ``c_return``: see ``probe_pairs.Leave``."""
    kind, register, slot = _NOWHERE, 0, 0
    if result == "rax":
        kind = _USUAL
    elif isinstance(result, str):
        kind, register = _IN_REGISTER, _REGISTERS.index(result)
    elif isinstance(result, int):
        kind, slot = _ON_STACK, _whole(-result, _INT_BYTES)
    return _packed(
        (pack_depth(depth), _DEPTH_BITS),
        (_condition(condition), 5),
        (kind, 2),
        (register, 4),
        (slot, 12),
    )


def pack_values(condition: int | None, places: Sequence[str | int]) -> int:
    """Pack a jump's condition, as x86 numbers it, and where values are (``take_value``).

    A place is a register, or the offset in bytes from the stack pointer.
    """
    fields = [(_condition(condition), 5)]
    for place in places:
        if isinstance(place, str):
            fields.append((_REGISTERS.index(place), _PLACE_BITS))
        else:
            words = _field(_whole(place, _WORD_BYTES), _PLACE_BITS - 1)
            fields.append((_ON_STACK_BIT | words, _PLACE_BITS))
    return _packed(*fields)


def _condition(condition: int | None) -> int:
    return 0 if condition is None else _GIVEN + condition


def _optional(register: str | None) -> int:
    return 0 if register is None else _GIVEN + _REGISTERS.index(register)


def _packed(*fields: tuple[int, int]) -> int:
    """Pack (number, bits) pairs, the first in the lowest bits."""
    packed = at = 0
    for number, bits in fields:
        packed |= _field(number, bits) << at
        at += bits
    return packed


def _whole(number_bytes: int, unit_bytes: int) -> int:
    if number_bytes % unit_bytes:
        raise ValueError(f"{number_bytes} bytes are no multiple of {unit_bytes}")
    return number_bytes // unit_bytes


def _field(number: int, bits: int) -> int:
    if not 0 <= number < 1 << bits:
        raise ValueError(f"{number} does not fit into {bits} bits")
    return number
