"""Computes quantiles of durations, in bounded memory."""

import bisect
import itertools
import math
import operator

from ddsketch.mapping import LogarithmicMapping

RELATIVE_ERROR = 0.01
"""A quantile differs from the exact one by this share of it at most."""

_MAPPING = LogarithmicMapping(RELATIVE_ERROR)
_number_of = _MAPPING.key

_MOST_NS = (1 << 63) - 1
"""A longer span, 292 years, counts as this one: there are 2,200 ranges at most."""

_ZERO = -1
"""The number of the range of 0 ns, which has no logarithm; that of 1 ns is 0."""


class Durations:
    """A set of durations, of which each quantile is known to 1 %, and the maximum exactly.

    It is a DDSketch (docs/dependencies.md): a count for each range of 2 % of a value. Merging two
    gives exactly what adding all their durations to one gives, in any order. The ranges are the
    library's; with the counts in a list of our own, adding and merging take half the time.

    Memory: 8 bytes for each range between the shortest and the longest duration, 40 for one with
    many durations: 2 to 40 KiB, at most 90 KiB if they range from nanoseconds to centuries.
    """

    __slots__ = ("_counts", "_first", "count", "max_ns", "min_ns")

    def __init__(self) -> None:
        self._counts: list[int] = []
        """How many durations are in each range, from that with the number ``_first`` on."""
        self._first = 0
        self.count = 0
        """How many durations there are."""
        self.min_ns: int | None = None
        """The shortest duration; None if there is none."""
        self.max_ns: int | None = None
        """The longest duration; None if there is none."""

    def add(self, span_ns: int) -> None:
        """Add a duration of 0 or more nanoseconds; raises ``ValueError`` if it is negative."""
        if self.min_ns is None or self.max_ns is None or not self.min_ns <= span_ns <= self.max_ns:
            if span_ns < 0:
                raise ValueError(f"a duration of {span_ns} ns")
            span_ns = min(span_ns, _MOST_NS)
            self._widen(span_ns, span_ns)
        place = (_number_of(span_ns) if span_ns else _ZERO) - self._first
        if not 0 <= place < len(self._counts):
            place = self._make_place(place, 1)
        self._counts[place] += 1
        self.count += 1

    def merge(self, other: "Durations") -> None:
        """Add all durations of ``other``, which does not change."""
        if other.min_ns is None or other.max_ns is None:
            return
        self._widen(other.min_ns, other.max_ns)
        counts, size = self._counts, len(other._counts)
        first = self._make_place(other._first - self._first, size)
        own = counts[first : first + size]
        counts[first : first + size] = map(operator.add, own, other._counts)
        self.count += other.count

    def quantile(self, share: float) -> int | None:
        """Return the nanoseconds that ``share`` (0 to 1) of the durations do not exceed.

        It is that of the nearest rank: of ten durations, the quantile of 0.9 is the ninth by
        length, and that of 0.99 the tenth. None if there are no durations.
        """
        if self.min_ns is None or self.max_ns is None:
            return None
        rank = max(1, math.ceil(share * self.count - 1e-9))  # 0.07 * 100 is a little more than 7
        if rank >= self.count:
            return self.max_ns
        number = self._first + bisect.bisect_left([*itertools.accumulate(self._counts)], rank)
        value = 0 if number == _ZERO else round(_MAPPING.value(number))
        return min(max(value, self.min_ns), self.max_ns)

    def _make_place(self, place: int, size: int) -> int:
        """Make ``_counts`` have ``size`` ranges at a place; return the place they then have."""
        counts = self._counts
        if not counts:
            self._first += place
            place = 0
        elif place < 0:
            counts[:0] = [0] * -place
            self._first += place
            place = 0
        counts += [0] * (place + size - len(counts))
        return place

    def _widen(self, least_ns: int, most_ns: int) -> None:
        if self.min_ns is None or least_ns < self.min_ns:
            self.min_ns = least_ns
        if self.max_ns is None or most_ns > self.max_ns:
            self.max_ns = most_ns
