"""Find the first of a chain of length-prefixed units in bytes that may start anywhere.

A place counts if so many units follow one another from it. The earliest proof wins, so that the
same bytes give the same place however they are cut.
"""

import heapq
import re
from collections.abc import Callable
from dataclasses import dataclass

_PIECE = 1024  # looked through at once: places are soon in question no more
_PLACE_BYTES = 200  # memory of a place in question

Unit = Callable[[bytes | bytearray, int, int], int]
"""Tells how long the unit at a place is, by the bytes before a stop; 0 if none begins there;
``-n`` if ``n`` bytes from the place on are needed to tell."""


@dataclass(frozen=True, slots=True)
class ChainRule:
    """What makes a chain: ``enough`` units of at most ``unit_bytes``, which bounds what is held.

    ``start`` looks ahead, over five bytes at most, where a unit may begin: it only saves time.
    """

    start: re.Pattern[bytes]
    unit: Unit
    enough: int
    unit_bytes: int


class ChainSync:
    """Takes bytes until a chain begins; ``held`` are those in question.

    Memory: ``enough`` times ``unit_bytes``, and a tuple for each place in question.
    """

    __slots__ = ("_base", "_fed_bytes", "_places", "_rule", "_searched", "held")

    def __init__(self, rule: ChainRule) -> None:
        self.held = bytearray()
        self._rule = rule
        self._base = 0  # bytes dropped from the front of held
        self._searched = 0  # up to where places were looked for
        self._fed_bytes = 0  # since it was asked what may be dropped
        # Bytes needed to continue, where the chain begins, its units so far, where the next begins.
        self._places: list[tuple[int, int, int, int]] = []

    @property
    def held_bytes(self) -> int:
        """The memory that the bytes and places in question take."""
        return len(self.held) + _PLACE_BYTES * len(self._places)

    def feed(self, data: bytes) -> tuple[int, int] | None:
        """Take more bytes; return where in ``held`` a chain begins and where its proof ends."""
        self._fed_bytes += len(data)
        for start in range(0, len(data), _PIECE):
            self.held += data[start : start + _PIECE]
            self._find_places()
            found = self._follow()
            if found is not None:
                self.held += data[start + _PIECE :]
                return found
        return None

    def _follow(self) -> tuple[int, int] | None:
        size = self._base + len(self.held)
        places, rule = self._places, self._rule
        while places and places[0][0] <= size:
            needed, start, count, at = heapq.heappop(places)
            length = rule.unit(self.held, at - self._base, needed - self._base)
            if length < 0:
                heapq.heappush(places, (at - length, start, count, at))
            elif 0 < length <= rule.unit_bytes:
                if count + 1 >= rule.enough:
                    return start - self._base, needed - self._base
                after = at + length
                heapq.heappush(places, (after + 1, start, count + 1, after))
        return None

    def droppable(self) -> int:
        """Return how many bytes at the front of ``held`` are in question no more.

        All places are looked at, so not for each byte that may come alone: 0 until more did.
        """
        if self._fed_bytes < len(self._places):
            return 0
        self._fed_bytes = 0
        return min([self._searched, *(place[1] for place in self._places)]) - self._base

    def drop(self, count: int) -> None:
        """Forget bytes at the front of ``held``."""
        del self.held[:count]
        self._base += count

    def _find_places(self) -> None:
        for found in self._rule.start.finditer(self.held, self._searched - self._base):
            start = found.start() + self._base
            heapq.heappush(self._places, (start + 1, start, 0, start))
            self._searched = start + 1
        # One of the last places may match when more has come.
        self._searched = max(self._searched, self._base + len(self.held) - 4)
