"""Groups that are new or gone: those that are, since when, and none where nothing changes."""

import random

import pytest

from bench.appearances import MODELS, SPAN_S, START_NS, appearances, presence
from sslsniff.statistics.appearances import GONE, NEW, Appearance, find_appearance
from sslsniff.statistics.presence import Presence

LASTING = ("bursts of 30 in 10 s", "there for 20 s, then not for 20 s")
"""In these, something does change: see docs/statistics.md."""


def found(group: Presence, *, span_s: float = SPAN_S, count: int = 1000) -> Appearance | None:
    """Return what is found of a group, in a capture of another one."""
    chosen = random.Random(1)
    whole = presence([span_s * chosen.random() for _ in range(count)])
    whole.merge(group)
    return find_appearance(group, whole, 7, groups=20)


def between(start: float, end: float, count: int = 300) -> list[float]:
    """Return the times of exchanges that begin at random between two shares of the capture."""
    chosen = random.Random(2)
    return [SPAN_S * (start + (end - start) * chosen.random()) for _ in range(count)]


def test_a_group_that_appears() -> None:
    times = between(0.7, 1)
    said = found(presence(times))
    assert said is not None
    assert (said.what, said.exchanges, said.until_ns) == (NEW, 7, None)
    assert said.since_ns == START_NS + int(min(times) * 1e9)
    assert said.absent_ns == pytest.approx(0.7 * SPAN_S * 1e9, rel=0.02)
    assert said.present_ns == pytest.approx(0.3 * SPAN_S * 1e9, rel=0.02)


def test_a_group_that_vanishes() -> None:
    times = between(0, 0.4)
    said = found(presence(times))
    assert said is not None
    assert (said.what, said.since_ns) == (GONE, START_NS + int(max(times) * 1e9))


def test_what_is_no_news() -> None:
    assert found(presence(between(0.05, 1))) is None  # a start
    assert found(presence(between(0.9, 1))) is None  # a job at the end
    assert found(presence(between(0.3, 0.6))) is None  # it comes, and goes
    assert found(presence(between(0.5, 1, 12))) is None  # rare
    assert found(presence([*between(0.5, 1), 1.0])) is None  # it was there before


def test_a_job_that_comes_again() -> None:
    """The first run is after a longer time than there is between the others, but not twice."""
    runs = [start + step / 10 for start in (120, 180, 240) for step in range(200)]
    assert found(presence(runs)) is None


def test_a_short_capture() -> None:
    chosen = random.Random(3)
    phase = presence([8 + 8 * chosen.random() for _ in range(300)])
    assert found(phase, span_s=16) is None


def test_a_part_without_any_exchange_tells_nothing() -> None:
    chosen = random.Random(4)
    late = presence([250 + 50 * chosen.random() for _ in range(300)])
    whole = presence([0.0, *(249 + 51 * chosen.random() for _ in range(300))])
    whole.merge(late)
    assert find_appearance(late, whole, 300) is None


def test_long_exchanges_are_counted_when_they_end() -> None:
    group = presence(between(0, 0.6))
    group.add(group.first_ns, int(100e9))
    assert found(group) is None


@pytest.mark.parametrize("name", [name for name in MODELS if name not in LASTING])
def test_nothing_changes(name: str) -> None:
    chosen = random.Random(name)
    assert not any(appearances(chosen, MODELS[name]) for _ in range(10))
