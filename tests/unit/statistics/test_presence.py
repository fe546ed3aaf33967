"""When a group had exchanges, in slices of time: the same in any order, and merged."""

import random

from sslsniff.statistics.presence import Presence
from sslsniff.statistics.time_lines import MOST_SLICES, TimeLine
from tests.workload.outcomes import START_NS


def noted(times: list[int]) -> Presence:
    found = Presence()
    for time_ns in times:
        found.add(time_ns, 7)
    return found


def test_it_has_the_slices_of_a_time_line() -> None:
    for seed in range(200):
        chosen = random.Random(seed)
        span_ns = int(10 ** chosen.uniform(0, 14))
        times = [START_NS + chosen.randrange(span_ns) for _ in range(chosen.randrange(1, 300))]
        line = TimeLine()
        for time_ns in times:
            line.add(time_ns, 7, is_failed=False)
        found = noted(times)
        assert found.shift == line.shift
        slices = [*found.slices()]
        assert [number << found.shift for number in slices] == [each for each, _ in line.slices()]
        assert slices[-1] - slices[0] < MOST_SLICES
        assert (found.first_ns, found.last_ns) == (min(times), max(times))

        half = chosen.randrange(len(times))
        merged = noted(times[:half])
        merged.merge(noted(times[half:]))
        assert (merged.shift, [*merged.slices()]) == (found.shift, slices)
        assert (merged.first_ns, merged.last_ns) == (min(times), max(times))


def test_unknown_times_and_durations() -> None:
    found = Presence()
    found.add(0, 5)
    assert (found.first_ns, found.longest_ns, [*found.slices()]) == (0, 0, [])
    found.merge(Presence())
    found.add(START_NS, None)
    found.add(START_NS + 1, 9)
    assert (found.first_ns, found.last_ns, found.longest_ns) == (START_NS, START_NS + 1, 9)
