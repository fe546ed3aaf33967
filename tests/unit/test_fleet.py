"""The simulation of a fleet: its sums are those that can be computed."""

import importlib
from typing import Any

import pytest

pytestmark = pytest.mark.heavy

STEADY = dict(hosts=500, rate=20, connections=40, bursts=0, burst_factor=1, partitions=16)


@pytest.fixture
def fleet() -> Any:
    """Return the module, which needs NumPy."""
    return importlib.import_module("bench.fleet")


def test_without_bursts_it_is_steady(fleet: Any) -> None:
    load = fleet.simulate(fleet.Fleet(**STEADY))
    assert load.mean == pytest.approx(500 * 20)
    assert load.peak == pytest.approx(load.mean)
    assert 1 <= load.skew < 1.5


def test_one_partition_has_all(fleet: Any) -> None:
    load = fleet.simulate(fleet.Fleet(**STEADY | {"partitions": 1}))
    assert load.skew == pytest.approx(1)


def test_bursts_add_what_they_say(fleet: Any) -> None:
    """Each host has 3 minutes an hour with 10 times its rate: 3 / 60 * 9 times more."""
    load = fleet.simulate(fleet.Fleet(**STEADY | {"bursts": 3, "burst_factor": 10}))
    assert load.mean == pytest.approx(500 * 20 * (1 + 3 / 60 * 9), rel=0.2)
    assert load.peak > 1.2 * load.mean


def test_few_connections_make_a_busy_partition(fleet: Any) -> None:
    few = fleet.simulate(fleet.Fleet(**STEADY | {"hosts": 20, "connections": 1}))
    assert few.skew > fleet.simulate(fleet.Fleet(**STEADY)).skew


def test_consumers(fleet: Any) -> None:
    load = fleet.Load(
        *(importlib.import_module("numpy").array([each]) for each in (8000.0, 16000.0))
    )
    assert fleet.consumers_for(load, 1000) == 20  # 8,000, twice that in a partition, 80 % used


def test_what_was_measured_is_there(fleet: Any) -> None:
    assert {each.name for each in fleet.outputs()} >= {
        "JSON lines",
        "OTLP",
        "Kafka, plaintext as it is",
    }
