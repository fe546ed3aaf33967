"""The time between the two static probes of a pair."""

import io

import pytest

from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.functions.calls.call_builder import CallBuilder
from sslsniff.functions.calls.static_probe_pairs import pair_roles
from sslsniff.functions.outputs.call_filters import SlowCalls
from sslsniff.functions.outputs.call_lines import CallLines
from tests.unit.traced import Journal, Named, hit, place

START, DONE, OTHER = range(3)
QUERY = ["db:query__start", "db:query__done", "db:scan__start"]


def probes(*names: str, path: str = "/bin/demo") -> list[Place]:
    return [place(PlaceKind.STATIC, name, path=path) for name in names]


def durations(*hits: tuple[int, int, int], names: list[str] = QUERY) -> list[int | None]:
    """Return the durations of hits, each a place, a time and a stack pointer."""
    journal = Journal()
    builder = CallBuilder(probes(*names), journal)
    for at, time_ns, stack in hits:
        builder.handle(hit(time_ns, at, stack))
    return [each.duration_ns for each in journal.ended_calls]


@pytest.mark.parametrize(
    ("names", "is_pair"),
    [
        (["db:query__start", "db:query__done"], True),
        (["app:work_start", "app:work_end"], True),
        (["hotspot:gc__begin", "hotspot:gc__end"], True),
        (["python:function__entry", "python:function__return"], True),
        (["app:gc-mark-begin", "app:gc-mark-end"], True),
        (["db:query__start", "db:scan__done"], False),
        (["db:query__start", "mysql:query__done"], False),
        (["db:query__begin", "db:query__done"], False),
        (["db:query__start", "db:query__start"], False),
        (["db:start", "db:done"], False),
    ],
)
def test_which_are_pairs(names: list[str], is_pair: bool) -> None:
    first, last = pair_roles(probes(*names))
    if not is_pair:
        assert (first, last) == (None, None)
        return
    assert first is not None
    assert last is not None
    assert (first.work, first.is_start, last.is_start) == (last.work, True, False)


def test_only_static_probes_of_one_file_are_pairs() -> None:
    start, done = QUERY[:2]
    assert pair_roles([*probes(start), *probes(done, path="/bin/other")]) == [None, None]
    assert pair_roles([place(PlaceKind.LINE, each) for each in (start, done)]) == [None, None]


@pytest.mark.parametrize(
    ("hits", "expected"),
    [
        pytest.param([(START, 1, 90), (DONE, 8, 90)], [None, 7], id="one"),
        pytest.param([(DONE, 8, 90)], [None], id="began before the trace"),
        pytest.param([(START, 1, 90), (OTHER, 2, 90), (DONE, 8, 80)], [None, None, 7], id="others"),
        pytest.param(
            [(START, 1, 90), (START, 2, 80), (DONE, 4, 80), (DONE, 8, 90)],
            [None, None, 2, 7],
            id="inside of each other",
        ),
        pytest.param(
            [(START, 1, 90), (START, 2, 80), (START, 5, 90), (DONE, 8, 90), (DONE, 9, 90)],
            [None, None, None, 3, None],
            id="left by errors",
        ),
    ],
)
def test_durations(hits: list[tuple[int, int, int]], expected: list[int | None]) -> None:
    assert durations(*hits) == expected


def test_threads_and_processes_have_their_own() -> None:
    journal = Journal()
    builder = CallBuilder(probes(*QUERY), journal)
    for time_ns, pid, tid in ((1, 7, 7), (2, 7, 8), (3, 9, 9)):
        builder.handle(hit(time_ns, START, 90, pid=pid, tid=tid))
    builder.end_process(9)  # and then another process gets its number
    for time_ns, pid, tid in ((10, 7, 7), (20, 7, 8), (30, 9, 9)):
        builder.handle(hit(time_ns, DONE, 90, pid=pid, tid=tid))
    assert [each.duration_ns for each in journal.ended_calls][3:] == [9, 18, None]


def test_slow_ones_as_text() -> None:
    out = io.StringIO()
    builder = CallBuilder(probes(*QUERY), SlowCalls(7, CallLines(out, names=Named())))
    for at, time_ns in ((START, 1), (DONE, 7), (START, 11), (DONE, 18)):
        builder.handle(hit(time_ns, at, 90))
    [line] = out.getvalue().splitlines()
    assert line.endswith("  db:query__done(n=1)  7 ns")
