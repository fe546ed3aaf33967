"""Says how surely the level of a run of blocks differs from that of the rest.

The level is the mean logarithm of durations: a few long ones do not move it much. How much it
varies by itself is seen in each part of the time where it should be one: from batch to batch, for
batches of 1, 2 and 4 blocks, as neighbours may be alike (batch means). The difference of two
levels by its standard error has a t distribution; the variance is that of all parts. Of the batch
lengths, the one counts by which the difference is least sure.

This sees a clear step that has few independent blocks beside it, as where exchanges wait for each
other. Only a clear one: blocks are too few, and pauses too long, for a t distribution to hold far
from its middle. So nearly all blocks of the run must be above nearly all others, or below them: of
the pairs of both, ``_CLEAR`` (the U statistic of Mann and Whitney 1947, by the number of pairs).
"""

import math
from bisect import bisect
from collections.abc import Sequence

_BATCHES = (1, 2, 4)
_LEAST_FREEDOM = 3
"""With fewer batches their variance says nothing."""
_CLEAR = 0.95
_FEWEST_BLOCKS = 6
"""The run, and the rest, has so many blocks at least: a pause has one or two."""
_LEAST_ERROR = 1e-6
"""Where all durations are in one range, nothing varies: it does within the range."""

Parts = Sequence[tuple[int, int]]
"""Runs of blocks, by first and last, exclusive."""


def level_surprise(
    totals: Sequence[int],
    levels: Sequence[float],
    run: tuple[int, int],
    rest: Parts,
    others: Sequence[tuple[int, int]] = (),
) -> float:
    """Return the negative logarithm of the chance that a run has another level than the rest.

    ``totals``: the exchanges of each block. ``levels``: the sum of their levels. ``rest``: what is
    in no run. ``others``: further runs, each with a level of its own.
    """
    if not _is_clear(totals, levels, run, rest):
        return 0.0
    found = [
        _surprise(totals, levels, [[run], rest, *([other] for other in others)], length)
        for length in _BATCHES
    ]
    known = [each for each in found if each is not None]
    return min(known) if known else 0.0


def _is_clear(
    totals: Sequence[int], levels: Sequence[float], run: tuple[int, int], rest: Parts
) -> bool:
    """Return whether nearly all blocks of a run are on one side of nearly all of the rest."""
    inside = [levels[place] / totals[place] for place in range(*run)]
    outside = sorted(levels[place] / totals[place] for part in rest for place in range(*part))
    if min(len(inside), len(outside)) < _FEWEST_BLOCKS:
        return False
    above = sum(bisect(outside, level) for level in inside) / (len(inside) * len(outside))
    return max(above, 1 - above) >= _CLEAR


def _surprise(
    totals: Sequence[int], levels: Sequence[float], regions: Sequence[Parts], length: int
) -> float | None:
    """Return the same by batches of one length; None: they are too few."""
    means, sizes, squares, freedom = [], [], 0.0, 0
    for parts in regions:
        batches = [
            (sum(totals[first : first + length]), sum(levels[first : first + length]))
            for start, end in parts
            for first in range(start, end - length + 1, length)
        ]
        size = sum(count for count, _ in batches)
        if not size:
            return None
        mean = sum(level for _, level in batches) / size
        squares += sum(count * (level / count - mean) ** 2 for count, level in batches)
        freedom += len(batches) - 1
        means.append(mean)
        sizes.append(size)
    if freedom < _LEAST_FREEDOM:
        return None
    error = max(squares / freedom * (1 / sizes[0] + 1 / sizes[1]), _LEAST_ERROR)
    return (freedom + 1) / 2 * math.log1p((means[0] - means[1]) ** 2 / error / freedom)
