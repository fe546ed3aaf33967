"""The figures of one raw path of a group: of `/orders/1042`, where the group has `/orders/{}`."""

from sslsniff.statistics.outcome import Outcome
from sslsniff.statistics.time_lines import TimeLine, joined, quantile


class RawPath:
    """Adds up the exchanges of a path, or of a statement with its parameters.

    ``count``, ``errors``: see ``Group``. ``total_ns``: how long they took together, ``max_ns``: the
    longest of them; None if no time is known. ``line``: all of them over time.

    Memory: that of a ``TimeLine``.
    """

    __slots__ = ("count", "errors", "line", "max_ns", "name", "total_ns")

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = self.errors = self.total_ns = 0
        self.max_ns: int | None = None
        self.line = TimeLine()

    @property
    def median_ns(self) -> int | None:
        """The median duration, to ``time_lines.RELATIVE_ERROR``; None if no time is known."""
        found = quantile(joined(counted for _, counted in self.line.slices()), 0.5)
        return None if found is None or self.max_ns is None else min(found, self.max_ns)

    def add(self, outcome: Outcome) -> None:
        """Add an exchange."""
        span_ns, is_failed = outcome.duration_ns, outcome.is_failed
        self.count += 1
        self.errors += is_failed
        self._add_time(span_ns or 0, span_ns)
        self.line.add(outcome.time_ns, span_ns, is_failed=is_failed)

    def merge(self, other: "RawPath") -> None:
        """Add all exchanges of ``other``, which does not change."""
        self.count += other.count
        self.errors += other.errors
        self._add_time(other.total_ns, other.max_ns)
        self.line.merge(other.line)

    def _add_time(self, total_ns: int, max_ns: int | None) -> None:
        self.total_ns += total_ns
        if max_ns is not None and (self.max_ns is None or max_ns > self.max_ns):
            self.max_ns = max_ns
