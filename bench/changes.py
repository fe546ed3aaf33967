"""``python -m bench.changes``: in how many captures without a change one is said.

Captures are simulated: groups of exchanges with raw paths. The figures are in docs/statistics.md.
Arguments: how many captures, and names of MODELS (all of them).
"""

import math
import random
from collections.abc import Callable, Iterator

from bench.false_ones import print_false_ones
from sslsniff.statistics.changes import Change, find_changes
from sslsniff.statistics.raw_paths import RawPath
from sslsniff.statistics.time_lines import TimeLine
from tests.workload.outcomes import outcome

_START_NS = 1_800_000_000 * 10**9
_SPAN_S = 300.0
_GROUPS = 5
_PATHS = 40
_MEDIAN_S = 0.02

Exchange = tuple[float, float, bool]
"""When it began and how long it took, in seconds, and whether it failed."""
Model = Callable[[random.Random, list[float]], Iterator[float]]
"""Yields the duration of each exchange, in seconds, that began at these times."""


def lognormal(chosen: random.Random, times: list[float]) -> Iterator[float]:
    """Independent durations of which 1 % take 33 times the median."""
    for _ in times:
        yield _MEDIAN_S * chosen.lognormvariate(0, 1.5)


def pareto(chosen: random.Random, times: list[float]) -> Iterator[float]:
    """Independent durations with a tail so heavy that it has no variance."""
    for _ in times:
        yield _MEDIAN_S * chosen.paretovariate(1.1)


def two_modes(chosen: random.Random, times: list[float]) -> Iterator[float]:
    """Independent durations: 2 % take 2 s."""
    for _ in times:
        yield (2.0 if chosen.random() < 0.02 else _MEDIAN_S) * chosen.lognormvariate(0, 0.3)


def waves(correlated_s: float, size: float) -> Model:
    """Return durations whose logarithm varies by ``size``, and is alike for ``correlated_s``."""

    def durations(chosen: random.Random, times: list[float]) -> Iterator[float]:
        level, before = chosen.gauss(0, 1), 0.0
        for time in times:
            kept = math.exp((before - time) / correlated_s)
            level = kept * level + math.sqrt(1 - kept * kept) * chosen.gauss(0, 1)
            before = time
            yield _MEDIAN_S * math.exp(size * level) * chosen.lognormvariate(0, 0.5)

    return durations


def queue(busy: float) -> Model:
    """Return durations in a queue that is busy for this share: who comes waits for those before."""

    def durations(chosen: random.Random, times: list[float]) -> Iterator[float]:
        service_s = busy * _SPAN_S / len(times)
        free_at = 0.0
        for time in times:
            free_at = max(free_at, time) + service_s * chosen.lognormvariate(-0.5, 1)
            yield free_at - time

    return durations


def pauses(chosen: random.Random, times: list[float]) -> Iterator[float]:
    """Durations with a pause of about 0.5 s each 10 s or so, for whose end all wait."""
    begins = end = 0.0
    for time in times:
        while time > end:
            begins = end + chosen.expovariate(1 / 10)
            end = begins + chosen.expovariate(2)
        waited = end - time if time >= begins else 0.0
        yield waited + _MEDIAN_S * chosen.lognormvariate(0, 0.7)


MODELS: dict[str, Model] = {
    "lognormal, sigma 1.5": lognormal,
    "Pareto, alpha 1.1": pareto,
    "98 % 20 ms, 2 % 2 s": two_modes,
    "waves of 1 s, sigma 1": waves(1, 1),
    "waves of 5 s, sigma 0.5": waves(5, 0.5),
    "waves of 5 s, sigma 1": waves(5, 1),
    "waves of 20 s, sigma 0.5": waves(20, 0.5),
    "a queue, 50 % busy": queue(0.5),
    "a queue, 80 % busy": queue(0.8),
    "pauses of 0.5 s": pauses,
}


def group(chosen: random.Random, model: Model, count: int) -> tuple[TimeLine, dict[str, RawPath]]:
    """Return ``count`` exchanges of a group, of which 1 % fail."""
    times = sorted(chosen.random() * _SPAN_S for _ in range(count))
    line, paths = TimeLine(), dict[str, RawPath]()
    for time, took in zip(times, model(chosen, times), strict=True):
        is_failed = chosen.random() < 0.01
        name = f"/{int(_PATHS * chosen.random() ** 2)}"
        add(line, paths, name, time, took, is_failed=is_failed)
    return line, paths


def add(
    line: TimeLine,
    paths: dict[str, RawPath],
    name: str,
    time: float,
    took: float,
    *,
    is_failed: bool,
) -> None:
    """Add an exchange that began ``time`` seconds after the first."""
    added = outcome(_START_NS + int(time * 1e9), int(took * 1e9), is_failed=is_failed)
    line.add(added.time_ns, added.duration_ns, is_failed=is_failed)
    paths.setdefault(name, RawPath(name)).add(added)


def changes(chosen: random.Random, model: Model) -> list[Change]:
    """Return what is found in a capture in which nothing changes."""
    return [
        change
        for _ in range(_GROUPS)
        for change in find_changes(
            *group(chosen, model, int(10 ** chosen.uniform(2, 3.5))), lines=_GROUPS
        )
    ]


if __name__ == "__main__":
    print_false_ones(MODELS, changes)
