"""Views of the bytes that a probe fetched, and how one is read."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from sslsniff.fetching.fetch import ValueDecoder
from sslsniff.fetching.traced_values import Missing, Value

NumberReader = Callable[[bytes, int], int | None]
"""Returns a number from the data and the bits of failed items; None: it could not be read."""


class FetchedRegion(NamedTuple):
    """Bytes of the data from ``start`` to before ``end``, and the item that wrote them.

    ``item``: or why they are not there.
    """

    start: int
    end: int
    item: int | Missing


@dataclass(frozen=True)
class RawValue:
    """``size`` bytes from ``start`` of the data, which ``regions`` wrote."""

    regions: tuple[FetchedRegion, ...]
    start: int
    size: int

    @classmethod
    def missing(cls, reason: Missing, size: int = 0) -> "RawValue":
        """Return a value that is not there."""
        return cls((FetchedRegion(0, size, reason),), 0, size)

    def part(self, offset: int, size: int) -> "RawValue":
        """Return ``size`` bytes from ``offset`` of this value."""
        return RawValue(self.regions, self.start + offset, size)

    @property
    def end(self) -> int:
        """Where the value ends in the data."""
        return self.start + self.size

    @property
    def fetched_bytes(self) -> int:
        """How many bytes there are without a gap."""
        at = self.start
        for region in self._overlapping:
            if region.start > at or isinstance(region.item, Missing):
                break
            at = min(region.end, self.end)
        return at - self.start

    @cached_property
    def problem(self) -> Missing | None:
        """Why some of the bytes are not there; None: the probe fetches all."""
        for region in self._overlapping:
            if isinstance(region.item, Missing):
                return region.item
        return None if self.fetched_bytes == self.size else Missing.TOO_MUCH

    @cached_property
    def items(self) -> int:
        """The items that wrote the bytes, as bits."""
        bits = 0
        for region in self._overlapping:
            bits |= 0 if isinstance(region.item, Missing) else 1 << region.item
        return bits

    @property
    def _overlapping(self) -> list[FetchedRegion]:
        return [each for each in self.regions if each.start < self.end and self.start < each.end]


def always(value: Value) -> ValueDecoder:
    """Return a decoder that always returns ``value``."""

    def decode(data: bytes, failed: int, /) -> Value:
        return value

    return decode


def from_bytes(raw: RawValue, decode: Callable[[bytes], Value]) -> ValueDecoder:
    """Return a decoder that gives the bytes of ``raw`` to ``decode``."""
    if raw.problem is not None:
        return always(raw.problem)
    start, end, items = raw.start, raw.end, raw.items

    def checked(data: bytes, failed: int, /) -> Value:
        return Missing.UNREADABLE if failed & items else decode(data[start:end])

    return checked


def from_number(
    raw: RawValue, decode: Callable[[int], Value] | None = None, *, is_signed: bool = False
) -> ValueDecoder:
    """Return a decoder that gives the number at ``raw`` to ``decode``; None: it is the value."""
    code = _CODES.get((raw.size, is_signed))
    if code is None:
        return from_bytes(raw, _number_decoder(decode, is_signed=is_signed))
    if raw.problem is not None:
        return always(raw.problem)
    start, items, unpack = raw.start, raw.items, struct.Struct(code).unpack_from
    unreadable = Missing.UNREADABLE

    def number(data: bytes, failed: int, /) -> Value:
        return unreadable if failed & items else unpack(data, start)[0]

    if decode is None:
        return number

    def checked(data: bytes, failed: int, /) -> Value:
        return unreadable if failed & items else decode(unpack(data, start)[0])

    return checked


def _number_decoder(
    decode: Callable[[int], Value] | None, *, is_signed: bool
) -> Callable[[bytes], Value]:
    def decode_bytes(data: bytes) -> Value:
        number = int.from_bytes(data, "little", signed=is_signed)
        return number if decode is None else decode(number)

    return decode_bytes


_CODES = {
    (1, False): "<B",
    (2, False): "<H",
    (4, False): "<I",
    (8, False): "<Q",
    (1, True): "<b",
    (2, True): "<h",
    (4, True): "<i",
    (8, True): "<q",
}
"""Codes of ``struct`` by size and sign: its numbers are read in a third of the time."""


def number_reader(raw: RawValue) -> NumberReader:
    """Return what reads the unsigned number at ``raw``."""
    if raw.problem is not None:
        return lambda data, failed: None
    start, end, items = raw.start, raw.end, raw.items

    def read(data: bytes, failed: int) -> int | None:
        return None if failed & items else int.from_bytes(data[start:end], "little")

    return read
