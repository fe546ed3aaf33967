"""Finds out whether a share changed, and when: of slow exchanges, or of failed ones.

Each slice of time has some exchanges, of which some are *hits*: slower than a limit, or failed. If
nothing changes, all slices have hits in one proportion, but for chance. The question is whether a
run of slices, to the end of the capture or inside of it, has another proportion than the rest.

**Search.** Slices are joined to ``_MOST_BLOCKS`` blocks at most. For each run of blocks, the hits
in it are compared with those outside of it by the likelihood ratio of binomial distributions
(Wilks 1938): G is twice the logarithm of how much better two proportions explain the hits than one
does. This is circular binary segmentation (Olshen, Venkatraman, Lucito, Wigler 2004) with counts.
The best run is taken out, and the rest is searched again, up to ``_MOST`` times. At last the ends
of a run are moved to the slices that fit best.

**Limits.** Slowness is searched by many limits at once, as a single quantile misses what changes
beside it. The run that counts is that of the limit with the greatest G.

**Exchanges are not independent.** Of independent ones, G has nearly a chi-squared distribution of
one degree of freedom. But a pause makes all slow that wait for it, and load comes in waves. So G
is divided by the dispersion: how much more the hits vary than those of independent exchanges,
where no run was found. It is the sum of squared residuals by that of binomial variances (McCullagh
and Nelder, Generalized Linear Models, 4.5), of single blocks, of pairs, and of fours: where
neighbours are alike, longer batches vary more (batch means). The one that makes G least likely to
be more than chance counts. As it is an estimate, G by it is the square of a t statistic.

It counts by each limit, not only by that of the run: the longest durations of a wave are few, and
all of them are in the run, so by their limit nothing varies outside. A run that is not significant
is put back, which makes the dispersion greater, until all that are left are significant.

**Or by level.** Where exchanges wait for each other, the limits that lie within a clear step vary
so much that it would not be sure by any. So a run is significant, too, if the level of durations
differs from the rest's by far more than it varies (``level_difference``): one test more.

**How sure.** The chance of one run is multiplied with the number of runs, of limits, and of
whatever else the caller says that it asks of a capture (Bonferroni, which is too careful, as runs
overlap). Half of that chance is for runs that begin or end with the capture, and half for those
inside of it, of which there are far more: they must explain more. docs/statistics.md has what was
measured on data with heavy tails, waves, pauses and queues. What lasts longer than four blocks
cannot be distinguished from a change.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from sslsniff.statistics.level_difference import level_surprise

_MOST_BLOCKS = 64
"""Runs of blocks are tried: 2,016 of them."""
_MOST = 3
"""Runs that are looked for: what changes more often varies, and has not changed."""
_FEWEST_SLICES = 5
"""A run, and the rest, has so many slices with exchanges at least: a single pause is no change."""
_TRIED_LIMITS = 3
"""The limits, by G the best ones, by which runs are looked at closely."""
_BATCHES = (1, 2, 4)
"""Lengths of the batches by which the dispersion is estimated, in blocks."""
_BATCHES_OF_SLICES = (1, 2, 4, 8)
"""The same in slices, of which a block has up to four."""
_DEVIATIONS = 1
"""By so many standard deviations a dispersion by another limit is taken to be too high, as the
greatest of many estimates is."""
_TYPICAL_HITS = 16
"""A limit with so many hits and others tells how blocks vary: with fewer, chance is most of it."""
_LEAST_FREEDOM = 3
"""With fewer batches of a length their variance says nothing."""


class Run(NamedTuple):
    """Slices ``start`` to ``end``, exclusive, whose share of hits differs from the others'.

    ``surprise``: half of G by the dispersion, less ``_second_end``: the negative logarithm of the
    chance that it has, up to the number of runs that begin or end with the capture.
    """

    start: int
    end: int
    surprise: float


def find_shifts(
    totals: Sequence[int],
    hits_by_limit: Sequence[Sequence[int]],
    log_tests: float,
    levels: Sequence[float] = (),
) -> tuple[int, list[Run]]:
    """Return the limit by which a change is seen best, and the runs of slices that differ.

    ``totals``: of each slice, by time; each is 1 or more. ``hits_by_limit``: for each limit the
    hits of each slice. ``levels``: the sum of the levels of each slice's exchanges, see
    ``level_difference``; empty: they have none. The runs are by time; none: no change is seen.
    """
    if len(totals) < 2 * _FEWEST_SLICES:
        return 0, []
    size = -(-len(totals) // _MOST_BLOCKS)
    starts = range(0, len(totals), size)
    fewest = -(-_FEWEST_SLICES // size)
    log_tests += math.log(len(hits_by_limit) + bool(levels) or 1)
    least = _least_surprise(log_tests + math.log(4 * len(starts)))
    block_totals = [sum(totals[start : start + size]) for start in starts]
    block_levels = [sum(levels[start : start + size]) for start in starts] if levels else []
    series = [
        _Series(block_totals, [sum(hits[start : start + size]) for start in starts])
        for hits in hits_by_limit
    ]
    found = [(_candidates(blocks, fewest, least), limit) for limit, blocks in enumerate(series)]
    found.sort(key=lambda each: -max((run.surprise for run in each[0]), default=0.0))
    for candidates, limit in found[:_TRIED_LIMITS]:
        runs = _significant(series, limit, candidates, least, block_levels)
        if runs:
            slices = _Series(totals, hits_by_limit[limit])
            sharpened = [
                _sharpened(slices, run, size, min(run.end * size, len(totals))) for run in runs
            ]
            return limit, sorted(run for run in sharpened if _is_spread(slices, run))
    return 0, []


def _least_surprise(log_tests: float) -> float:
    """Return which half of G chance exceeds once in so many tests.

    G has nearly a chi-squared distribution of one degree of freedom, whose tail beyond 2x is
    exp(-x) / sqrt(pi x), for x far above 1.
    """
    least = log_tests
    for _ in range(4):  # converges: each step is less than a tenth of the last one
        least = log_tests - math.log(math.pi * least) / 2
    return least


class _Series:
    """Totals and hits of consecutive slices or blocks, and their sums from the first one on."""

    def __init__(self, totals: Sequence[int], hits: Sequence[int]) -> None:
        self.totals, self.hits = totals, hits
        self.total_before, self.hits_before = _sums_before(totals), _sums_before(hits)

    def of(self, start: int, end: int) -> tuple[int, int]:
        """Return total and hits from ``start`` to ``end``."""
        return (
            self.total_before[end] - self.total_before[start],
            self.hits_before[end] - self.hits_before[start],
        )


def _candidates(blocks: _Series, fewest: int, least: float) -> list[Run]:
    """Return up to ``_MOST`` runs, the most surprising first if exchanges were independent."""
    found: list[Run] = []
    gaps = [(0, len(blocks.totals))]
    while len(found) < _MOST:
        best = max(
            (run for gap in gaps for run in _best_run(blocks, gap, gaps, fewest, least)),
            key=lambda run: run.surprise,
            default=None,
        )
        if best is None:
            break
        found.append(best)
        gaps = [
            piece
            for start, end in gaps
            for piece in (
                ((start, best.start), (best.end, end))
                if start <= best.start < end
                else ((start, end),)
            )
            if piece[0] < piece[1]
        ]
    return found


def _best_run(
    blocks: _Series, gap: tuple[int, int], gaps: list[tuple[int, int]], fewest: int, least: float
) -> list[Run]:
    """Return the most surprising run inside ``gap``, compared with the rest of all ``gaps``."""
    start, end = gap
    room = sum(each[1] - each[0] for each in gaps)
    total, hits = (sum(each) for each in zip(*(blocks.of(*each) for each in gaps), strict=True))
    if not 0 < hits < total:
        return []
    share = hits / total
    total_before, hits_before = blocks.total_before, blocks.hits_before
    more_before = [
        hit - share * count for count, hit in zip(total_before, hits_before, strict=True)
    ]
    # The score, with which G begins as a series, is quicker, and at least half of it, so it says
    # which runs are worth the logarithms. Under it, nearly none is.
    limit = least * share * (1 - share) / total
    best = Run(0, 0, least)
    for first in range(start, end - fewest + 1):
        total_0, more_0 = total_before[first], more_before[first]
        for last in range(first + fewest, min(end, first + room - fewest) + 1):
            more, inside = more_before[last] - more_0, total_before[last] - total_0
            if more * more > limit * inside * (total - inside):
                hits_inside = hits_before[last] - hits_before[first]
                surprise = _surprise(inside, hits_inside, total, hits)
                surprise -= _second_end(first, last, len(blocks.totals))
                if surprise > best.surprise:
                    best = Run(first, last, surprise)
    return [best] if best.end else []


def _significant(
    series: list[_Series], limit: int, runs: list[Run], least: float, levels: list[float]
) -> list[Run]:
    """Return those of ``runs`` that are surprising even if blocks vary as they do beside them.

    As they do by any limit: the longest durations of a wave are few, and have no neighbours left.
    Of so many limits some vary more by chance, so those of others count as far as that is sure.
    """
    totals = series[0].totals
    while runs:
        rest, places = _gaps(len(totals), runs), [(run.start, run.end) for run in runs]
        regions = [rest, *([place] for place in places)]
        found = _dispersions(series[limit], regions)
        for blocks in series:
            hits, total = sum(blocks.hits), sum(blocks.totals)
            if blocks is not series[limit] and min(hits, total - hits) >= _TYPICAL_HITS:
                found += [each.at_least() for each in _dispersions(blocks, regions)]
        rated = []
        for run in runs:
            less = _second_end(run.start, run.end, len(totals))
            surprise = min(each.surprise(run.surprise + less) for each in found)
            if levels and surprise - less < least:
                own = (run.start, run.end)
                others = [place for place in places if place != own]
                surprise = max(surprise, level_surprise(totals, levels, own, rest, others))
            rated.append(run._replace(surprise=surprise - less))
        if all(run.surprise >= least for run in rated):
            return rated
        weakest = min(range(len(rated)), key=lambda place: rated[place].surprise)
        runs = [run for place, run in enumerate(runs) if place != weakest]
    return []


class _Dispersion(NamedTuple):
    """How much more hits vary than those of independent exchanges, which have a ``factor`` of 1.

    ``freedom``: how many batches it is estimated from, less one in each region.
    """

    factor: float
    freedom: int

    def at_least(self) -> "_Dispersion":
        """Return what it is if the estimate is too high by ``_DEVIATIONS`` of it."""
        return self._replace(factor=self.factor / (1 + _DEVIATIONS * math.sqrt(2 / self.freedom)))

    def surprise(self, half_g: float) -> float:
        """Return the negative logarithm of the chance of a run, from half of its G.

        G by the factor is the square of a t statistic, and this is the tail of its distribution. Of
        the variance, that of independent exchanges is known, and the rest estimated: the degrees of
        freedom of both together are Satterthwaite's (1946).
        """
        if self.factor <= 1:
            return half_g
        freedom = self.freedom * (self.factor / (self.factor - 1)) ** 2
        return (freedom + 1) / 2 * math.log1p(2 * half_g / self.factor / freedom)


def less_by_dispersion(surprise: float, hits: Sequence[bool]) -> float:
    """Return a surprise, if slices vary as these do, and not as independent ones.

    ``surprise``: the negative logarithm of a chance. ``hits``: whether each slice is a hit, which
    all are equally likely.
    """
    slices = _Series([1] * len(hits), hits)
    found = _dispersions(slices, [[(0, len(hits))]], _BATCHES_OF_SLICES)
    return min(each.surprise(surprise) for each in found)


def _dispersions(
    blocks: _Series, regions: list[list[tuple[int, int]]], lengths: Sequence[int] = _BATCHES
) -> list[_Dispersion]:
    """Return the dispersion by single blocks, and by batches of them.

    ``regions``: parts of the time with one share of hits each, as runs of blocks. ``lengths``: of
    batches, in blocks.
    """
    found = [_Dispersion(1.0, 1)]
    for length in lengths:
        squares = variance = 0.0
        freedom = count = 0
        for gaps in regions:
            total, hits = (
                sum(each) for each in zip(*(blocks.of(*gap) for gap in gaps), strict=True)
            )
            if not 0 < hits < total:
                continue  # nothing varies here
            share = hits / total
            batches = [
                blocks.of(first, first + length)
                for start, end in gaps
                for first in range(start, end - length + 1, length)
            ]
            squares += sum((batch[1] - batch[0] * share) ** 2 / batch[0] for batch in batches)
            variance += len(batches) * share * (1 - share)
            count += len(batches)
            freedom += len(batches) - 1
        if freedom < _LEAST_FREEDOM:
            break
        found.append(_Dispersion(squares / variance * count / freedom, freedom))
    return found


def _sharpened(slices: _Series, run: Run, size: int, end: int) -> Run:
    """Return a run of blocks as one of slices, with its ends moved to those that fit best."""
    start, last = run.start * size, len(slices.totals)
    total, hits = slices.of(0, last)
    starts = range(max(1, start - size), start + size + 1) if start else (0,)
    ends = range(end - size, min(last - 1, end + size) + 1) if end < last else (last,)
    best = max(
        ((first, after) for first in starts for after in ends if after - first >= _FEWEST_SLICES),
        key=lambda place: _surprise(*slices.of(*place), total, hits),
    )
    return Run(*best, run.surprise)


def _is_spread(slices: _Series, run: Run) -> bool:
    """Return whether what a run has more of is in enough slices: not in a single pause."""
    total, hits = slices.of(0, len(slices.totals))
    inside, hits_inside = slices.of(run.start, run.end)
    has_more = hits_inside * total > hits * inside
    found = [
        slices.hits[place] if has_more else slices.totals[place] - slices.hits[place]
        for place in range(run.start, run.end)
    ]
    return sum(1 for count in found if count) >= _FEWEST_SLICES


def _second_end(start: int, end: int, count: int) -> float:
    """Return what it costs a run that it neither begins nor ends with the ``count`` blocks.

    By it, the ``count`` ** 2 / 2 runs inside find no more by chance than the 2 ``count`` others.
    """
    return math.log(count / 4) if start and end < count else 0.0


def _gaps(count: int, runs: list[Run]) -> list[tuple[int, int]]:
    """Return what is outside of ``runs``."""
    ends = [0, *(run.end for run in sorted(runs))]
    starts = [*(run.start for run in sorted(runs)), count]
    return [(start, end) for start, end in zip(ends, starts, strict=True) if start < end]


def _surprise(inside: int, hits_inside: int, total: int, hits: int) -> float:
    """Return half of G: how much better two shares explain the hits than one."""
    return (
        _log_likelihood(inside, hits_inside)
        + _log_likelihood(total - inside, hits - hits_inside)
        - _log_likelihood(total, hits)
    )


def _log_likelihood(total: int, hits: int) -> float:
    """Return the logarithm of the greatest likelihood of ``hits``, but for the same constant."""
    misses = total - hits
    likelihood = hits * math.log(hits / total) if hits else 0.0
    return likelihood + (misses * math.log(misses / total) if misses else 0.0)


def _sums_before(numbers: Sequence[int]) -> list[int]:
    sums = [0]
    for each in numbers:
        sums.append(sums[-1] + each)
    return sums
