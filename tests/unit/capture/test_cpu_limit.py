"""How many connections are kept, so that no more CPU is used than allowed."""

import pytest

from sslsniff.capture.sampling.cpu_limit import CpuLimit
from sslsniff.capture.sampling.self_sampling import ALL, SelfSampling, sampling_hash


class Used:
    """CPU seconds that a test sets."""

    def __init__(self) -> None:
        self.seconds = 5.0

    def __call__(self) -> float:
        return self.seconds


def test_it_decides_every_five_seconds() -> None:
    used = Used()
    limit = CpuLimit(0.2, used)
    assert limit.kept(10.0) == 1
    used.seconds += 2.5
    assert limit.kept(14.9) == 1
    assert limit.kept(15.0) == pytest.approx(0.9 * 0.2 / 0.5)
    assert limit.kept(15.5) == 1
    used.seconds += 0.75
    assert limit.kept(20.0) == 1
    assert limit.is_near
    assert limit.kept(25.0) == 1
    assert not limit.is_near


def test_never_less_than_a_quarter_at_once() -> None:
    used = Used()
    limit = CpuLimit(0.01, used)
    limit.kept(0)
    used.seconds += 10
    assert limit.kept(5) == 0.25


def test_connections_are_left_out_and_come_back() -> None:
    used = Used()
    chosen: list[int] = []
    notes: list[str] = []
    sampling = SelfSampling(1 << 20, chosen.append, notes.append, CpuLimit(0.2, used))
    connections = range(1, 101)
    sampling.update(0, connections, 0)
    used.seconds += 5
    sampling.update(0, connections, 5)
    assert sum(sampling_hash(each) <= chosen[-1] for each in connections) == 25
    assert notes == [
        "100 % of a processor used, more than allowed: from now on 25 of 100 connections are"
        f" shown, and {100 * chosen[-1] / ALL:.3g} % of new ones"
    ]
    for second in range(6, 31):
        used.seconds += 0.15
        sampling.update(0, connections, second)
    assert len(chosen) == 1
    for second in range(31, 50):
        used.seconds += 0.05
        sampling.update(0, connections, second)
    assert chosen[-1] > chosen[0]
