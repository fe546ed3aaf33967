"""Exchanges over time: right counts, in any order, in bounded memory."""

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.statistics.time_lines import (
    MOST_SLICES,
    RANGES,
    RELATIVE_ERROR,
    TimeLine,
    joined,
    quantile,
    range_of,
)

START_NS = 1_800_000_000 * 10**9
_Added = tuple[int, int | None, bool]

added_lists = st.lists(
    st.tuples(
        st.integers(1, 2**62) | st.integers(START_NS, START_NS + 10**12),
        st.none() | st.integers(0, 2**62),
        st.booleans(),
    ),
    max_size=60,
)


def line_of(added: list[_Added]) -> TimeLine:
    line = TimeLine()
    for time_ns, span_ns, is_failed in added:
        line.add(time_ns, span_ns, is_failed=is_failed)
    return line


def shown(line: TimeLine) -> object:
    return line.shift, line.slices()


def test_a_slice_has_what_began_in_it() -> None:
    width_ns = TimeLine().width_ns
    line = line_of(
        [
            (START_NS, 5_000_000, False),
            (START_NS + width_ns - 1, 9_000_000, True),
            (START_NS + width_ns, None, True),
        ]
    )
    begin_ns = START_NS // width_ns * width_ns
    first, second = line.slices()
    assert first[0] == begin_ns
    assert (first[1].exchanges, first[1].errors, first[1].slower[0]) == (1, 0, 1)
    assert second[0] == begin_ns + width_ns
    assert (second[1].exchanges, second[1].errors, second[1].slower[0]) == (2, 2, 1)
    assert second[1].slower[range_of(9_000_000)] == 1
    assert second[1].slower[range_of(9_000_000) + 1] == 0


def test_an_unknown_time_is_left_out() -> None:
    assert line_of([(0, 5, False)]).slices() == []


@given(added_lists, st.randoms(use_true_random=False))
def test_any_order_gives_the_same(added: list[_Added], chosen: random.Random) -> None:
    again = [*added]
    chosen.shuffle(again)
    assert shown(line_of(again)) == shown(line_of(added))


@given(added_lists, st.integers(0, 60))
def test_parts_merged_are_the_whole(added: list[_Added], at: int) -> None:
    line, rest = line_of(added[:at]), line_of(added[at:])
    before = shown(rest)
    line.merge(rest)
    assert shown(line) == shown(line_of(added))
    assert shown(rest) == before


@given(added_lists)
def test_slices_are_bounded_and_complete(added: list[_Added]) -> None:
    line = line_of(added)
    slices = line.slices()
    assert len(slices) <= MOST_SLICES
    whole = joined(counted for _, counted in slices)
    assert whole.exchanges == len(added)
    assert whole.errors == sum(is_failed for *_, is_failed in added)
    assert whole.slower[0] == sum(span_ns is not None for _, span_ns, _ in added)
    if slices:
        first_ns = min(time_ns for time_ns, *_ in added)
        assert slices[0][0] == first_ns // line.width_ns * line.width_ns
        wider = line.slices(line.shift + 3)
        assert joined(counted for _, counted in wider) == whole


def test_half_of_the_slices_are_used() -> None:
    for seconds in (1, 7, 91, 3600, 86_400):
        line = line_of([(START_NS + n * seconds * 10**6, 1, False) for n in range(1000)])
        assert MOST_SLICES / 2 <= len(line.slices()) <= MOST_SLICES


@given(st.lists(st.integers(1 << 16, 1 << 40), min_size=1), st.sampled_from([0.5, 0.9, 0.99, 1]))
def test_quantiles_are_near_the_exact_ones(spans: list[int], share: float) -> None:
    counted = line_of([(START_NS, span_ns, False) for span_ns in spans]).slices()[0][1]
    rank = max(1, -int(-share * len(spans) // 1))
    exact = sorted(spans)[rank - 1]
    assert quantile(counted, share) == pytest.approx(exact, rel=RELATIVE_ERROR + 0.001)


def test_ranges() -> None:
    assert range_of(0) == range_of((1 << 16) - 1) == 0
    assert [range_of(1 << 16 + n) for n in range(4)] == [0, 4, 8, 12]
    assert range_of(1 << 40) == range_of(1 << 62) == RANGES - 1
    assert quantile(joined([]), 0.5) is None


def test_memory_is_bounded() -> None:
    chosen = random.Random(4)
    tracemalloc.start()
    line = TimeLine()
    for _ in range(50_000):
        span_ns = int(2 ** chosen.uniform(10, 45))
        line.add(START_NS + chosen.randrange(10**13), span_ns, is_failed=False)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 200_000
