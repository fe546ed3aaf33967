"""Finds the start of a length-prefixed unit in bytes that may start anywhere.

A position is a start if ``ChainRule.enough`` units follow one another from it. The proof that ends
first wins, so the same bytes give the same position however they are cut.
"""

import heapq
import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass

_START_BYTES = 640  # memory of a possible start: its tuples, its place in a heap and a dictionary

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
    """Matches where a unit may begin. It only saves time, most if it begins with a set of bytes."""
    header_bytes: int
    """The least bytes of a unit, without which none is known; ``start`` needs no more."""
    unit: Unit
    enough: int
    """How many units prove a start."""
    unit_bytes: int
    """The longest unit of a proof."""
    proves: Proves = any_chain


_Chains = tuple[tuple[int, ...], ...]
"""Where the chains begin that lead to a position, by how many units they have before it."""


class ChainSync:
    """Searches for the start of a chain. ``buffer`` has the bytes since the first possible start.

    Chains that lead to the same position go on as one, so a unit is read once, not once for each
    start before it.

    Memory: ``enough`` times ``unit_bytes``, and some integers for each possible start.
    """

    __slots__ = (
        "_base",
        "_chains",
        "_due",
        "_fed_bytes",
        "_rule",
        "_searched",
        "_starts",
        "buffer",
    )

    def __init__(self, rule: ChainRule) -> None:
        self.buffer = bytearray()
        self._rule = rule
        self._base = 0  # bytes dropped from the front of the buffer
        self._searched = 0  # offset up to which possible starts were searched
        self._fed_bytes = 0  # since droppable computed its result
        self._starts = 0  # possible starts in ``_chains``
        self._chains: dict[int, _Chains] = {}  # by the position where the next unit begins
        self._due: list[tuple[int, int]] = []  # a heap: bytes needed to read a unit, its position

    @property
    def held_bytes(self) -> int:
        """The memory of the buffer and the possible starts."""
        return len(self.buffer) + _START_BYTES * self._starts

    def feed(self, data: bytes) -> tuple[int, int] | None:
        """Feed bytes; return where in ``buffer`` a chain begins and where its proof ends."""
        self._fed_bytes += len(data)
        self.buffer += data
        rule, base, chains, due = self._rule, self._base, self._chains, self._due
        size = base + len(self.buffer)
        for match in rule.start.finditer(self.buffer, self._searched - base):
            start = match.start() + base
            needed = start + rule.header_bytes
            # What is due before is followed first: few possible starts are open at a time.
            if due and due[0][0] < needed and (found := self._follow(needed - 1)) is not None:
                return found
            known = chains.get(start)
            if known is None:
                heapq.heappush(due, (needed, start))
            chains[start] = ((start,), *known[1:]) if known else ((start,),)
            self._starts += 1
        self._searched = max(self._searched, size - rule.header_bytes + 1)
        return self._follow(size)

    def _follow(self, size: int) -> tuple[int, int] | None:
        """Read the units for which ``size`` bytes suffice; return what ``feed`` does."""
        base, chains, due, rule = self._base, self._chains, self._due, self._rule
        first: int | None = None  # of the chains that are proved by the same bytes
        while due and due[0][0] <= size:
            needed, at = heapq.heappop(due)
            length = rule.unit(self.buffer, at - base, needed - base)
            if length < 0:
                heapq.heappush(due, (at - length, at))
                continue
            here = chains.pop(at)
            if not 0 < length <= rule.unit_bytes:
                self._starts -= sum(map(len, here))
                continue
            if len(here) == rule.enough:
                *kept, whole = here
                here = tuple(kept)
                self._starts -= len(whole)
                for start in whole:
                    if rule.proves(self.buffer, start - base, needed - base):
                        first, size = start if first is None else min(first, start), needed
            if not any(here):
                continue
            after = at + length
            there = chains.get(after)
            if there is None:
                heapq.heappush(due, (after + rule.header_bytes, after))
            chains[after] = _joined(((), *here), there) if there else ((), *here)
        return (first - base, size - base) if first is not None else None

    def droppable(self) -> int:
        """Return how many bytes at the front of ``buffer`` are before any possible start.

        This visits all possible starts. So that single bytes stay cheap, it returns 0 until as many
        bytes were fed as there are possible starts.
        """
        if self._fed_bytes < self._starts:
            return 0
        self._fed_bytes = 0
        starts = (starts for chains in self._chains.values() for starts in chains if starts)
        return min([self._searched, *map(min, starts)]) - self._base

    def drop(self, count: int) -> None:
        """Drop bytes at the front of ``buffer``."""
        del self.buffer[:count]
        self._base += count


def _joined(first: _Chains, second: _Chains) -> _Chains:
    """Return the chains of both."""
    return tuple(a + b for a, b in itertools.zip_longest(first, second, fillvalue=()))
