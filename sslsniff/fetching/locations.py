"""Says where a value is at a place in the code, as steps that fetch it.

For example, the ``&str`` that a function gets in two registers is
``(in_register(RDI, 8), in_register(RSI, 8))``; a result of 24 bytes to which rax points is
``(in_memory(RAX),)``; the second operand ``-4@-20(%rbp)`` of a static probe is
``(in_memory(RBP, -20, 4),)``.
"""

from typing import NamedTuple

from sslsniff.fetching.fetch_steps import FetchStep, StepKind
from sslsniff.fetching.traced_values import Missing

RAX, RDX, RCX, RBX, RSI, RDI, RBP, RSP = range(8)
R8, R9, R10, R11, R12, R13, R14, R15 = range(8, 16)
RIP = 16
"""Numbers of x86-64's registers in DWARF (System V ABI for AMD64, figure 3.36)."""

REGISTER_NAMES = (
    *("rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp"),
    *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip"),
)
# Their indices in struct pt_regs (arch/x86/include/uapi/asm/ptrace.h), in words.
_PT_REGS_WORDS = (10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16)

_MOST_CONSTANT = 2**31


class ComputedNumber(NamedTuple):
    """A value that ``steps`` push; a piece has its low bytes."""

    steps: tuple[FetchStep, ...]


class ValueInMemory(NamedTuple):
    """A value in user memory at the address that ``steps`` push."""

    steps: tuple[FetchStep, ...]


class ConstantBytes(NamedTuple):
    """A value that is always the same."""

    data: bytes


LocationSource = ComputedNumber | ValueInMemory | ConstantBytes | Missing


class LocationPiece(NamedTuple):
    """Where the next ``size`` bytes of a value are; None: all that are left of it."""

    source: LocationSource
    size: int | None = None


ValueLocation = tuple[LocationPiece, ...]
"""The pieces of a value, from its first byte on."""


def in_register(register: int, size: int | None = None) -> LocationPiece:
    """Return a piece in a register, by the number that it has in DWARF.

    Vector registers and those of the x87 cannot be read by a uprobe.
    """
    steps = push_register(register)
    return LocationPiece(ComputedNumber(steps) if steps else Missing.NOT_READABLE, size)


def in_memory(register: int, offset: int = 0, size: int | None = None) -> LocationPiece:
    """Return a piece in memory at the address that a general register has, plus ``offset``."""
    steps = push_register(register)
    if not steps:
        return LocationPiece(Missing.NOT_READABLE, size)
    return LocationPiece(ValueInMemory(steps + add_constant(offset)), size)


def constant_number(number: int, size: int | None = None) -> LocationPiece:
    """Return a piece that always has the same number."""
    return LocationPiece(ComputedNumber(push_constant(number)), size)


def push_register(register: int) -> tuple[FetchStep, ...]:
    """Return the step that pushes a register by its number in DWARF; none if it is unreadable."""
    if not 0 <= register < len(_PT_REGS_WORDS):
        return ()
    return (FetchStep(StepKind.REGISTER, _PT_REGS_WORDS[register]),)


def push_constant(number: int) -> tuple[FetchStep, ...]:
    """Return the steps that push ``number`` modulo 2**64."""
    low = _signed(number, 32)
    if _signed(number, 64) == low:
        return (FetchStep(StepKind.CONSTANT, low),)
    return (
        FetchStep(StepKind.CONSTANT, low),
        FetchStep(StepKind.HIGH_HALF, _signed(number >> 32, 32)),
    )


def add_constant(number: int) -> tuple[FetchStep, ...]:
    """Return the steps that add ``number`` to the top, modulo 2**64."""
    number = _signed(number, 64)
    if not number:
        return ()
    if -_MOST_CONSTANT <= number < _MOST_CONSTANT:
        return (FetchStep(StepKind.ADD_CONSTANT, number),)
    return (*push_constant(number), FetchStep(StepKind.ADD))


def push_address(linked: int, place: int) -> tuple[FetchStep, ...]:
    """Return the steps that push where linked address ``linked`` is in the process.

    ``place``: the linked address of the probe, at which the hit's instruction pointer is.
    """
    return push_register(RIP) + add_constant(linked - place)


def register_of(piece: LocationPiece) -> str | None:
    """Return the name of the register that a piece is in; None: it is not in one."""
    if not isinstance(piece.source, ComputedNumber) or len(piece.source.steps) != 1:
        return None
    (step,) = piece.source.steps
    if step.kind is not StepKind.REGISTER or step.value not in _PT_REGS_WORDS:
        return None
    return REGISTER_NAMES[_PT_REGS_WORDS.index(step.value)]


def _signed(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number
