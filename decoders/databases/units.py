"""Splits one side's bytes into the units of a protocol, each with its length before it."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

STORED_BYTES = 64 << 10
"""Stored of a unit; the rest is only counted."""

Measure = Callable[[bytes, int], tuple[int, int] | None]
"""Returns the sizes of the header at a position and of what follows it, None if it is not whole.

Raises ``NotAUnitError`` if there is none."""


class NotAUnitError(Exception):
    """The bytes are not what the protocol allows: its place in them is lost."""


class Unit(NamedTuple):
    """A unit: its header, what follows it, and the ``size`` of that; ``data`` may be cut."""

    header: bytes
    data: bytes
    size: int


class UnitSplitter:
    """Reads units. Memory: the ``STORED_BYTES`` of one."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._partial = bytearray()
        self._needed = 0  # so many bytes there must be before the next step
        self._large: Unit | None = None
        self._skip = 0  # bytes of it that are still to come

    @property
    def held_bytes(self) -> int:
        """The memory of an unfinished unit."""
        return len(self._partial) + (len(self._large.data) if self._large else 0)

    def feed(self, data: bytes) -> Iterator[Unit]:
        """Yield the units that end in ``data``. Raise ``NotAUnitError``."""
        if self._large is not None:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            if self._skip:
                return
            data = data[skipped:]
            large, self._large = self._large, None
            yield large
        if self._partial:
            self._partial += data
            if len(self._partial) < self._needed:
                return
            data = bytes(self._partial)
            self._partial.clear()
        at, stop = 0, len(data)
        while at < stop:
            try:
                sizes = self._measure(data, at)
            except NotAUnitError:
                self._partial += data[at:]  # for ``drop``
                raise
            if sizes is None:
                self._needed = stop - at + 1
                break
            header, size = sizes
            begin = at + header
            end, stored = begin + size, begin + min(size, STORED_BYTES)
            if stored > stop:
                self._needed = stored - at
                break
            unit = Unit(data[at:begin], data[begin:stored], size)
            if end > stop:
                self._large, self._skip = unit, end - stop
                return
            yield unit
            at = end
        self._partial += data[at:]

    def gap(self, missing: int) -> bool:
        """Note lost bytes; return whether all were in a part of a unit that is not stored."""
        if missing >= self._skip:  # the last byte ends a unit, which the next feed yields
            return False
        self._skip -= missing
        return True

    def drop(self) -> tuple[bytes, int]:
        """Forget an unfinished unit; return what is stored of it, and how many bytes came."""
        data, size = bytes(self._partial), len(self._partial)
        if self._large is not None:
            data = self._large.header + self._large.data
            size = len(self._large.header) + self._large.size - self._skip
        self._partial.clear()
        self._large, self._skip = None, 0
        return data, size
