"""Hits that are counted in the kernel, timed there, or limited there."""

import time
from pathlib import Path

import pytest

from sslsniff.capture.scope import Scope
from sslsniff.fetching.fetch_steps import FetchStep, StepKind
from sslsniff.fetching.fetch_tables import Use
from sslsniff.fetching.trace_places import PlaceKind
from sslsniff.functions.capture.function_capture import FunctionCapture
from tests.live.functions.fetched import RDI, Fetched, build, pass_place, place
from tests.workload.processes import PATIENCE_S, started

pytestmark = pytest.mark.live

FROM_5 = (
    FetchStep(StepKind.CONSTANT, 5),
    FetchStep(StepKind.REGISTER, RDI),
    FetchStep(StepKind.LESS_OR_EQUAL_SIGNED),
    FetchStep(StepKind.KEEP_IF),
)
ARGUMENT = (FetchStep(StepKind.REGISTER, RDI), FetchStep(StepKind.STORE))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("fetched"))


def test_hits_are_counted_if_their_condition_holds(program: Path) -> None:
    places = [
        place(program),
        place(program, ARGUMENT, 8),
        place(program, (*FROM_5, *ARGUMENT), 8),
    ]
    with Fetched(program, places, use=Use.COUNT) as fetched, started(program) as other:
        pass_place(other, "c7")
        assert fetched.passes("c100")[0] == []
        assert fetched.passes("f20")[0] == []
        assert fetched.capture.counts() == [120, 120, 110]
        assert fetched.capture.lost_hits() == 0


@pytest.mark.measured
@pytest.mark.parametrize("spill_bytes", [0, 1 << 22])
def test_many_hits_whose_condition_does_not_hold_do_not_fill_the_ring(
    spill_bytes: int, program: Path
) -> None:
    """Their records are released in time, and what follows them is read at once."""
    only_first = (
        FetchStep(StepKind.REGISTER, RDI),
        FetchStep(StepKind.CONSTANT, 0),
        FetchStep(StepKind.EQUAL),
        FetchStep(StepKind.KEEP_IF),
    )
    places = [place(program, only_first)]
    with (
        started(program) as process,
        FunctionCapture(
            places, Scope(pids=(process.pid,)), ring_bytes=1 << 21, spill_bytes=spill_bytes
        ) as capture,
    ):
        for _ in range(8):
            pass_place(process, "c4000")
            deadline = time.monotonic() + PATIENCE_S
            found = list(capture.poll(PATIENCE_S))
            while not found:
                assert time.monotonic() < deadline
                found = list(capture.poll(PATIENCE_S))
            assert len(found) == 1
        assert capture.lost_hits() == 0


def test_calls_are_timed(program: Path) -> None:
    """2 ms and more: 2**21 ns is 2.1 ms. A call that has not ended yet does not count."""
    kinds = {"timed": PlaceKind.ENTRY, "timed_end": PlaceKind.RETURN}
    places = [place(program, symbol=name, kind=kind) for name, kind in kinds.items()]
    same = [place(program, symbol="timed", kind=PlaceKind.ENTRY, steps=ARGUMENT, data_bytes=8)]
    with Fetched(program, places + same, use=Use.HISTOGRAM) as fetched:
        pass_place(fetched.process, "s20")
        [(name, buckets)] = fetched.capture.histograms().items()
    assert name == "probed"
    assert sum(buckets) == 20
    assert sum(buckets[20:24]) >= 18
    assert sum(buckets[:20]) == 0


def test_calls_are_timed_if_their_condition_holds(program: Path) -> None:
    never = (FetchStep(StepKind.CONSTANT, 0), FetchStep(StepKind.KEEP_IF))
    places = [
        place(program, never, symbol="timed", kind=PlaceKind.ENTRY),
        place(program, symbol="timed_end", kind=PlaceKind.RETURN),
    ]
    with Fetched(program, places, use=Use.HISTOGRAM) as fetched:
        pass_place(fetched.process, "s5")
        assert sum(fetched.capture.histograms()["probed"]) == 0


def test_a_call_is_known_by_the_stack_that_its_steps_compute(program: Path) -> None:
    stack = (FetchStep(StepKind.CONSTANT, 4096), FetchStep(StepKind.STACK))
    places = [
        place(program, stack, symbol="timed", kind=PlaceKind.ENTRY),
        place(program, stack, symbol="timed_end", kind=PlaceKind.RETURN),
    ]
    with Fetched(program, places, use=Use.HISTOGRAM) as fetched:
        pass_place(fetched.process, "s5")
        assert sum(fetched.capture.histograms()["probed"]) == 5


def test_a_limit_of_hits_a_second(program: Path) -> None:
    """Hits whose condition does not hold do not count for it; the next second has its own."""
    places = [place(program, (*FROM_5, *ARGUMENT), 8)]
    with Fetched(program, places, most_hits=50) as fetched:
        found, _ = fetched.passes("c5")
        assert found == []
        found, _ = fetched.passes("c1000")
        assert [int.from_bytes(hit.data, "little") for hit in found] == list(range(5, 55))
        assert {hit.dropped for hit in found} == {0}
        assert fetched.capture.limited_hits() == 1000 - 55
        time.sleep(1.1)
        found, _ = fetched.passes("c20")
        assert len(found) == 15
        assert {hit.dropped for hit in found} == {1000 - 55}
        assert fetched.capture.limited_hits() == 1000 - 55
