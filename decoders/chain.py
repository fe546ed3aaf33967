"""Finds the start of a length-prefixed unit in bytes that may start anywhere.

A position is a start if ``ChainRule.enough`` units follow one another from it. The proof that ends
first wins, so the same bytes give the same position however they are cut.
"""

import heapq
import re
from collections.abc import Callable
from dataclasses import dataclass

_PIECE = 1024  # bytes searched at once: few possible starts are open at a time
_START_BYTES = 200  # memory of a possible start

Unit = Callable[[bytes | bytearray, int, int], int]
"""Returns the length of the unit at a position, from the bytes before a stop.

0: no unit begins there. ``-n``: ``n`` bytes from the position on are needed to know it."""

Proves = Callable[[bytes | bytearray, int, int], bool]
"""Returns whether so many units, from a position to where the last one is known, are a proof."""


def any_chain(_data: bytes | bytearray, _start: int, _stop: int) -> bool:
    """Return that the number of units is proof enough."""
    return True


@dataclass(frozen=True, slots=True)
class ChainRule:
    """How to recognise a chain of units."""

    start: re.Pattern[bytes]
    """Matches where a unit may begin, by a look-ahead of at most five bytes; it only saves time."""
    unit: Unit
    enough: int
    """How many units prove a start."""
    unit_bytes: int
    """The longest unit of a proof."""
    proves: Proves = any_chain


class ChainSync:
    """Searches for the start of a chain. ``buffer`` has the bytes since the first possible start.

    Memory: ``enough`` times ``unit_bytes``, and a tuple for each possible start.
    """

    __slots__ = ("_base", "_fed_bytes", "_rule", "_searched", "_starts", "buffer")

    def __init__(self, rule: ChainRule) -> None:
        self.buffer = bytearray()
        self._rule = rule
        self._base = 0  # bytes dropped from the front of the buffer
        self._searched = 0  # offset up to which possible starts were searched
        self._fed_bytes = 0  # since droppable computed its result
        # Bytes needed to continue, where the chain begins, its units so far, where the next begins.
        self._starts: list[tuple[int, int, int, int]] = []

    @property
    def held_bytes(self) -> int:
        """The memory of the buffer and the possible starts."""
        return len(self.buffer) + _START_BYTES * len(self._starts)

    def feed(self, data: bytes) -> tuple[int, int] | None:
        """Feed bytes; return where in ``buffer`` a chain begins and where its proof ends."""
        self._fed_bytes += len(data)
        for start in range(0, len(data), _PIECE):
            self.buffer += data[start : start + _PIECE]
            self._find_starts()
            found = self._follow()
            if found is not None:
                self.buffer += data[start + _PIECE :]
                return found
        return None

    def _follow(self) -> tuple[int, int] | None:
        size = self._base + len(self.buffer)
        starts, rule = self._starts, self._rule
        while starts and starts[0][0] <= size:
            needed, start, count, at = heapq.heappop(starts)
            length = rule.unit(self.buffer, at - self._base, needed - self._base)
            if length < 0:
                heapq.heappush(starts, (at - length, start, count, at))
            elif 0 < length <= rule.unit_bytes:
                if count + 1 >= rule.enough:
                    found = start - self._base, needed - self._base
                    if rule.proves(self.buffer, *found):
                        return found
                    continue  # the one from the next unit on may be
                after = at + length
                heapq.heappush(starts, (after + 1, start, count + 1, after))
        return None

    def droppable(self) -> int:
        """Return how many bytes at the front of ``buffer`` are before any possible start.

        This visits all possible starts. So that single bytes stay cheap, it returns 0 until as many
        bytes were fed as there are possible starts.
        """
        if self._fed_bytes < len(self._starts):
            return 0
        self._fed_bytes = 0
        return min([self._searched, *(possible[1] for possible in self._starts)]) - self._base

    def drop(self, count: int) -> None:
        """Drop bytes at the front of ``buffer``."""
        del self.buffer[:count]
        self._base += count

    def _find_starts(self) -> None:
        for found in self._rule.start.finditer(self.buffer, self._searched - self._base):
            start = found.start() + self._base
            heapq.heappush(self._starts, (start + 1, start, 0, start))
            self._searched = start + 1
        # The pattern may match at the last positions when more bytes are there.
        self._searched = max(self._searched, self._base + len(self.buffer) - 4)
