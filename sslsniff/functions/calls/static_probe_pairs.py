"""Pairs of static probes at the start and the end of some work: ``x__start`` and ``x__done``.

Providers name them by convention: PostgreSQL, MySQL and Node.js ``start`` and ``done``, the JVM
``begin`` and ``end``, Python and PHP ``entry`` and ``return``. The work takes the time between two
hits of one thread.
"""

import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from sslsniff.fetching.hit_records import Hit
from sslsniff.fetching.trace_places import Place, PlaceKind

_LAST_WORDS = {"start": {"done", "end"}, "begin": {"end"}, "entry": {"return"}}
"""Which words end what a word begins."""
_NAME = re.compile(r"(?P<work>.*[^_-])[_-]+(?P<word>[a-z]+)")
_MOST_STARTED = 4096
"""So many threads may be at some work; then the one that began it first is forgotten."""


class PairRole(NamedTuple):
    """Which of a pair a probe is.

    ``work``: the file, what the names of both begin with, and the last word of the first one.
    """

    work: tuple[str, str, str]
    is_start: bool


class PairStart(NamedTuple):
    """The first hit of a pair: its time, stack pointer, and how many hits were dropped before."""

    time_ns: int
    stack: int
    dropped: int


def pair_roles(places: Sequence[Place]) -> list[PairRole | None]:
    """Return the role of each place; None: it is no static probe, or has no other one."""
    names = [
        _NAME.fullmatch(each.function) if each.kind is PlaceKind.STATIC else None for each in places
    ]
    words: dict[tuple[str, str], set[str]] = {}
    for place, name in zip(places, names, strict=True):
        if name:
            words.setdefault((place.path, name["work"]), set()).add(name["word"])

    def role(place: Place, work: str, word: str) -> PairRole | None:
        there = words[place.path, work]
        if _LAST_WORDS.get(word, set()) & there:
            return PairRole((place.path, work, word), is_start=True)
        for first, last in _LAST_WORDS.items():
            if word in last and first in there:
                return PairRole((place.path, work, first), is_start=False)
        return None

    return [
        role(place, name["work"], name["word"]) if name else None
        for place, name in zip(places, names, strict=True)
    ]


class StaticProbePairs:
    """Knows the first hit of each pair until the second one comes, by thread."""

    def __init__(self) -> None:
        self._started: OrderedDict[tuple[int, int, tuple[str, str, str]], list[PairStart]] = (
            OrderedDict()
        )

    def first_of(self, role: PairRole, hit: Hit) -> PairStart | None:
        """Return the first hit of the pair; None: this is it, or it was not seen.

        Work may be inside of work of the same name, deeper in the stack. What began at the same
        stack pointer or below had no end: an error left it.
        """
        key = hit.pid, hit.tid, role.work
        if role.is_start:
            starts = self._started.setdefault(key, [])
            while starts and starts[-1].stack <= hit.stack:
                starts.pop()
            starts.append(PairStart(hit.time_ns, hit.stack, hit.dropped))
            if len(self._started) > _MOST_STARTED:
                self._started.popitem(last=False)
            return None
        starts = self._started.get(key, [])
        if not starts:
            return None
        start = starts.pop()
        if not starts:
            del self._started[key]
        return start

    def end_process(self, pid: int) -> None:
        """Forget what the threads of a process began."""
        for key in [each for each in self._started if each[0] == pid]:
            del self._started[key]
