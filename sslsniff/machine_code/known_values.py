"""The known values of registers and of a function's own stack at one instruction (x86-64).

What is not proved is unknown, never guessed.
"""

from dataclasses import dataclass
from typing import NamedTuple

from sslsniff.machine_code.instructions import ARGUMENTS
from sslsniff.machine_code.operations import Comparison, MemoryOperand, Operand, Register

WORD_BYTES = 8
INT_BYTES = 4  # results are compared as int
FRAME_POINTERS = frozenset({"rsp", "rbp"})
MOST_ALTERNATIVES = 16
_EVERYTHING = -(1 << 31)  # lower than any offset in a function's own stack


class CallingConvention(NamedTuple):
    """Where a function finds its arguments, and where its caller finds the result.

    Both are a register, or an offset from the stack pointer of the entry.
    """

    arguments: tuple[str | int, ...]
    result: str | int
    kept: frozenset[str]
    """Registers that a call does not change."""
    has_own_arguments: bool = False
    """An address of a local variable never leads to an argument on the stack: Go has no pointer
    arithmetic."""


SYSTEM_V = CallingConvention(
    ARGUMENTS, "rax", frozenset({"rbx", "rsp", "rbp", "r12", "r13", "r14", "r15"})
)
"""That of C (System V ABI, AMD64 supplement, section 3.2.1)."""


@dataclass(frozen=True, slots=True)
class Argument:
    """What was at the entry in a register, or on the stack at that offset."""

    place: str | int


@dataclass(frozen=True, slots=True)
class Stack:
    """The address so many bytes above the stack pointer of the entry."""

    offset: int


@dataclass(frozen=True, slots=True)
class Number:
    """A constant, or the address of something in the file."""

    value: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A number that is 0 or negative, as an int."""


@dataclass(frozen=True, slots=True)
class MemoryField:
    """What is in memory at ``base`` + ``offset``."""

    base: "Value"
    offset: int


@dataclass(frozen=True, slots=True)
class Local:
    """What is on the stack at that offset, where others may have written."""

    offset: int


@dataclass(frozen=True, slots=True)
class Result:
    """What the instruction at this address, such as a call, left when it was last executed."""

    address: int


@dataclass(frozen=True, slots=True)
class Low:
    """The low bits of a value: 32, or fewer."""

    value: "Value"


Value = Argument | Stack | Number | Failure | MemoryField | Local | Result | Low
Values = frozenset[Value]
"""One of these, but never of none."""


class State:
    """What is known at an instruction, before it is executed.

    ``registers`` and ``slots`` (by offset from the entry's stack pointer, with the size) are the
    values known. ``escaped`` is the lowest offset of which others have had the address; None: none.
    ``compared`` is the comparison that the flags are of. ``has_own_arguments`` is that of the
    calling convention.
    """

    __slots__ = ("compared", "escaped", "has_own_arguments", "registers", "slots")

    def __init__(
        self,
        registers: dict[str, Values],
        slots: dict[int, tuple[int, Values]],
        escaped: int | None = None,
        compared: Comparison | None = None,
        *,
        has_own_arguments: bool = False,
    ) -> None:
        self.registers = registers
        self.slots = slots
        self.escaped = escaped
        self.compared = compared
        self.has_own_arguments = has_own_arguments

    def copy(self) -> "State":
        """Return another one that knows the same."""
        return State(
            self.registers.copy(),
            self.slots.copy(),
            self.escaped,
            self.compared,
            has_own_arguments=self.has_own_arguments,
        )

    def is_as(self, other: "State") -> bool:
        """Say whether both know the same."""
        return (
            self.registers == other.registers
            and self.slots == other.slots
            and self.escaped == other.escaped
            and self.compared == other.compared
        )

    @property
    def depth(self) -> int | None:
        """How many bytes the stack pointer is below that of the entry; None: unknown."""
        pointer = self.one("rsp")
        return -pointer.offset if isinstance(pointer, Stack) else None

    def one(self, register: str) -> Value | None:
        """Return the one value that a register holds; None: unknown, or one of several."""
        values = self.registers.get(register)
        return next(iter(values)) if values is not None and len(values) == 1 else None

    def has_address(self, register: str) -> bool:
        """Say whether a frame pointer has an address on the stack: it is not noted as escaped."""
        values = self.registers.get(register, frozenset())
        return register in FRAME_POINTERS and any(isinstance(each, Stack) for each in values)

    def place(self, memory: MemoryOperand) -> int | None:
        """Return the offset on the stack that a memory operand names; None: none, or unknown."""
        base = self.one(memory.base) if memory.base and memory.is_exact else None
        return base.offset + memory.offset if isinstance(base, Stack) else None

    def value(self, operand: Operand | None) -> Values | None:
        """Return what an operand is; None: unknown."""
        if isinstance(operand, int):
            return frozenset({Number(operand)})
        if isinstance(operand, Register):
            return narrowed(self.registers.get(operand.name), operand.size)
        if isinstance(operand, MemoryOperand):
            return narrowed(self._loaded(operand), operand.size)
        return None

    def _loaded(self, memory: MemoryOperand) -> Values | None:
        place = self.place(memory)
        if place is not None:
            size, values = self.slots.get(place, (0, None))
            return values if size >= memory.size else frozenset({Local(place)})
        base = self.one(memory.base) if memory.base and memory.is_exact else None
        is_pointer = isinstance(base, Argument | MemoryField | Local)
        return frozenset({MemoryField(base, memory.offset)}) if base and is_pointer else None

    def set(self, register: str, values: Values | None) -> None:
        """Note that a register changes; None: to what is unknown."""
        if values is None:
            self.registers.pop(register, None)
            return
        self.registers[register] = values
        if register not in FRAME_POINTERS:
            self._note_addresses(values)

    def store(self, memory: MemoryOperand, values: Values | None, *, fills: bool = False) -> None:
        """Note that memory changes; ``fills``: so may the memory after it."""
        place = self.place(memory)
        if place is None:
            base = self.one(memory.base) if memory.base else None
            if isinstance(base, Stack):
                self.slots.clear()
            else:
                self.forget_escaped()
        elif fills:
            self._forget_from(place)
        else:
            self._store_at(place, memory.size, values)

    def _store_at(self, place: int, size: int, values: Values | None) -> None:
        for each, (length, _) in list(self.slots.items()):
            if each < place + size and place < each + length:
                del self.slots[each]
        if values is not None:
            self.slots[place] = (size, values)
            self._note_addresses(values)

    def _note_addresses(self, values: Values) -> None:
        for each in values:
            if isinstance(each, Stack):
                self.note_address(each.offset)

    def note_address(self, offset: int) -> None:
        """Note that others may have the address of what is on the stack from ``offset`` on."""
        if self.has_own_arguments and offset >= 0:
            offset = _EVERYTHING
        if self.escaped is None or offset < self.escaped:
            self.escaped = offset

    def note_unknown_address(self) -> None:
        """Note that others may have the address of anything on the stack."""
        self.escaped = _EVERYTHING

    def is_exposed(self, offset: int) -> bool:
        """Say whether others may write to the stack at ``offset``."""
        return self.escaped is not None and self._reaches(self.escaped, offset)

    def _reaches(self, address: int, offset: int) -> bool:
        """Say whether who has an ``address`` on the stack may write to ``offset``."""
        is_apart = self.has_own_arguments and _EVERYTHING < address < 0 <= offset
        return offset >= address and not is_apart

    def forget_escaped(self) -> None:
        """Note that somebody wrote where they had the address of."""
        if self.escaped is not None:
            self._forget_from(self.escaped)

    def _forget_from(self, offset: int) -> None:
        for each, (size, _) in list(self.slots.items()):
            if self._reaches(offset, each + size - 1):
                del self.slots[each]

    def call(self) -> None:
        """Note a call, which writes below the stack pointer, too."""
        self.forget_escaped()
        depth = self.depth
        for each in list(self.slots):
            if depth is None or each < -depth:
                del self.slots[each]

    def replace(self, old: Value, new: Value | None) -> None:
        """Note that everything that holds ``old`` holds ``new``; None: something unknown."""
        for forms in ({old}, {Low(old)}):
            for register, values in list(self.registers.items()):
                if not values.isdisjoint(forms):
                    self.set(register, None if new is None else values - forms | {new})
            for place, (size, values) in list(self.slots.items()):
                if not values.isdisjoint(forms):
                    self._store_at(place, size, None if new is None else values - forms | {new})

    def join(self, other: "State") -> "State":
        """Return what is known where both may be."""
        registers = {
            name: values | other.registers[name]
            for name, values in self.registers.items()
            if name in other.registers
        }
        slots = {
            place: (size, values | other.slots[place][1])
            for place, (size, values) in self.slots.items()
            if place in other.slots and other.slots[place][0] == size
        }
        escapes = [each for each in (self.escaped, other.escaped) if each is not None]
        return State(
            {name: each for name, each in registers.items() if len(each) <= MOST_ALTERNATIVES},
            {at: each for at, each in slots.items() if len(each[1]) <= MOST_ALTERNATIVES},
            min(escapes, default=None),
            self.compared if self.compared == other.compared else None,
            has_own_arguments=self.has_own_arguments,
        )


def narrowed(values: Values | None, size: int) -> Values | None:
    """Return what the low ``size`` bytes of a value are; None: unknown.

    Of less than an int only is known what does not depend on whether the sign is extended.
    """
    if values is None or size == WORD_BYTES:
        return values
    if size < INT_BYTES and not all(_fits_byte(each) for each in values):
        return None
    return frozenset(
        each if isinstance(each, Low | Number | Failure) else Low(each) for each in values
    )


def _fits_byte(value: Value) -> bool:
    if isinstance(value, Number):
        return 0 <= value.value < 1 << 7
    return isinstance(value.value if isinstance(value, Low) else value, Argument)
