"""Changes: none where nothing changed, and those that are there at their time, with their cause."""

import math
import random
from collections.abc import Callable

import pytest

from bench.changes import MODELS, Model, group
from sslsniff.statistics.changes import Change, find_changes
from sslsniff.statistics.raw_paths import RawPath
from sslsniff.statistics.time_lines import RELATIVE_ERROR, TimeLine
from tests.workload.outcomes import START_NS, outcome

SPAN_S = 300
_COUNT = 2000
_PATHS = 20

Rule = Callable[[float, int], float | None]
"""For a time, as a share of the capture, and a path: its duration in seconds; None: it fails."""
WRONG_ONES = ("waves of 20 s, sigma 0.5", "a queue, 80 % busy")
"""In these, something does change: see docs/statistics.md."""


def capture(
    rule: Rule, seed: int = 1, *, shuffled: bool = False, paths_are_known: bool = True
) -> list[Change]:
    """Return what is found in a capture of 20 paths, with durations around those of a rule."""
    chosen = random.Random(seed)
    made = []
    for number in range(_COUNT):
        share, path = number / _COUNT, chosen.randrange(_PATHS)
        span_s = rule(share, path)
        time_ns = START_NS + int(share * SPAN_S * 1e9)
        took_ns = int((span_s or 0.02) * chosen.lognormvariate(0, 0.4) * 1e9)
        made.append(outcome(time_ns, took_ns, f"/{path}", is_failed=span_s is None))
    if shuffled:
        chosen.shuffle(made)
    line, paths = TimeLine(), dict[str, RawPath]()
    for each in made:
        name = each.raw_path or ""
        line.add(each.time_ns, each.duration_ns, is_failed=each.is_failed)
        paths.setdefault(name, RawPath(name)).add(each)
    return find_changes(line, paths if paths_are_known else {})


def assert_at(time_ns: int | None, share: float, slice_ns: int) -> None:
    """The time is that of the first slice that differs, or a neighbour of it."""
    assert time_ns is not None
    assert abs(time_ns + slice_ns / 2 - (START_NS + share * SPAN_S * 1e9)) <= 1.5 * slice_ns


def test_a_group_that_becomes_slow() -> None:
    [change] = capture(lambda share, path: 2.0 if share >= 0.6 else 0.02)
    assert_at(change.since_ns, 0.6, change.slice_ns)
    assert (change.what, change.quantile, change.until_ns) == ("duration", "p50", None)
    assert change.before == pytest.approx(20e6, rel=RELATIVE_ERROR + 0.05)
    assert change.after == pytest.approx(2e9, rel=RELATIVE_ERROR + 0.05)
    assert (change.cause, change.paths, change.is_worse) == (None, (), True)


@pytest.mark.parametrize("seed", range(8))
def test_a_clear_step_to_times_that_vary_in_waves(seed: int) -> None:
    """By limits among the later times alone, most of such a step could be chance."""
    chosen = random.Random(seed)
    line, wave, time_ns = TimeLine(), 0.0, START_NS
    for number in range(600):
        is_slow = number >= 300
        wave = 0.9 * wave + chosen.gauss(0, 0.07) if is_slow else 0.0
        level_s = 0.3 * math.exp(wave) if is_slow else 0.007
        took_ns = int(level_s * chosen.lognormvariate(0, 0.08) * 1e9)
        line.add(time_ns, took_ns, is_failed=False)
        time_ns += int(chosen.expovariate(6) * 1e9)
    [change] = find_changes(line, {})
    assert (change.quantile, change.until_ns, change.is_worse) == ("p50", None, True)


def test_a_part_of_a_group_that_becomes_slow() -> None:
    """The median lies between the fast ones and the slow ones, and is true of none."""
    [change] = capture(
        lambda share, path: 2.0 if share >= 0.6 and path < 10 else 0.02, paths_are_known=False
    )
    assert change.quantile == "p90"
    assert change.before == pytest.approx(30e6, rel=0.2)
    assert change.after == pytest.approx(3e9, rel=0.2)


def test_one_path_that_becomes_slow() -> None:
    [change] = capture(lambda share, path: 2.0 if share >= 0.6 and path == 17 else 0.02)
    # The path has an exchange in each third slice: the first slow one is a little later.
    assert 0 <= change.since_ns + change.slice_ns - (START_NS + 0.6 * SPAN_S * 1e9) <= 15e9
    assert (change.cause, change.paths, change.quantile) == ("only", ("/17",), "p50")
    assert change.before == pytest.approx(20e6, rel=0.3)
    assert change.after == pytest.approx(2e9, rel=0.3)


def test_microseconds_that_vary_hide_nothing() -> None:
    """Fast exchanges take 100 or 300 us, as load comes and goes: too little to matter."""

    def rule(share: float, path: int) -> float:
        fast_s = 0.0001 if int(share * 10) % 2 else 0.0003
        return 2.0 if share >= 0.6 and path == 17 else fast_s

    [change] = capture(rule)
    assert (change.cause, change.paths, change.quantile) == ("only", ("/17",), "p50")


@pytest.mark.parametrize("seed", [0, 2, 4])
def test_a_change_that_lasts_nearly_to_the_end_lasts(seed: int) -> None:
    """Neither its last exchanges, which are fast, nor the first, which are slow, are the change."""
    chosen = random.Random(seed)

    def rule(share: float, path: int) -> float:
        if share < 0.01:
            return 0.02 if chosen.random() < 0.4 else 0.0002
        return 2.0 if 0.35 <= share < 0.985 and path == 17 else 0.0002

    [change] = capture(rule, seed)
    assert_at(change.since_ns, 0.35, 4 * change.slice_ns)
    assert (change.until_ns, change.paths, change.is_worse) == (None, ("/17",), True)


def test_a_change_that_ends() -> None:
    [change] = capture(lambda share, path: 0.5 if 0.4 <= share < 0.6 else 0.02)
    assert_at(change.since_ns, 0.4, change.slice_ns)
    assert_at(change.until_ns, 0.6, change.slice_ns)


def test_two_times_with_a_change() -> None:
    first, second = capture(
        lambda share, path: 0.5 if 0.2 <= share < 0.3 or 0.7 <= share < 0.9 else 0.02
    )
    for change, begin, end in ((first, 0.2, 0.3), (second, 0.7, 0.9)):
        assert_at(change.since_ns, begin, change.slice_ns)
        assert_at(change.until_ns, end, change.slice_ns)


def test_an_improvement() -> None:
    [change] = capture(lambda share, path: 0.5 if share < 0.3 else 0.02)
    assert_at(change.since_ns, 0.3, change.slice_ns)
    assert (change.is_worse, change.until_ns) == (False, None)
    assert change.before > 10 * change.after


def test_failures() -> None:
    chosen = random.Random(3)
    changes = capture(lambda share, path: None if chosen.random() < 0.3 * (share > 0.5) else 0.02)
    [change] = changes
    assert (change.what, change.quantile) == ("errors", None)
    assert change.before == pytest.approx(0, abs=0.01)
    assert change.after == pytest.approx(0.3, abs=0.05)


def test_a_slow_path_that_is_asked_for_more_often() -> None:
    """It takes as long as before: the group changed, and this path is the reason."""
    chosen = random.Random(5)
    line, paths = TimeLine(), dict[str, RawPath]()
    for number in range(_COUNT):
        share = number / _COUNT
        is_big = chosen.random() < (0.3 if share >= 0.5 else 0.02)
        name = "/big" if is_big else f"/{chosen.randrange(9)}"
        took_ns = int((1.0 if is_big else 0.02) * chosen.lognormvariate(0, 0.3) * 1e9)
        made = outcome(START_NS + int(share * SPAN_S * 1e9), took_ns, name)
        line.add(made.time_ns, made.duration_ns, is_failed=False)
        paths.setdefault(name, RawPath(name)).add(made)
    [change] = find_changes(line, paths)
    assert (change.cause, change.paths, change.quantile) == ("more", ("/big",), "p90")


def test_a_new_path_that_is_slow() -> None:
    chosen = random.Random(6)
    line, paths = TimeLine(), dict[str, RawPath]()
    for number in range(_COUNT):
        share = number / _COUNT
        is_new = share >= 0.5 and chosen.random() < 0.2
        name = "/new" if is_new else f"/{chosen.randrange(9)}"
        took_ns = int((1.0 if is_new else 0.02) * chosen.lognormvariate(0, 0.3) * 1e9)
        made = outcome(START_NS + int(share * SPAN_S * 1e9), took_ns, name)
        line.add(made.time_ns, made.duration_ns, is_failed=False)
        paths.setdefault(name, RawPath(name)).add(made)
    assert [(each.cause, each.paths) for each in find_changes(line, paths)] == [("new", ("/new",))]
    assert [each.cause for each in find_changes(line, paths, knows_all=False)] == ["mostly"]


def test_what_does_not_matter_is_not_said() -> None:
    assert capture(lambda share, path: 0.024 if share >= 0.5 else 0.02) == []
    assert capture(lambda share, path: 0.0009 if share >= 0.5 else 0.0003) == []


def test_a_single_pause_is_no_change() -> None:
    assert capture(lambda share, path: 1.0 if 0.5 <= share < 0.505 else 0.02) == []


def test_the_order_does_not_matter() -> None:
    def rule(share: float, path: int) -> float:
        return 2.0 if share >= 0.6 and path == 17 else 0.02

    assert capture(rule, shuffled=True) == capture(rule)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MODELS if name not in WRONG_ONES])
def test_nothing_is_said_of_what_does_not_change(name: str) -> None:
    model: Model = MODELS[name]
    chosen = random.Random(f"{name} in tests")
    for _ in range(15):
        line, paths = group(chosen, model, int(10 ** chosen.uniform(2, 3.3)))
        assert find_changes(line, paths, lines=5) == []


def test_few_exchanges_are_no_evidence() -> None:
    assert find_changes(TimeLine(), {}) == []
    line = TimeLine()
    for number in range(8):
        line.add(START_NS + number * 10**9, 10**6 if number < 4 else 10**9, is_failed=False)
    assert find_changes(line, {}) == []
