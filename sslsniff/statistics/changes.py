"""Says of a group since when it is slower or fails more often, and which of its raw paths do.

Whether something changed, and when, is found by ``level_shifts``: for the share of exchanges that
failed, and for the share that took longer than a limit, with one limit after the other. A limit
finds what a median would miss: that 1 of 100 exchanges became slow. A change must also matter:
see ``_LEAST_RATIO``.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from sslsniff.statistics.level_shifts import Run, find_shifts
from sslsniff.statistics.raw_paths import RawPath
from sslsniff.statistics.time_lines import Slice, TimeLine, joined, quantile, range_of

ERROR_RATE = 1 / 10_000
"""The chance that a capture of independent exchanges without a change shows one, at most. Where
they are not independent, the dispersion is an estimate; this keeps it at about one in 1,000."""

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

_LEAST_RATIO = 1.5
"""A change by less is not worth a sentence."""
_FAR_MORE = 2
"""A higher quantile is named if it changed by so many times the ratio of a lower one."""
_LEAST_NS = 2_000_000
"""Nor is a duration that differs by less than this: 2 ms."""
_LEAST_SHARE = 0.01
"""Nor a share of failures that differs by less than this."""
_RANGES_A_LIMIT = 2
"""Limits are so many ranges of durations apart: a factor of 1.4."""

_MOST_NAMED = 3
"""Raw paths are named if so few of them have nearly all additional hits."""
_NAMED_SHARE = 0.9
"""What nearly all is."""
_MOST_OF_GROUP = 0.5
"""The share of exchanges that they have at most: if it is greater, the group changed."""
_SUSPECTS = 3
"""Raw paths that are searched alone if the group shows no change: the slowest, or most failing."""
_FEWEST_BEFORE = 3
"""With fewer exchanges, how long a path took before is not known."""

DURATION, ERRORS = "duration", "errors"
"""What changes: how long exchanges take, or the share of those that fail."""
ONLY, MORE, NEW, MOSTLY = "only", "more", "new", "mostly"
"""What is known of the raw paths that are named: they alone changed; they are as before, but
more exchanges have them; no exchange had them before; they have nearly all slow or failed
exchanges, and what they had before is not known."""


class Change(NamedTuple):
    """A change of a group.

    ``what``: ``DURATION`` or ``ERRORS``. ``since_ns``: when the first slice of time with the change
    begins, since the epoch. ``until_ns``: when the last one ends; None: it lasts to the end.
    ``slice_ns``: their width, to which both times are known. ``quantile``: the one of
    ``QUANTILES`` that changed; None for errors. ``before``, ``after``: that quantile in
    nanoseconds, or the share that failed; if ``cause`` is ``ONLY``, of the ``paths`` alone.
    ``cause``: see ``ONLY``; None: no raw path stands out, and ``paths`` is empty. ``surprise``: see
    ``level_shifts.Run``.
    """

    what: str
    since_ns: int
    until_ns: int | None
    slice_ns: int
    quantile: str | None
    before: float
    after: float
    cause: str | None
    paths: tuple[str, ...]
    surprise: float

    @property
    def is_worse(self) -> bool:
        """Whether exchanges became slower, or failed more often."""
        return self.after > self.before


def find_changes(
    line: TimeLine, raw_paths: Mapping[str, RawPath], *, knows_all: bool = True, lines: int = 1
) -> list[Change]:
    """Return what changed in a group, by time.

    ``line``: its exchanges over time. ``raw_paths``: the raw paths that are known, which are all if
    ``knows_all``. ``lines``: how many groups of the capture are searched: in more of them, chance
    would find more.
    """
    slices = line.slices()
    log_tests = math.log(lines / ERROR_RATE)
    changes: list[Change] = []
    for what in (ERRORS, DURATION):
        found = _search(what, slices, log_tests) or _search_paths(
            what, raw_paths, line.shift, log_tests
        )
        for measure, windows in found:
            for sides in _sides(windows, slices, line.width_ns):
                change = _change(measure, sides, raw_paths, line.shift, knows_all=knows_all)
                if change is not None:
                    changes.append(change)
    return sorted(changes, key=lambda change: (change.since_ns, change.what))


class _Measure(NamedTuple):
    """What is counted in a slice: how many exchanges, and how many of them are hits."""

    what: str
    total: Callable[[Slice], int]
    hits: Callable[[Slice], int]


class _Window(NamedTuple):
    """A time in which the share of hits is another; None: from the first, or to the last slice."""

    start_ns: int | None
    end_ns: int | None
    surprise: float

    def has(self, time_ns: int) -> bool:
        """Return whether a slice that begins at this time is in it."""
        return (self.start_ns is None or time_ns >= self.start_ns) and (
            self.end_ns is None or time_ns < self.end_ns
        )


class _Sides(NamedTuple):
    """The slices without a change, and those with it, by the times at which they begin."""

    since_ns: int
    until_ns: int | None
    slice_ns: int
    before: dict[int, Slice]
    after: dict[int, Slice]
    surprise: float


_Slices = list[tuple[int, Slice]]
_Found = list[tuple[_Measure, list[_Window]]]


def _search(what: str, slices: _Slices, log_tests: float) -> _Found:
    """Return the measure by which a change is seen best, and when; nothing: no change."""
    measures = [_failures()] if what == ERRORS else _limits(slices)
    series = [each for each in slices if measures and measures[0].total(each[1])]
    hits: dict[tuple[int, ...], _Measure] = {}  # without limits between which no duration is
    for measure in measures:
        hits.setdefault(tuple(measure.hits(each) for _, each in series), measure)
    totals = [measures[0].total(each) for _, each in series]
    levels = [sum(each.slower[1:]) for _, each in series] if what == DURATION else []
    limit, runs = find_shifts(totals, [*hits], log_tests, levels)
    return [([*hits.values()][limit], [_window(series, run) for run in runs])] if runs else []


def _search_paths(
    what: str, raw_paths: Mapping[str, RawPath], shift: int, log_tests: float
) -> _Found:
    """Return the same of the most suspicious raw paths: a rare one is not seen among the others."""

    def suspicion(name: str) -> tuple[int, str]:
        path = raw_paths[name]
        return -(path.errors if what == ERRORS else path.max_ns or 0), name

    log_tests += math.log(len(raw_paths) or 1)  # the choice of some of them is a test of all
    found: _Found = []
    for name in sorted(raw_paths, key=suspicion)[:_SUSPECTS] if len(raw_paths) > 1 else ():
        found += _search(what, raw_paths[name].line.slices(shift), log_tests)
    return sorted(found, key=lambda each: -max(window.surprise for window in each[1]))[:1]


def _limits(slices: _Slices) -> list[_Measure]:
    """Return measures of slowness: with limits from the longest duration to the shortest.

    So the highest comes first of limits that are as good, as nothing else exceeds it. The shortest
    one is the least change that matters: below it, load moves microseconds back and forth, which
    would hide a change that matters.
    """
    slower = joined(each for _, each in slices).slower
    used = [place for place, (one, more) in enumerate(pairwise((*slower, 0))) if one > more]
    if not used:
        return []
    shortest = max(used[0], range_of(_LEAST_NS) - 1)
    return [*map(_slowness, range(used[-1], shortest, -_RANGES_A_LIMIT))]


def _failures() -> _Measure:
    return _Measure(ERRORS, lambda counted: counted.exchanges, lambda counted: counted.errors)


def _slowness(limit: int) -> _Measure:
    return _Measure(
        DURATION,
        lambda counted: counted.slower[0],
        lambda counted: counted.slower[limit],
    )


def _window(series: _Slices, run: Run) -> _Window:
    if not run.start:
        return _Window(None, series[run.end][0], run.surprise)
    end_ns = series[run.end - 1][0] + 1 if run.end < len(series) else None
    return _Window(series[run.start][0], end_ns, run.surprise)


def _sides(windows: list[_Window], slices: _Slices, width_ns: int) -> Iterator[_Sides]:
    """Yield of each window the slices in it, and those outside of all windows.

    A window that begins with the capture is the time before a change, not after one.
    """
    rest = dict(each for each in slices if not any(window.has(each[0]) for window in windows))
    for window in windows:
        own = dict(each for each in slices if window.has(each[0]))
        if window.start_ns is None:
            assert window.end_ns is not None
            yield _Sides(window.end_ns, None, width_ns, own, rest, window.surprise)
        else:
            until_ns = None if window.end_ns is None else max(own) + width_ns
            yield _Sides(window.start_ns, until_ns, width_ns, rest, own, window.surprise)


def _change(
    measure: _Measure,
    sides: _Sides,
    raw_paths: Mapping[str, RawPath],
    shift: int,
    *,
    knows_all: bool,
) -> Change | None:
    """Return the change between two sides; None if it does not matter."""
    of_paths = {
        name: (_on(sides.before, slices), _on(sides.after, slices))
        for name, path in raw_paths.items()
        if (slices := dict(path.line.slices(shift)))
    }
    named = _named(measure, sides, of_paths)
    before, after = joined(sides.before.values()), joined(sides.after.values())
    cause: str | None = None
    if named:
        own_before, own_after = (joined(of_paths[name][side] for name in named) for side in (0, 1))
        is_known = min(map(measure.total, (own_before, own_after))) >= _FEWEST_BEFORE
        if is_known and (own := _figures(measure, own_before, own_after)):
            return _made(measure, sides, own, ONLY, named)
        cause = MORE if is_known else NEW if knows_all else MOSTLY
    figures = _figures(measure, before, after)
    return _made(measure, sides, figures, cause, named) if figures else None


def _named(
    measure: _Measure, sides: _Sides, of_paths: Mapping[str, tuple[Slice, Slice]]
) -> tuple[str, ...]:
    """Return the raw paths that have nearly all additional hits; none if they are many."""
    shares = [_share(measure, joined(each.values())) for each in (sides.before, sides.after)]
    worse = shares.index(max(shares))
    usual = min(shares)
    whole = joined((sides.before, sides.after)[worse].values())

    def additional(counted: Slice) -> float:
        return measure.hits(counted) - usual * measure.total(counted)

    if len(of_paths) < 2:
        return ()
    ranked = sorted(of_paths, key=lambda name: (-additional(of_paths[name][worse]), name))
    named: list[str] = []
    for name in ranked[:_MOST_NAMED]:
        named.append(name)
        own = joined(of_paths[each][worse] for each in named)
        if measure.total(own) > _MOST_OF_GROUP * measure.total(whole):
            return ()
        if additional(own) >= _NAMED_SHARE * additional(whole):
            return tuple(named)
    return ()


def _figures(
    measure: _Measure, before: Slice, after: Slice
) -> tuple[str | None, float, float] | None:
    """Return which quantile differs, and how it was and is; None if no difference matters.

    The lowest one, unless another differs by far more: where a part of the exchanges became slow,
    the median lies between the others and these, and is true of none.
    """
    is_worse = _share(measure, after) > _share(measure, before)
    if measure.what == ERRORS:
        pair = _share(measure, before), _share(measure, after)
        return (None, *pair) if _matters(*pair, _LEAST_SHARE) else None
    found: tuple[str, float, float] | None = None
    for name, share in QUANTILES.items():
        old, new = quantile(before, share), quantile(after, share)
        if old is None or new is None or (new > old) != is_worse:
            continue
        differs = _matters(old, new, _LEAST_NS)
        if differs and (found is None or _ratio(old, new) > _FAR_MORE * _ratio(*found[1:])):
            found = name, old, new
    return found


def _ratio(one: float, other: float) -> float:
    low, high = sorted((one, other))
    return high / low


def _matters(before: float, after: float, least: float) -> bool:
    low, high = sorted((before, after))
    return high - low >= least and high >= _LEAST_RATIO * low


def _made(
    measure: _Measure,
    sides: _Sides,
    figures: tuple[str | None, float, float],
    cause: str | None,
    paths: tuple[str, ...],
) -> Change:
    times = sides.since_ns, sides.until_ns, sides.slice_ns
    return Change(measure.what, *times, *figures, cause, paths, sides.surprise)


def _on(side: Mapping[int, Slice], slices: Mapping[int, Slice]) -> Slice:
    """Return what ``slices`` counted at the times of ``side``."""
    return joined(each for time_ns, each in slices.items() if time_ns in side)


def _share(measure: _Measure, counted: Slice) -> float:
    total = measure.total(counted)
    return measure.hits(counted) / total if total else 0.0
