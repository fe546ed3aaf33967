"""Compiles a DWARF expression: each slot of its stack holds the steps that compute its value."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from sslsniff.fetching.fetch_steps import MOST_DEPTH, FetchStep, StepKind, most_depth
from sslsniff.fetching.locations import LocationPiece, ValueInMemory, ValueLocation
from sslsniff.fetching.traced_values import Missing

Steps = tuple[FetchStep, ...]

PIECE_OPERATIONS = (0x93, 0x9D)
"""The only operations that may follow the description of where a piece is."""

_MOST_STEPS = 48
"""Of one piece. Compilers write up to 20."""
_MOST_PIECES = 16
_MOST_BYTES = 1024
"""Of an expression. They have less than 100; each operation has one at least."""


class CanonicalFrame(NamedTuple):
    """A frame's canonical address (CFA) where the probe is: a register plus an offset.

    At a function's entry on x86-64 it is ``CanonicalFrame(RSP, 8)``.
    """

    register: int
    offset: int


class ExpressionContext(NamedTuple):
    """What an expression may refer to.

    ``place``: the linked address of the probe.
    ``frame_base``: the expression of the function's frame; None: it has none.
    ``canonical_frame``: or an expression for it; None: unknown.
    ``is_entry``: the registers still have what the caller put there.
    ``address_at``: returns the address at an index of .debug_addr; None: unknown.
    """

    place: int
    frame_base: bytes | None = None
    canonical_frame: CanonicalFrame | bytes | None = None
    is_entry: bool = False
    address_at: Callable[[int], int | None] | None = None


class NotComputable(Exception):
    """The expression has no value that a probe could read."""

    def __init__(self, reason: Missing = Missing.OPTIMISED_OUT) -> None:
        self.reason = reason


ExpressionOperation = Callable[["ExpressionRun", int], None]


class ExpressionRun:
    """One run over an expression; ``self._stack`` has the steps that push each entry."""

    def __init__(
        self,
        expression: bytes,
        context: ExpressionContext,
        operations: Mapping[int, ExpressionOperation],
        nesting: int = 0,
    ) -> None:
        if len(expression) > _MOST_BYTES:
            raise NotComputable(Missing.TOO_MUCH)
        self.context = context
        self.nesting = nesting
        self._operations = operations
        self.stack: list[Steps] = []
        self._bytes = expression
        self._at = 0
        self._pieces: list[LocationPiece] = []
        self._whole: LocationPiece | None = None

    def pieces(self) -> ValueLocation | Missing:
        """Run to the end and return the pieces."""
        while self._at < len(self._bytes):
            self._operate()
        if self._pieces:
            if self.stack or self._whole:
                raise NotComputable  # what comes after the last piece belongs to none
            return tuple(self._pieces)
        piece = self._described(None)
        return piece.source if isinstance(piece.source, Missing) else (piece,)

    def value(self) -> Steps:
        """Run to the end and return what pushes the top of the stack."""
        while self._at < len(self._bytes):
            self._operate()
        if self._whole or self._pieces:
            raise NotComputable
        return self.pop()

    def _operate(self) -> None:
        code = self.unsigned(1)
        operation = self._operations.get(code)
        is_final = self._whole is not None and code not in PIECE_OPERATIONS
        if operation is None or is_final:
            raise NotComputable
        operation(self, code)

    def inner(self, expression: bytes, levels: int = 1) -> Steps:
        """Run an expression that this one refers to; return what pushes its value."""
        nesting = self.nesting + levels
        return ExpressionRun(expression, self.context, self._operations, nesting).value()

    def unsigned(self, size: int) -> int:
        """Return the next operand of ``size`` bytes."""
        return int.from_bytes(self.block(size), "little")

    def signed(self, size: int) -> int:
        """Return the next operand of ``size`` bytes, which has a sign."""
        return int.from_bytes(self.block(size), "little", signed=True)

    def block(self, size: int) -> bytes:
        """Return the next ``size`` bytes."""
        data = self._bytes[self._at : self._at + size]
        if len(data) != size:
            raise NotComputable
        self._at += size
        return data

    def uleb(self) -> int:
        """Return the next operand of variable length (DWARF 5, section 7.6)."""
        return self._leb()[0]

    def sleb(self) -> int:
        """Return the next operand of variable length, which has a sign."""
        number, bits = self._leb()
        return number - (1 << bits) if number >> (bits - 1) else number

    def _leb(self) -> tuple[int, int]:
        number = bits = 0
        while True:
            (byte,) = self.block(1)
            number |= (byte & 0x7F) << bits
            bits += 7
            if byte < 0x80:
                return number, bits

    def push(self, *parts: Steps) -> None:
        """Push an entry that these steps compute."""
        steps = _joined(parts)
        if len(steps) > _MOST_STEPS or most_depth(steps) > MOST_DEPTH:
            raise NotComputable(Missing.TOO_MUCH)
        self.stack.append(steps)

    def pop(self) -> Steps:
        """Remove the top and return what pushes it."""
        if not self.stack:
            raise NotComputable
        return self.stack.pop()

    def describe(self, piece: LocationPiece) -> None:
        """Say where the whole value, or the piece whose size follows, is."""
        self._whole = piece

    def end_piece(self, size: int) -> None:
        """End a piece of ``size`` bytes."""
        if not size or len(self._pieces) >= _MOST_PIECES:
            raise NotComputable(Missing.TOO_MUCH)
        self._pieces.append(self._described(size))
        self._whole = None
        self.stack.clear()

    def _described(self, size: int | None) -> LocationPiece:
        if self._whole:
            return self._whole._replace(size=size)
        if self.stack:
            return LocationPiece(ValueInMemory(self.pop()), size)
        return LocationPiece(Missing.OPTIMISED_OUT, size)


def _joined(parts: tuple[Steps, ...]) -> Steps:
    """Join steps; an addition before another, or before a read, becomes part of it."""
    steps: list[FetchStep] = []
    for step in (step for part in parts for step in part):
        if steps and steps[-1].kind is StepKind.ADD_CONSTANT and step.kind in _WITH_ADDITION:
            total = steps[-1].value + step.value
            if -(2**31) <= total < 2**31:
                steps[-1] = step._replace(value=total)
                continue
        steps.append(step)
    return tuple(steps)


_WITH_ADDITION = (StepKind.ADD_CONSTANT, StepKind.READ)
