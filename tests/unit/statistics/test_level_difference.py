"""The level of a run differs only where the step is clear, and lasts for several blocks."""

import pytest

from sslsniff.statistics.level_difference import level_surprise

TOTALS = [10] * 40


def surprise(levels: list[float], start: int, end: int) -> float:
    rest = [part for part in ((0, start), (end, len(levels))) if part[0] < part[1]]
    return level_surprise(TOTALS, [10 * level for level in levels], (start, end), rest)


def wave(place: int) -> float:
    return (place * 7 % 5) / 10


@pytest.mark.parametrize(("start", "is_sure"), [(20, True), (34, True), (35, False), (38, False)])
def test_a_step_lasts_for_several_blocks(start: int, is_sure: bool) -> None:
    levels = [wave(place) + (8 if place >= start else 0) for place in range(40)]
    assert (surprise(levels, start, 40) > 15) == is_sure


def test_blocks_that_overlap_are_no_step() -> None:
    levels = [wave(place) + (8 if place >= 20 and place % 4 else 0) for place in range(40)]
    assert surprise(levels, 20, 40) == 0
