"""A program of steps while it is written: what it fetches, and how that is read."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from sslsniff.fetching.fetch import FetchLimits, ValueDecoder
from sslsniff.fetching.fetch_steps import (
    MOST_DATA_BYTES,
    MOST_ITEMS,
    MOST_STEPS,
    FetchStep,
    StepKind,
)
from sslsniff.fetching.locations import (
    ComputedNumber,
    ConstantBytes,
    LocationPiece,
    ValueInMemory,
    ValueLocation,
    add_constant,
    push_constant,
)
from sslsniff.fetching.traced_values import Missing
from sslsniff.functions.dwarf.type_model import Structure, Type
from sslsniff.functions.values.raw_values import FetchedRegion, RawValue, always

WORD_BYTES = 8
_MOST_COPIED_BYTES = 512
"""Of a structure or array at once; what is after them is not fetched."""
_END_STEPS = 1  # StepKind.END


ValueFormat = Callable[["FetchProgram", Any, RawValue, FetchLimits], ValueDecoder | None]
"""Reads a type; None: it is not of the form that was expected, another has to read it."""


class ValueFormats(NamedTuple):
    """How a language's types are read.

    ``kinds``: by their class. ``structure_format``: returns how a structure is read that means more
    than its members; None: it does not.
    """

    kinds: Mapping[type[Type], ValueFormat]
    structure_format: Callable[[Structure], ValueFormat | None]


class RuntimeTypeName(NamedTuple):
    """The name of a type of Go, such as ``*main.Point``, and its kind (abi.Kind)."""

    name: str
    kind: int


class RuntimeTypeNames(Protocol):
    """Knows the types of a Go program by the addresses that interfaces have."""

    def at(self, address: int, /) -> RuntimeTypeName | None:
        """Return the name of the type at a linked address; None: there is none."""


class FetchProgram:
    """Steps and the layout of their data; what goes beyond the kernel's limits is not fetched.

    ``place``: the linked address of the probe. ``go_types``: of the program; None: unknown.
    """

    def __init__(
        self, formats: ValueFormats, place: int = 0, go_types: "RuntimeTypeNames | None" = None
    ) -> None:
        self.place = place
        self.go_types = go_types
        self.steps: list[FetchStep] = []
        self.data_bytes = 0
        self._items = 0
        self._formats = formats
        self._waiting: deque[Callable[[], None]] = deque()

    def value(self, described: Type, raw: RawValue, limits: FetchLimits) -> ValueDecoder:
        """Return what reads a value of type ``described``; fetch what it leads to."""
        if isinstance(described, Structure):
            special = self._formats.structure_format(described)
            found = special(self, described, raw, limits) if special else None
            if found:
                return found
        found = self._formats.kinds[type(described)](self, described, raw, limits)
        return found or always(Missing.UNKNOWN_TYPE)

    def is_too_deep(self, described: Type, limits: FetchLimits) -> bool:
        """Say whether nothing of what a pointer leads to would be shown."""
        if isinstance(described, Structure) and not self._formats.structure_format(described):
            return limits.depth <= 1
        return limits.depth <= 0

    def later(self, make: Callable[[], ValueDecoder]) -> ValueDecoder:
        """Return the decoder that ``make`` returns when all that was asked for before is done.

        So what all values have directly is fetched before what one of them leads to.
        """
        made: list[ValueDecoder] = [always(Missing.TOO_MUCH)]

        def finish() -> None:
            made[0] = make()

        self._waiting.append(finish)
        return lambda data, failed, /: made[0](data, failed)

    def finish(self) -> None:
        """Fetch what waits."""
        while self._waiting:
            self._waiting.popleft()()

    def fetch_location(self, location: ValueLocation, size: int) -> RawValue:
        """Fetch the pieces of a value of ``size`` bytes."""
        base = _aligned(self.data_bytes)
        regions: list[FetchedRegion] = []
        done = 0
        for piece in location:
            length = size - done if piece.size is None else min(piece.size, size - done)
            if length > 0:
                regions += self._fetch_piece(piece, base + done, length)
                done += length
        regions.append(FetchedRegion(base + done, base + size, Missing.OPTIMISED_OUT))
        return RawValue(tuple(each for each in regions if each.start < each.end), base, size)

    def _fetch_piece(self, piece: LocationPiece, at: int, size: int) -> list[FetchedRegion]:
        source = piece.source
        if isinstance(source, Missing):
            return [FetchedRegion(at, at + size, source)]
        if isinstance(source, ValueInMemory):
            copied = min(size, _MOST_COPIED_BYTES)
            region = self._add(source.steps, StepKind.COPY, at, copied, copied)
            return [region, FetchedRegion(region.end, at + size, Missing.TOO_MUCH)]
        if isinstance(source, ComputedNumber):
            stored = min(size, WORD_BYTES)
            region = self._add(source.steps, StepKind.STORE, at, stored)
            return [region, FetchedRegion(region.end, at + size, Missing.OPTIMISED_OUT)]
        return self._fetch_constant(source, at, size)

    def _fetch_constant(self, constant: ConstantBytes, at: int, size: int) -> list[FetchedRegion]:
        data = constant.data.ljust(size, b"\0")[: min(size, _MOST_COPIED_BYTES)]
        regions = []
        for offset in range(0, len(data), WORD_BYTES):
            word = data[offset : offset + WORD_BYTES]
            steps = push_constant(int.from_bytes(word, "little"))
            regions.append(self._add(steps, StepKind.STORE, at + offset, len(word)))
        return regions

    def follow(self, pointer: RawValue, size: int, offset: int = 0) -> RawValue:
        """Fetch ``size`` bytes from ``offset`` of where the pointer at ``pointer`` leads."""
        copied = min(size, _MOST_COPIED_BYTES)
        raw = self._follow(pointer, add_constant(offset), StepKind.COPY, copied)
        rest = FetchedRegion(raw.start + raw.size, raw.start + size, Missing.TOO_MUCH)
        return RawValue((*raw.regions, rest), raw.start, size)

    def follow_items(
        self,
        pointer: RawValue,
        count: RawValue,
        item_bytes: int,
        most_items: int,
        offset: int = 0,
    ) -> RawValue:
        """Fetch as many items of ``item_bytes`` as the number at ``count`` says."""
        if count.problem is not None:
            return RawValue.missing(count.problem, item_bytes * most_items)
        steps = (*add_constant(offset), *self.load(count))
        if item_bytes != 1:
            steps += (*push_constant(item_bytes), FetchStep(StepKind.MULTIPLY))
        return self._follow(pointer, steps, StepKind.COPY_SIZED, item_bytes * most_items)

    def compute(self, steps: tuple[FetchStep, ...], *operands: RawValue) -> RawValue:
        """Fetch the number that ``steps`` push, which they compute from ``operands``."""
        problem = next((each.problem for each in operands if each.problem is not None), None)
        if problem is not None:
            return RawValue.missing(problem, WORD_BYTES)
        at = _aligned(self.data_bytes)
        return RawValue((self._add(steps, StepKind.STORE, at, WORD_BYTES),), at, WORD_BYTES)

    def follow_text(self, pointer: RawValue, size: int) -> RawValue:
        """Fetch the bytes before the first zero byte, at most ``size`` of them with it."""
        return self._follow(pointer, (), StepKind.COPY_TEXT, size)

    def _follow(
        self, pointer: RawValue, steps: tuple[FetchStep, ...], kind: StepKind, size: int
    ) -> RawValue:
        if pointer.problem is not None:
            return RawValue.missing(pointer.problem, size)
        at = _aligned(self.data_bytes)
        region = self._add((*self.load(pointer), *steps), kind, at, size, size)
        return RawValue((region,), at, size)

    def load(self, raw: RawValue) -> tuple[FetchStep, ...]:
        """Return the steps that push the unsigned number of at most 8 bytes at ``raw``."""
        steps = (FetchStep(StepKind.LOAD, offset=raw.start),)
        if raw.size >= WORD_BYTES:
            return steps
        mask = (1 << 8 * raw.size) - 1
        return (*steps, *push_constant(mask), FetchStep(StepKind.AND))

    def add_steps(self, steps: tuple[FetchStep, ...]) -> bool:
        """Add steps that write nothing; False: there is no room."""
        if len(self.steps) + len(steps) + _END_STEPS > MOST_STEPS:
            return False
        self.steps += steps
        return True

    def _add(
        self, steps: tuple[FetchStep, ...], kind: StepKind, at: int, size: int, value: int = 0
    ) -> FetchedRegion:
        """Add steps that write ``size`` bytes to ``at`` of the data."""
        written = WORD_BYTES if kind is StepKind.STORE else size
        if self._items >= MOST_ITEMS or at + written > MOST_DATA_BYTES:
            return FetchedRegion(at, at + size, Missing.TOO_MUCH)
        if not self.add_steps((*steps, FetchStep(kind, value, at, self._items))):
            return FetchedRegion(at, at + size, Missing.TOO_MUCH)
        self.data_bytes = max(self.data_bytes, at + written)
        self._items += 1
        return FetchedRegion(at, at + size, self._items - 1)


def _aligned(offset: int) -> int:
    return -(-offset // WORD_BYTES) * WORD_BYTES
