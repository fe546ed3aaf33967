"""Says of a group that it is new, or gone: since when, and whether chance would explain it.

A group of exchanges is new if none of them is in the first part of the capture, and gone if none is
in the last one. The question is whether that part is long enough.

**The chance.** Time is cut into slices; those in which nothing was captured at all are left out, so
``n`` are left. The group is in ``k`` of them, and not in the first ``a``. If its slices were any
``k`` of the ``n``, the chance that none is among the first ``a`` is C(n - a, k) / C(n, k), exactly.
A slice counts once, however many exchanges it has: a burst is no more evidence than one exchange.
The chance is multiplied with 2, as groups may be new or gone, and with the number of groups.

**Slices are not independent.** Where a group was in one slice, it often is in the next one, as
users stay for some time, and load comes in waves. So the logarithm of the chance is divided by the
dispersion of these slices: see ``level_shifts.less_by_dispersion``.

**What chance does not explain, and is no news either.** What runs once and is over, such as a start
or a job, is in one part of every capture that it is in. It is not said if it lasts for less than an
eighth of the capture. What comes from time to time, such as a job of every minute, has gaps: the
part without it must be longer than twice the longest of them, and than twice the longest exchange,
which is counted when it ends. docs/statistics.md has what was measured.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from sslsniff.statistics.level_shifts import less_by_dispersion
from sslsniff.statistics.presence import Presence

ERROR_RATE = 1 / 10_000
"""The chance that a capture in which nothing changes has a new or gone group, at most, if slices
are independent; where they are not, the dispersion is an estimate."""

_LEAST_NS = 10 * 10**9
"""A group is there, and is not there, for so long at least: a start has many phases."""
_LEAST_SHARE = 1 / 8
"""And for this share of the capture, and of the slices."""
_FEWEST_SLICES = 5
"""It is in so many slices at least."""
_LEFT_SHARE = 1 / 20
"""For so long it may be away at the other end of the capture, however short its pauses are."""
_GAPS = 2
"""It is not there for longer than so many times the longest gap, or the longest exchange."""

NEW, GONE = "new", "gone"


class Appearance(NamedTuple):
    """A group appears, or vanishes.

    ``what``: ``NEW`` or ``GONE``. ``since_ns``: when its first exchange began, or its last one,
    since the epoch. ``slice_ns``: the width of a slice of time. ``exchanges``: how many it has.
    ``present_ns``, ``absent_ns``: for how long of the capture it was there, and was not.
    ``surprise``: the negative logarithm of the chance that it has.
    """

    what: str
    since_ns: int
    slice_ns: int
    exchanges: int
    present_ns: int
    absent_ns: int
    surprise: float

    @property
    def until_ns(self) -> None:
        """See ``changes.Change``: it lasts to the end."""

    @property
    def is_worse(self) -> bool:
        """See ``changes.Change``: that is not known."""
        return False


def find_appearance(
    group: Presence, capture: Presence, exchanges: int, *, groups: int = 1
) -> Appearance | None:
    """Return whether a group of the capture is new or gone; None: neither.

    ``capture``: all exchanges, those of the group among them. ``exchanges``: how many the group
    has. ``groups``: how many groups are searched.
    """
    span_ns = capture.last_ns - capture.first_ns
    before_ns, after_ns = group.first_ns - capture.first_ns, capture.last_ns - group.last_ns
    absent_ns = max(before_ns, after_ns)
    present_ns = span_ns - absent_ns
    least_ns = max(_LEAST_NS, _LEAST_SHARE * span_ns)
    if min(present_ns, absent_ns) < least_ns or absent_ns <= _GAPS * group.longest_ns:
        return None
    is_new = before_ns > after_ns
    own = {*group.slices(capture.shift)}
    numbers = sorted({*capture.slices()}, reverse=not is_new)
    surprise = _surprise([number in own for number in numbers])
    if surprise < math.log(2 * groups / ERROR_RATE):
        return None
    what, since_ns = (NEW, group.first_ns) if is_new else (GONE, group.last_ns)
    slice_ns = 1 << capture.shift
    return Appearance(what, since_ns, slice_ns, exchanges, present_ns, absent_ns, surprise)


def _surprise(there: Sequence[bool]) -> float:
    """Return how surprising it is that the first slices have no exchange; 0: not at all."""
    places = [place for place, is_there in enumerate(there) if is_there]
    count, present = len(there), len(places)
    if present < _FEWEST_SLICES:
        return 0.0
    absent, left = places[0], count - 1 - places[-1]
    pause = max(after - before - 1 for before, after in pairwise(places))
    if left > max(pause, _LEFT_SHARE * count):
        return 0.0  # it was there for a time, and is not any more
    if min(absent, count - absent) < _LEAST_SHARE * count or absent <= _GAPS * max(pause, left):
        return 0.0
    chance = _log_choices(count - absent, present) - _log_choices(count, present)
    return less_by_dispersion(-chance, there[absent : count - left])


def _log_choices(count: int, chosen: int) -> float:
    """Return the logarithm of the number of ways to choose some of so many."""
    return math.lgamma(count + 1) - math.lgamma(chosen + 1) - math.lgamma(count - chosen + 1)
