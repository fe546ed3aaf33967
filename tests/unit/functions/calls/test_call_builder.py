"""Hits of probes become calls: nesting, results, and what longjmp and tail calls do."""

import itertools

import pytest

from sslsniff.fetching.fetch import Fetch
from sslsniff.fetching.fetch_steps import FetchStep, StepKind
from sslsniff.fetching.hit_records import Hit
from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.fetching.traced_values import Missing
from sslsniff.functions.calls.call_builder import CallBuilder
from tests.unit.traced import ENTRY, INLINED, RESULT, RETURN, Journal, hit, place

Row = tuple[str, int]
"""``name(`` is an entry, ``name)`` a return, others are as ``PLACES`` calls them; the stack."""

PLACES = {
    **{f"{name}(": place(ENTRY, name) for name in "fgh"},
    **{f"{name})": place(RETURN, name) for name in "fgh"},
    "n(": place(ENTRY, "n", may_tail_call=False),
    "n)": place(RETURN, "n"),
    "u(": place(ENTRY, "u"),  # its return has no probe
    "i": place(INLINED, "i"),  # its result has no probe
    "j1": place(INLINED, "j", address=1),
    "j2": place(INLINED, "j", address=2),
    "j1=": place(RESULT, "j", call_address=1),
    "j2=": place(RESULT, "j", call_address=2),
    "line": place(PlaceKind.LINE, "line"),
    "usdt": place(PlaceKind.STATIC, "usdt"),
    "address": place(PlaceKind.ADDRESS, "address"),
}
WITH_STACK = Fetch((FetchStep(StepKind.STACK),), 1, {"result": lambda data, failed: data[0]})
GO = {
    "f(": place(ENTRY, "f", is_go=True, fetch=WITH_STACK),
    "f)": place(RETURN, "f", is_go=True, fetch=WITH_STACK),
    "g(": place(ENTRY, "g", is_go=True, fetch=WITH_STACK),
    "g)": place(RETURN, "g", is_go=True, fetch=WITH_STACK),
    "line": place(PlaceKind.LINE, "line", is_go=True),
}


def hits(rows: list[Row], places: dict[str, Place], **more: int) -> list[Hit]:
    """Return hits a nanosecond after one another; each has its number as its value."""
    names = [*places]
    return [
        hit(at, names.index(name), stack, bytes([at]), **more)
        for at, (name, stack) in enumerate(rows)
    ]


def journal(rows: list[Row], places: dict[str, Place] = PLACES) -> list[str]:
    """Return what the calls of one thread are, before the trace ends."""
    shown = Journal()
    builder = CallBuilder([*places.values()], shown)
    for each in hits(rows, places, **({"task": 17} if places is GO else {})):
        builder.handle(each)
    return shown.lines


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param(
            [("f(", 90), ("g(", 80), ("g)", 80), ("f)", 90)],
            "-> f 0, -> g 1, <- g 1 2 1, <- f 0 3 3",
            id="nested",
        ),
        pytest.param(
            [("f(", 90), ("f(", 80), ("f)", 80), ("f)", 90)],
            "-> f 0, -> f 1, <- f 1 2 1, <- f 0 3 3",
            id="recursive",
        ),
        pytest.param(
            [("f(", 90), ("g(", 80), ("g)", 80), ("g(", 80), ("g)", 80), ("f)", 90)],
            "-> f 0, -> g 1, <- g 1 2 1, -> g 1, <- g 1 4 1, <- f 0 5 5",
            id="one after the other",
        ),
        pytest.param(
            [("f(", 90), ("g(", 90), ("g)", 90), ("h(", 90)],
            "-> f 0, -> g 1, <- g 1 2 1, <- f 0 ? 2, -> h 0",
            id="a tail call ends both",
        ),
        pytest.param(
            [("f(", 90), ("g(", 90), ("h(", 90), ("h)", 90)],
            "-> f 0, -> g 1, -> h 2, <- h 2 3 1, <- g 1 ? 2, <- f 0 ? 3",
            id="a tail call of a tail call",
        ),
        pytest.param(
            [("f(", 90), ("n(", 90), ("g(", 90), ("g)", 90)],
            "-> f 0, -> n 1, <- n 1 ? ?, <- f 0 ? ?, -> g 0, <- g 0 3 1",
            id="what makes no tail call was left by an exception",
        ),
        pytest.param(
            [("n(", 90), ("u(", 90), ("n(", 90), ("line", 90)],
            "-> n 0, <- n 0 ? ?, -> u 0, <- u 0 ? ?, -> n 0, -> line 1, <- line 1 ? ?",
            id="left by an exception again and again",
        ),
        pytest.param(
            [("f(", 90), ("u(", 90), ("f)", 90)],
            "-> f 0, -> u 1, <- u 1 ? ?, <- f 0 2 2",
            id="a tail call without a return",
        ),
        pytest.param(
            [("f(", 90), ("g(", 90), ("f(", 90), ("g(", 90), ("g)", 90)],
            "-> f 0, -> g 1, <- g 1 ? ?, <- f 0 ? ?, -> f 0, -> g 1, <- g 1 4 1, <- f 0 ? 2",
            id="tail calls of each other do not nest for ever",
        ),
        pytest.param(
            [("f(", 90), ("g(", 80), ("h(", 70), ("f)", 90)],
            "-> f 0, -> g 1, -> h 2, <- h 2 ? ?, <- g 1 ? ?, <- f 0 3 3",
            id="longjmp to the outermost",
        ),
        pytest.param(
            [("f(", 90), ("g(", 80), ("h(", 70), ("h(", 80), ("h)", 80), ("f)", 90)],
            "-> f 0, -> g 1, -> h 2, <- h 2 ? ?, <- g 1 ? ?, -> h 1, <- h 1 4 1, <- f 0 5 5",
            id="a call after longjmp is no tail call",
        ),
        pytest.param(
            [("f(", 90), ("g(", 80), ("g(", 80), ("g(", 80), ("f)", 90)],
            "-> f 0, -> g 1, <- g 1 ? ?, -> g 1, <- g 1 ? ?, -> g 1, <- g 1 ? ?, <- f 0 4 4",
            id="longjmp in a loop",
        ),
        pytest.param(
            [("f(", 90), ("g(", 80), ("line", 85), ("f)", 90)],
            "-> f 0, -> g 1, <- g 1 ? ?, -> line 1, <- line 1 ? ?, <- f 0 3 3",
            id="a line after longjmp",
        ),
        pytest.param(
            [("f)", 90), ("f(", 90), ("g)", 80), ("f)", 90)],
            "-> f 0, <- f 0 3 2",
            id="a return of a call before the trace",
        ),
        pytest.param(
            [("f(", 90), ("g)", 90), ("h(", 90)],
            "-> f 0, <- f 0 ? 1, -> h 0",
            id="a return after a tail call that was not seen",
        ),
        pytest.param(
            [("f(", 90), ("g(", 80), ("f)", 90), ("g(", 60)],
            "-> f 0, -> g 1, <- g 1 ? ?, <- f 0 2 2, -> g 0",
            id="a lost return",
        ),
        pytest.param(
            [("f(", 90), ("u(", 80), ("g(", 70), ("usdt", 60), ("address", 60), ("g)", 70)],
            "-> f 0, -> u 1, <- u 1 ? ?, -> g 1, -> usdt 2, <- usdt 2 ? ?,"
            " -> address 2, <- address 2 ? ?, <- g 1 5 3",
            id="what ends at once has nothing inside",
        ),
        pytest.param(
            [("f(", 90), ("i", 90), ("line", 90), ("f)", 90)],
            "-> f 0, -> i 1, <- i 1 ? ?, -> line 1, <- line 1 ? ?, <- f 0 3 3",
            id="in a function without a frame",
        ),
        pytest.param(
            [("f(", 90), ("j1", 80), ("j1=", 80), ("j2", 80), ("j2=", 80)],
            "-> f 0, -> j 1, <- j 1 2 ?, -> j 1, <- j 1 4 ?",
            id="results of inlined calls",
        ),
        pytest.param(
            [("j1", 80), ("j2", 80), ("j1=", 80), ("j2=", 80)],
            "-> j 0, -> j 0, <- j 0 2 ?, <- j 0 3 ?",
            id="inlined calls that overlap",
        ),
        pytest.param(
            [("j1", 80), ("g(", 70), ("g)", 70), ("j1=", 80)],
            "-> j 0, -> g 0, <- g 0 2 1, <- j 0 3 ?",
            id="a call before the result of an inlined one",
        ),
        pytest.param(
            [("j1", 80), ("j1", 80), ("j1=", 80), ("j1=", 80)],
            "-> j 0, <- j 0 ? ?, -> j 0, <- j 0 2 ?",
            id="no result of an inlined call",
        ),
        pytest.param(
            [("f(", 90), ("j1", 80), ("f(", 70), ("j1", 60), ("f)", 70), ("j1=", 80), ("f)", 90)],
            "-> f 0, -> j 1, -> f 1, -> j 2, <- j 2 ? ?, <- f 1 4 2, <- j 1 5 ?, <- f 0 6 6",
            id="inlined into a recursive function",
        ),
        pytest.param(
            [("j1", 80), ("line", 90), ("j1=", 80)],
            "-> j 0, <- j 0 ? ?, -> line 0, <- line 0 ? ?",
            id="the frame of an inlined call was left",
        ),
    ],
)
def test_hits_become_calls(rows: list[Row], expected: str) -> None:
    assert ", ".join(journal(rows)) == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param(
            [("f(", 90), ("g(", 80), ("g)", 80), ("g(", 80), ("g)", 80), ("f)", 90)],
            "-> f 0, -> g 1, <- g 1 2 1, -> g 1, <- g 1 4 1, <- f 0 5 5",
            id="nested",
        ),
        pytest.param(
            [("f(", 90), ("f(", 90)],
            "-> f 0, <- f 0 ? ?, -> f 0",
            id="a panic that an untraced function recovered",
        ),
        pytest.param(
            [("f(", 90), ("line", 5000), ("f)", 90)],
            "-> f 0, -> line 1, <- line 1 ? ?, <- f 0 2 2",
            id="a line, whose stack pointer is an address",
        ),
        pytest.param(
            [("f(", 90), ("g(", 80), ("f)", 90)],
            "-> f 0, -> g 1, <- g 1 ? ?, <- f 0 2 2",
            id="a panic that the outer one recovered",
        ),
        pytest.param([("g)", 80), ("f(", 90), ("g)", 80)], "-> f 0", id="before the trace"),
    ],
)
def test_calls_of_a_goroutine(rows: list[Row], expected: str) -> None:
    assert ", ".join(journal(rows, GO)) == expected


def test_a_goroutine_keeps_its_calls_on_another_thread() -> None:
    shown = Journal()
    builder = CallBuilder([*GO.values()], shown)
    for at, (name, stack, tid, task) in enumerate(
        [
            *(("f(", 90, 7, 1), ("f(", 85, 8, 2), ("g(", 80, 9, 1)),
            *(("g)", 80, 7, 1), ("f)", 90, 8, 1), ("f)", 85, 7, 2)),
        ]
    ):
        builder.handle(hit(at, [*GO].index(name), stack, tid=tid, task=task))
    assert shown.lines == ["-> f 0", "-> f 0", "-> g 1", "<- g 1 1 1", "<- f 0 1 4", "<- f 0 1 4"]
    assert [call.task for call in shown.ended_calls] == [1, 1, 2]


def test_threads_and_processes_have_their_own_calls() -> None:
    shown = Journal()
    builder = CallBuilder([*PLACES.values()], shown)
    ways = [(7, 7), (7, 8), (9, 9)]
    for at, (pid, tid) in enumerate(ways):
        builder.handle(hit(at, 0, 90 - at, pid=pid, tid=tid))
    for at, (pid, tid) in enumerate(ways, 3):
        builder.handle(hit(at, 3, 93 - at, pid=pid, tid=tid))
    assert shown.lines == [*["-> f 0"] * 3, *["<- f 0 1 3"] * 3]


def test_a_task_of_rust_is_on_the_stack_of_its_thread() -> None:
    shown = Journal()
    builder = CallBuilder([*PLACES.values()], shown)
    for index, stack, task in [(0, 90, 0), (1, 80, 5), (4, 80, 5), (3, 90, 0)]:
        builder.handle(hit(0, index, stack, task=task))
    assert shown.lines == ["-> f 0", "-> g 1", "<- g 1 1 0", "<- f 0 1 0"]


def test_the_end_of_a_process_ends_its_calls() -> None:
    shown = Journal()
    builder = CallBuilder([*PLACES.values()], shown)
    for at, (pid, index) in enumerate([(7, 0), (9, 0), (7, 1)]):
        builder.handle(hit(at, index, 90 - at, pid=pid, tid=pid))
    builder.end_process(7)
    builder.end_process(8)
    assert shown.lines[3:] == ["<- g 1 ? ?", "<- f 0 ? ?"]
    builder.finish()
    assert shown.lines[5:] == ["<- f 0 ? ?"]


def test_the_oldest_open_calls_are_forgotten() -> None:
    shown = Journal()
    builder = CallBuilder([*PLACES.values()], shown, most_open=2)
    for at in range(4):
        builder.handle(hit(at, 0, 90 - at, tid=10 + at % 2))
    assert shown.lines[2:] == ["<- f 0 ? ?", "-> f 1", "<- f 0 ? ?", "-> f 1"]
    assert (builder.calls, builder.forgotten) == (4, 2)


def test_a_deep_recursion_is_forgotten_from_outside() -> None:
    shown = Journal()
    builder = CallBuilder([*PLACES.values()], shown, most_open=100)
    for at in range(300):
        builder.handle(hit(at, 0, 10_000 - at))
    for at in range(300):
        builder.handle(hit(300 + at, 3, 10_000 - 299 + at))
    assert [call.depth for call in shown.entered_calls] == [*range(300)]
    returned = [call.depth for call in shown.ended_calls if call.duration_ns is not None]
    assert returned == [*range(299, 199, -1)]
    assert builder.forgotten == 200


def test_arguments_and_results() -> None:
    shown = Journal()
    builder = CallBuilder([*PLACES.values()], shown)
    for each in hits([("f(", 90), ("j1", 80), ("j1=", 80), ("f)", 90)], PLACES):
        builder.handle(each)
    inlined, outer = shown.ended_calls
    assert (inlined.arguments, inlined.result, inlined.is_result_inferred) == ({"n": 1}, 2, True)
    assert (outer.arguments, outer.result, outer.is_result_inferred) == ({"n": 0}, 3, False)
    assert (inlined.ends_later, outer.ends_later) == (True, True)


def test_calls_come_in_the_order_of_hits() -> None:
    rows = [(name, stack) for stack in (90, 80) for name in PLACES]
    shown = Journal()
    builder = CallBuilder([*PLACES.values()], shown)
    for each in hits(rows, PLACES):
        builder.handle(each)
    times = [call.time_ns for call in shown.entered_calls]
    assert all(one < other for one, other in itertools.pairwise(times))


@pytest.mark.parametrize(
    ("second_caller", "expected"),
    [
        (1, ["-> f 0", "-> g 1", "<- g 1 ? 1", "<- f 0 ? 2"]),
        (2, ["-> f 0", "<- f 0 ? ?", "-> g 0", "<- g 0 ? 1"]),
    ],
)
def test_a_tail_call_returns_to_the_same_address(second_caller: int, expected: list[str]) -> None:
    with_caller = Fetch((), 1, {}, lambda data, failed: data[0])
    no_result = Fetch()
    places = [
        *(place(ENTRY, name, fetch=with_caller) for name in "fg"),
        *(place(RETURN, name, fetch=no_result) for name in "fg"),
    ]
    shown = Journal()
    builder = CallBuilder(places, shown)
    for at, (index, caller) in enumerate([(0, 1), (1, second_caller), (3, 0)]):
        builder.handle(hit(at, index, 90, bytes([caller])))
    assert shown.lines == expected


def test_a_return_address_that_cannot_be_read() -> None:
    unread = Fetch((), 1, {}, lambda data, failed: Missing.UNREADABLE)
    places = [*(place(ENTRY, name, fetch=unread) for name in "fg"), PLACES["f)"], PLACES["g)"]]
    shown = Journal()
    builder = CallBuilder(places, shown)
    for at, index in enumerate([0, 1, 3]):
        builder.handle(hit(at, index, 90))
    assert shown.lines == ["-> f 0", "-> g 1", "<- g 1 1 1", "<- f 0 ? 2"]


@pytest.mark.parametrize("dropped", [5, 6])
def test_an_end_after_dropped_hits_is_doubtful(dropped: int) -> None:
    """It may be that of a later call, whose entry was dropped as the return of this one was."""
    shown = Journal()
    builder = CallBuilder([*PLACES.values()], shown)
    names = [*PLACES]
    builder.handle(hit(0, names.index("f("), 100, dropped=5))
    builder.handle(hit(1, names.index("f)"), 100, dropped=dropped))
    (call,) = shown.ended_calls
    assert call.duration_ns == 1
    assert call.is_end_doubtful == (dropped > 5)
