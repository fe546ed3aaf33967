"""Counts exchanges over time: how many, how many failed, and how long they took.

A time line has slices of one width. If what it counts lasts longer than ``MOST_SLICES`` of them,
the width doubles, and neighbours are added up. Slices begin at whole multiples of their width since
the epoch, so what a time line says depends on the exchanges alone, not on the order in which they
ended: widths only grow, and a slice is a sum.

Durations are counted by ranges, four of which double a duration. A slice is one integer, whose
digits of 32 bits are counts: exchanges, failures, and the durations of each range. So slices are
added like numbers, and need 0.3 KB each, at most 0.5 KB.
"""

import itertools
import math
import sys
from collections.abc import Iterable
from typing import NamedTuple

MOST_SLICES = 240
"""Slices of a time line: half of them or more are in use once the capture is 0.25 s long."""

RELATIVE_ERROR = 0.091
"""A quantile differs from the exact one by this share of it at most: by half a range."""

FIRST_SHIFT = 20
"""The first width is 2 to the power of this in nanoseconds: a millisecond."""
_RANGES_A_DOUBLING = 4
_LEAST_LOG2 = 16
"""Durations below 2 to the power of this, 66 us, are in the first range."""
RANGES = 24 * _RANGES_A_DOUBLING
"""Ranges of durations; those of 2 to the power of 40 ns, 18 minutes, and more are in the last."""

_DIGIT_BITS = 32
"""So many exchanges of one slice would take weeks to decode."""
_EXCHANGE, _FAILURE = 1, 1 << _DIGIT_BITS
_IN_RANGE = [1 << _DIGIT_BITS * (2 + place) for place in range(RANGES)]
_DIGITS = 2 + RANGES


class Slice(NamedTuple):
    """What was counted in a slice, or in several ones together.

    ``slower``: for each of ``RANGES``, how many durations are in it or in a longer one. The first
    number is that of all durations, which is lower than ``exchanges`` if some are not known.
    """

    exchanges: int
    errors: int
    slower: list[int]


class TimeLine:
    """Counts exchanges by the time at which they began.

    Memory: 70 KB, at most 130 KB; 0.3 KB for each slice with exchanges.
    """

    __slots__ = ("_first", "_last", "_slices", "shift")

    def __init__(self) -> None:
        self.shift = FIRST_SHIFT
        """The width of a slice is 2 to the power of this in nanoseconds."""
        self._slices: dict[int, int] = {}
        self._first = self._last = 0

    @property
    def width_ns(self) -> int:
        """The width of a slice."""
        return 1 << self.shift

    def add(self, time_ns: int, duration_ns: int | None, *, is_failed: bool) -> None:
        """Count an exchange that began at ``time_ns``; 0: that is not known, it is left out."""
        if not time_ns:
            return
        counted = _EXCHANGE + _FAILURE if is_failed else _EXCHANGE
        if duration_ns is not None:
            counted += _IN_RANGE[range_of(duration_ns)]
        place = time_ns >> self.shift
        if not self._slices:
            self._first = self._last = place
        elif place > self._last:
            self._last = place
        elif place < self._first:
            self._first = place
        self._slices[place] = self._slices.get(place, 0) + counted
        if self._last - self._first >= MOST_SLICES:
            self._narrow()

    def merge(self, other: "TimeLine") -> None:
        """Add what ``other`` counted, which does not change."""
        if not other._slices:
            return
        shift = max(self.shift, other.shift)
        first, last = (each >> shift - other.shift for each in (other._first, other._last))
        if self._slices:
            self._widen_to(shift)
            first, last = min(self._first, first), max(self._last, last)
        self.shift, self._first, self._last = shift, first, last
        for place, counted in other._slices.items():
            place >>= shift - other.shift
            self._slices[place] = self._slices.get(place, 0) + counted
        self._narrow()

    def slices(self, shift: int | None = None) -> list[tuple[int, Slice]]:
        """Return all slices with exchanges, by time: each with the time at which it begins.

        ``shift``: the width to return them in, not below that of this time line.
        """
        wide = self.shift if shift is None else shift
        sums: dict[int, int] = {}
        for place, counted in self._slices.items():
            place >>= wide - self.shift
            sums[place] = sums.get(place, 0) + counted
        return [(place << wide, _unpacked(sums[place])) for place in sorted(sums)]

    def _narrow(self) -> None:
        """Double the width until the number of slices is in its bound."""
        shift = self.shift
        while (self._last >> shift - self.shift) - (self._first >> shift - self.shift) >= (
            MOST_SLICES
        ):
            shift += 1
        self._widen_to(shift)

    def _widen_to(self, shift: int) -> None:
        more = shift - self.shift
        if not more:
            return
        slices: dict[int, int] = {}
        for place, counted in self._slices.items():
            place >>= more
            slices[place] = slices.get(place, 0) + counted
        self._slices, self.shift = slices, shift
        self._first >>= more
        self._last >>= more


def range_of(duration_ns: int) -> int:
    """Return the number of the range that a duration is in."""
    if duration_ns < 1 << _LEAST_LOG2:
        return 0
    return min(RANGES - 1, int((math.log2(duration_ns) - _LEAST_LOG2) * _RANGES_A_DOUBLING))


def joined(slices: Iterable[Slice]) -> Slice:
    """Return what several slices counted together."""
    counted = [(each.exchanges, each.errors, *each.slower) for each in slices]
    count, errors, *slower = map(sum, zip(*counted, strict=True)) if counted else [0] * _DIGITS
    return Slice(count, errors, slower)


def quantile(counted: Slice, share: float) -> int | None:
    """Return the nanoseconds that ``share`` of durations do not exceed; None if there are none.

    That of the nearest rank, as ``Durations`` has it, to ``RELATIVE_ERROR``.
    """
    known = counted.slower[0]
    if not known:
        return None
    above = known - max(1, math.ceil(share * known - 1e-9))  # may exceed it
    number = next(place for place in reversed(range(RANGES)) if counted.slower[place] > above)
    return round(2 ** (_LEAST_LOG2 + (number + 0.5) / _RANGES_A_DOUBLING))


def _unpacked(counted: int) -> Slice:
    digits = memoryview(counted.to_bytes(_DIGITS * _DIGIT_BITS // 8, sys.byteorder)).cast("I")
    numbers = digits.tolist() if sys.byteorder == "little" else digits.tolist()[::-1]
    slower = [*itertools.accumulate(reversed(numbers[2:]))][::-1]
    return Slice(numbers[0], numbers[1], slower)
