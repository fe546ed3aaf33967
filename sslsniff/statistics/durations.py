"""Computes quantiles of durations, in bounded memory."""

import math

from ddsketch.ddsketch import BaseDDSketch
from ddsketch.mapping import LogarithmicMapping
from ddsketch.store import DenseStore

RELATIVE_ERROR = 0.01
"""A quantile differs from the exact one by this share of it at most."""

_MAPPING = LogarithmicMapping(RELATIVE_ERROR)

_MOST_NS = (1 << 63) - 1
"""A longer span, 292 years, counts as this one: the sketch then has 2,200 bins at most."""


class Durations:
    """A set of durations, of which each quantile is known to 1 %, and the maximum exactly.

    It is a DDSketch (docs/dependencies.md): a count for each range of 2 % of a value. Merging two
    gives exactly what adding all their durations to one gives, in any order.

    Memory: 2 to 20 KiB, at most 70 KiB if they range from nanoseconds to centuries.
    """

    __slots__ = ("_sketch", "max_ns", "min_ns")

    def __init__(self) -> None:
        self._sketch: BaseDDSketch | None = None
        self.min_ns: int | None = None
        """The shortest duration; None if there is none."""
        self.max_ns: int | None = None
        """The longest duration; None if there is none."""

    @property
    def count(self) -> int:
        """How many durations there are."""
        return int(self._sketch.count) if self._sketch is not None else 0

    def add(self, span_ns: int) -> None:
        """Add a duration of 0 or more nanoseconds; raises ``ValueError`` if it is negative."""
        if span_ns < 0:
            raise ValueError(f"a duration of {span_ns} ns")
        span_ns = min(span_ns, _MOST_NS)
        self._widen(span_ns, span_ns)
        if self._sketch is None:
            self._sketch = _new_sketch()
        self._sketch.add(span_ns)

    def merge(self, other: "Durations") -> None:
        """Add all durations of ``other``, which does not change."""
        if other._sketch is None or other.min_ns is None or other.max_ns is None:
            return
        self._widen(other.min_ns, other.max_ns)
        if self._sketch is None:
            self._sketch = _new_sketch()
        self._sketch.merge(other._sketch)

    def quantile(self, share: float) -> int | None:
        """Return the nanoseconds that ``share`` (0 to 1) of the durations do not exceed.

        It is that of the nearest rank: of ten durations, the quantile of 0.9 is the ninth by
        length, and that of 0.99 the tenth. None if there are no durations.
        """
        count = self.count
        if self._sketch is None or self.min_ns is None or self.max_ns is None:
            return None
        rank = max(1, math.ceil(share * count - 1e-9))  # 0.07 * 100 is a little more than 7
        if rank >= count:
            return self.max_ns
        # The sketch takes the value after whole ranks from 0: a half is safe from rounding.
        value = self._sketch.get_quantile_value((rank - 0.5) / (count - 1))
        assert value is not None
        return min(max(round(value), self.min_ns), self.max_ns)

    def _widen(self, least_ns: int, most_ns: int) -> None:
        if self.min_ns is None or least_ns < self.min_ns:
            self.min_ns = least_ns
        if self.max_ns is None or most_ns > self.max_ns:
            self.max_ns = most_ns


def _new_sketch() -> BaseDDSketch:
    """Return an empty sketch; all share the mapping, which has no state."""
    return BaseDDSketch(_MAPPING, DenseStore(), DenseStore(), 0)
