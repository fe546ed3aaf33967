"""Quantiles of durations, in bounded memory."""

import math
from collections import Counter

from ddsketch.mapping import LogarithmicMapping
from ddsketch.store import DenseStore

RELATIVE_ERROR = 0.01
"""A quantile differs from the exact one by this share of it at most."""

_MAPPING = LogarithmicMapping(RELATIVE_ERROR)

_MOST_NS = (1 << 63) - 1
"""A longer span, 292 years, counts as this one: there are 2,200 bins at most then."""
_MOST_WAITING = 64


class Durations:
    """A set of durations, of which each quantile is known to 1 %, and the maximum exactly.

    It has the mapping and the store of a DDSketch (docs/dependencies.md): a count for each range of
    2 % of a value. Merging two gives exactly what adding all their durations to one gives, in any
    order.

    Memory: 2 to 20 KiB, at most 70 KiB if they range from nanoseconds to centuries.
    """

    __slots__ = ("_counts", "_waiting", "_zeros", "max_ns", "min_ns")

    def __init__(self) -> None:
        self._counts: DenseStore | None = None
        self._zeros = 0
        """They have no logarithm."""
        self._waiting: list[int] = []
        """What is not in ``_counts`` yet: to add many at once takes a fifth of the time."""
        self.min_ns: int | None = None
        """The shortest duration; None if there is none."""
        self.max_ns: int | None = None
        """The longest duration; None if there is none."""

    @property
    def count(self) -> int:
        """How many durations there are."""
        counts = self._settled()
        return self._zeros + (int(counts.count) if counts is not None else 0)

    def add(self, span_ns: int) -> None:
        """Add a duration of 0 or more nanoseconds; raises ``ValueError`` if it is negative."""
        if span_ns < 0:
            raise ValueError(f"a duration of {span_ns} ns")
        span_ns = min(span_ns, _MOST_NS)
        self._widen(span_ns, span_ns)
        if span_ns:
            self._waiting.append(span_ns)
            if len(self._waiting) >= _MOST_WAITING:
                self._settled()
        else:
            self._zeros += 1

    def merge(self, other: "Durations") -> None:
        """Add all durations of ``other``, which does not change."""
        if other.min_ns is None or other.max_ns is None:
            return
        self._widen(other.min_ns, other.max_ns)
        self._zeros += other._zeros
        added = other._settled()
        if added is not None:
            if self._counts is None:
                self._counts = DenseStore()
            self._counts.merge(added)

    def quantile(self, share: float) -> int | None:
        """Return the nanoseconds that ``share`` (0 to 1) of the durations do not exceed.

        It is that of the nearest rank: of ten durations, the quantile of 0.9 is the ninth by
        length, and that of 0.99 the tenth. None if there are no durations.
        """
        count = self.count
        if self.min_ns is None or self.max_ns is None:
            return None
        rank = max(1, math.ceil(share * count - 1e-9))  # 0.07 * 100 is a little more than 7
        if rank >= count:
            return self.max_ns
        if rank <= self._zeros:
            return 0
        assert self._counts is not None
        value = _MAPPING.value(self._counts.key_at_rank(rank - self._zeros - 1))
        return min(max(round(value), self.min_ns), self.max_ns)

    def _settled(self) -> DenseStore | None:
        """Return the counts of all but zeros, with those that wait; None if there are none."""
        if self._waiting:
            if self._counts is None:
                self._counts = DenseStore()
            for key, count in Counter(map(_MAPPING.key, self._waiting)).items():
                self._counts.add(key, count)
            self._waiting.clear()
        return self._counts

    def _widen(self, least_ns: int, most_ns: int) -> None:
        if self.min_ns is None or least_ns < self.min_ns:
            self.min_ns = least_ns
        if self.max_ns is None or most_ns > self.max_ns:
            self.max_ns = most_ns
