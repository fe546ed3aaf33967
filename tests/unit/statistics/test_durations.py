"""Quantiles of a sketch against exact ones."""

import math
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sslsniff.statistics.durations import RELATIVE_ERROR, Durations

SHARES = (0.0, 0.5, 0.9, 0.99, 0.999, 1.0)
spans = st.one_of(st.integers(0, 10**15), st.integers(0, 20), st.integers(5_000_000, 5_100_000))


def durations(values: list[int]) -> Durations:
    made = Durations()
    for value in values:
        made.add(value)
    return made


def exact(values: list[int], share: float) -> int:
    return sorted(values)[max(1, math.ceil(share * len(values) - 1e-9)) - 1]


@pytest.mark.tools
@given(values=st.lists(spans, min_size=1, max_size=200))
def test_quantiles_are_near_the_exact_ones(values: list[int]) -> None:
    made = durations(values)
    assert made.count == len(values)
    assert (made.min_ns, made.max_ns) == (min(values), max(values))
    for share in SHARES:
        expected = exact(values, share)
        shown = made.quantile(share)
        assert shown is not None
        assert abs(shown - expected) <= RELATIVE_ERROR * expected + 1  # 1: it is rounded
    assert made.quantile(1) == max(values)


@pytest.mark.tools
@settings(deadline=None)
@given(parts=st.lists(st.lists(spans, max_size=60), max_size=8), order=st.randoms())
def test_merged_parts_equal_the_whole(parts: list[list[int]], order: object) -> None:
    whole = durations([value for part in parts for value in part])
    made = [durations(part) for part in parts]
    order.shuffle(made)  # type: ignore[attr-defined]
    merged = Durations()
    for each in made:
        merged.merge(each)
    assert (merged.count, merged.min_ns, merged.max_ns) == (whole.count, whole.min_ns, whole.max_ns)
    assert [merged.quantile(share) for share in SHARES] == [whole.quantile(s) for s in SHARES]


def test_merging_changes_only_one() -> None:
    one, other = durations([1_000_000]), durations([5_000_000, 9_000_000])
    one.merge(other)
    one.add(1_000)
    assert (one.count, one.min_ns, one.max_ns) == (4, 1_000, 9_000_000)
    assert (other.count, other.min_ns, other.max_ns) == (2, 5_000_000, 9_000_000)
    empty = Durations()
    empty.merge(other)
    empty.add(10_000_000)
    assert (other.count, other.max_ns) == (2, 9_000_000)


def test_nearest_rank() -> None:
    ten = durations([n * 1_000_000 for n in range(1, 11)])
    assert ten.quantile(0.9) == pytest.approx(9_000_000, rel=RELATIVE_ERROR)
    assert ten.quantile(0.99) == 10_000_000  # exact: it is the maximum
    assert durations([12_345_678]).quantile(0.5) == 12_345_678


def test_no_durations() -> None:
    none = Durations()
    none.merge(Durations())
    assert (none.count, none.max_ns, none.quantile(0.5)) == (0, None, None)


def test_negative_durations_are_refused() -> None:
    with pytest.raises(ValueError, match="-5"):
        Durations().add(-5)


@pytest.mark.heavy
def test_memory_is_bounded() -> None:
    """Spans from 1 ns to centuries, more than that, and zero."""
    made = Durations()
    tracemalloc.start()
    try:
        for n in range(200_000):
            made.add((n * 2_654_435_761) ** 2 % (1 << (n % 80)))
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert made.count == 200_000
    assert made.max_ns == (1 << 63) - 1
    assert most_bytes < 100_000
