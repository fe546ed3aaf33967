"""Notes in which slices of time a group had exchanges: one bit each.

Slices have the widths of ``time_lines``: 2 to the power of ``shift`` nanoseconds, at whole
multiples of it since the epoch, and it doubles where there would be more than ``MOST_SLICES``. A
group needs 0.3 KB, so all groups have this, those without a time line, too.
"""

from collections.abc import Iterator

from sslsniff.statistics.time_lines import FIRST_SHIFT, MOST_SLICES


class Presence:
    """The slices of time in which exchanges began.

    ``first_ns``, ``last_ns``: when the first and the last of them began, since the epoch; 0: there
    was none. ``longest_ns``: how long the longest of them took.
    """

    __slots__ = ("_bits", "_first", "first_ns", "last_ns", "longest_ns", "shift")

    def __init__(self) -> None:
        self.shift = FIRST_SHIFT
        self.first_ns = self.last_ns = self.longest_ns = 0
        self._first = self._bits = 0

    def add(self, time_ns: int, duration_ns: int | None) -> None:
        """Note an exchange that began at ``time_ns``; 0: that is not known, it is left out."""
        if not time_ns:
            return
        if duration_ns is not None and duration_ns > self.longest_ns:
            self.longest_ns = duration_ns
        if time_ns > self.last_ns:
            self.last_ns = time_ns
        if not self.first_ns or time_ns < self.first_ns:
            self.first_ns = time_ns
        place = (time_ns >> self.shift) - self._first
        if 0 <= place < MOST_SLICES:
            self._bits |= 1 << place
        else:
            self._note(self.shift, [time_ns >> self.shift])

    def merge(self, other: "Presence") -> None:
        """Add what ``other`` has, which does not change."""
        if not other.first_ns:
            return
        if not self.first_ns:
            self.shift, self._first, self._bits = other.shift, other._first, other._bits
        self.longest_ns = max(self.longest_ns, other.longest_ns)
        self.first_ns = min(self.first_ns or other.first_ns, other.first_ns)
        self.last_ns = max(self.last_ns, other.last_ns)
        places = other._first - self._first
        if self.shift == other.shift and 0 <= places <= MOST_SLICES - other._bits.bit_length():
            self._bits |= other._bits << places
        else:
            self._note(other.shift, [*other.slices()])

    def slices(self, shift: int | None = None) -> Iterator[int]:
        """Yield the numbers of slices with exchanges, in order; with a wider ``shift`` some twice.

        A slice begins at its number times its width.
        """
        more = 0 if shift is None else shift - self.shift
        bits, number = self._bits, self._first
        while bits:
            skipped = (bits & -bits).bit_length() - 1
            number += skipped
            yield number >> more
            bits >>= skipped + 1
            number += 1

    def _note(self, shift: int, numbers: list[int]) -> None:
        """Add slices of the width ``shift``, and double the width until all fit."""
        wide = max(shift, self.shift)
        found = {*self.slices(wide), *(number >> wide - shift for number in numbers)}
        first, last = min(found), max(found)
        more = 0
        while (last >> more) - (first >> more) >= MOST_SLICES:
            more += 1
        self.shift, self._first, self._bits = wide + more, first >> more, 0
        for number in found:
            self._bits |= 1 << (number >> more) - self._first
