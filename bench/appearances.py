"""``python -m bench.appearances``: in how many captures a group is wrongly said to be new or gone.

Captures are simulated: groups of exchanges whose rates do not change. The figures are in
docs/statistics.md. Arguments: how many captures, and names of MODELS (all of them).
"""

import math
import random
from collections.abc import Callable

from bench.false_ones import print_false_ones
from sslsniff.statistics.appearances import Appearance, find_appearance
from sslsniff.statistics.presence import Presence

SPAN_S = 300.0
START_NS = 1_800_000_000 * 10**9
_GROUPS = 20

Model = Callable[[random.Random, int], list[float]]
"""Returns when the exchanges of a group began, in seconds: about so many in ``SPAN_S``."""


def independent(chosen: random.Random, count: int) -> list[float]:
    """Exchanges that know nothing of each other."""
    return [chosen.random() * SPAN_S for _ in range(count)]


def bursts(seconds: float, size: float) -> Model:
    """Return exchanges in bursts of about ``size`` in so many seconds."""

    def times(chosen: random.Random, count: int) -> list[float]:
        found: list[float] = []
        for _ in range(max(1, round(count / size))):
            start = chosen.random() * (SPAN_S + seconds) - seconds
            many = 1 + int(chosen.expovariate(1 / size))
            found += [start + chosen.random() * seconds for _ in range(many)]
        return [time for time in found if 0 <= time < SPAN_S]

    return times


def waves(correlated_s: float, size: float) -> Model:
    """Return exchanges whose rate is alike for ``correlated_s``; its logarithm varies by size."""

    def times(chosen: random.Random, count: int) -> list[float]:
        level, step, found = chosen.gauss(0, 1), 0.5, list[float]()
        kept = math.exp(-step / correlated_s)
        for number in range(int(SPAN_S / step)):
            level = kept * level + math.sqrt(1 - kept * kept) * chosen.gauss(0, 1)
            rate = count * step / SPAN_S * math.exp(size * level - size * size / 2)
            found += [(number + chosen.random()) * step for _ in range(_poisson(chosen, rate))]
        return found

    return times


def job(every_s: float, busy_s: float) -> Model:
    """Return exchanges of a job that runs every so many seconds, for some."""

    def times(chosen: random.Random, count: int) -> list[float]:
        phase = chosen.random() * every_s
        shifted = (chosen.random() * SPAN_S for _ in range(round(count * every_s / busy_s)))
        return [time for time in shifted if (time + phase) % every_s < busy_s]

    return times


def switched(seconds: float) -> Model:
    """Return exchanges that are there for about so many seconds, and then not for as many."""

    def times(chosen: random.Random, count: int) -> list[float]:
        found: list[float] = []
        time, is_on = 0.0, chosen.random() < 0.5
        while time < SPAN_S:
            end = time + chosen.expovariate(1 / seconds)
            if is_on:
                rate = 2 * count / SPAN_S
                found += [chosen.uniform(time, end) for _ in range(round(rate * (end - time)))]
            time, is_on = end, not is_on
        return [time for time in found if time < SPAN_S]

    return times


MODELS: dict[str, Model] = {
    "independent": independent,
    "bursts of 10 in 1 s": bursts(1, 10),
    "bursts of 30 in 10 s": bursts(10, 30),
    "waves of 5 s, sigma 1": waves(5, 1),
    "waves of 20 s, sigma 1": waves(20, 1),
    "a job of 2 s every 10 s": job(10, 2),
    "a job of 5 s every 60 s": job(60, 5),
    "a job of 40 s every 100 s": job(100, 40),
    "there for 5 s, then not for 5 s": switched(5),
    "there for 20 s, then not for 20 s": switched(20),
}


def presence(times: list[float]) -> Presence:
    """Return when exchanges of 5 ms began."""
    found = Presence()
    for time in times:
        found.add(START_NS + int(time * 1e9), 5_000_000)
    return found


def appearances(chosen: random.Random, model: Model) -> list[Appearance]:
    """Return what is found in a capture in which no group is new or gone."""
    groups = [presence(model(chosen, int(10 ** chosen.uniform(1.3, 3.5)))) for _ in range(_GROUPS)]
    whole = Presence()
    for group in groups:
        whole.merge(group)
    found = (find_appearance(group, whole, 0, groups=_GROUPS) for group in groups)
    return [each for each in found if each is not None]


def _poisson(chosen: random.Random, mean: float) -> int:
    count, left = 0, chosen.expovariate(1)
    while left < mean:
        count, left = count + 1, left + chosen.expovariate(1)
    return count


if __name__ == "__main__":
    print_false_ones(MODELS, appearances)
