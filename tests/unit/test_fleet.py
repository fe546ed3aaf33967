"""The simulation of a fleet: its sums are those that can be computed."""

import numpy as np
import pytest

from bench.fleet import Fleet, Load, consumers_for, outputs, simulate

STEADY = Fleet(hosts=500, rate=20, connections=40, bursts=0, burst_factor=1, partitions=16)


def test_without_bursts_it_is_steady() -> None:
    load = simulate(STEADY)
    assert load.mean == pytest.approx(500 * 20)
    assert load.peak == pytest.approx(load.mean)
    assert 1 <= load.skew < 1.5


def test_one_partition_has_all() -> None:
    load = simulate(Fleet(**{**vars(STEADY), "partitions": 1}))
    assert load.skew == pytest.approx(1)


def test_bursts_add_what_they_say() -> None:
    """Each host has 3 minutes an hour with 10 times its rate: 3 / 60 * 9 times more."""
    load = simulate(Fleet(**{**vars(STEADY), "bursts": 3, "burst_factor": 10}))
    assert load.mean == pytest.approx(500 * 20 * (1 + 3 / 60 * 9), rel=0.2)
    assert load.peak > 1.2 * load.mean


def test_few_connections_make_a_busy_partition() -> None:
    few = simulate(Fleet(**{**vars(STEADY), "hosts": 20, "connections": 1}))
    assert few.skew > simulate(STEADY).skew


def test_consumers() -> None:
    load = Load(np.array([8000.0]), np.array([16000.0]))
    assert consumers_for(load, 1000) == 20  # 8,000, twice that in a partition, 80 % used


def test_what_was_measured_is_there() -> None:
    assert {each.name for each in outputs()} >= {"JSON lines", "OTLP", "Kafka, plaintext as it is"}
