"""Trace files for ui.perfetto.dev: valid JSON, and slices that lie inside each other."""

import io
import json
from typing import Any

import pytest

from sslsniff.fetching.trace_places import PlaceKind
from sslsniff.functions.calls.call_builder import CallBuilder
from sslsniff.functions.outputs.chrome_trace import ChromeTrace
from tests.unit.traced import ENTRY, INLINED, RETURN, START_NS, Named, hit, place

PLACES = [
    place(ENTRY, "f"),
    place(ENTRY, "g"),
    place(RETURN, "f"),
    place(RETURN, "g"),
    place(INLINED, "i", into="f"),
    place(PlaceKind.LINE, "f", line=3),
    place(ENTRY, "go", is_go=True),
    place(RETURN, "go", is_go=True),
]
F, G, F_END, G_END, INSIDE, LINE, GO, GO_END = range(len(PLACES))


def events(rows: list[tuple[int, int]], **more: int) -> list[dict[str, Any]]:
    """Return the events for hits of (place, stack), 1.5 us after one another."""
    out = io.BytesIO()
    trace = ChromeTrace(out, Named())
    builder = CallBuilder(PLACES, trace)
    for at, (index, stack) in enumerate(rows):
        builder.handle(hit(START_NS + at * 1500, index, stack, bytes([at]), **more))
    builder.finish()
    trace.close()
    found = json.loads(out.getvalue())
    assert isinstance(found, list)
    return found


def test_calls_in_calls() -> None:
    assert events([(F, 90), (G, 80), (G_END, 80), (F_END, 90)]) == [
        {"name": "process_name", "ph": "M", "pid": 7, "tid": 7, "args": {"name": "demo"}},
        {"name": "thread_name", "ph": "M", "pid": 7, "tid": 7, "args": {"name": "demo"}},
        {
            "name": "g",
            "cat": "call",
            "ph": "X",
            "ts": 1.5,
            "dur": 1.5,
            "pid": 7,
            "tid": 7,
            "args": {"n": 1, "result": 2, "source": "/src/demo.c:7"},
        },
        {
            "name": "f",
            "cat": "call",
            "ph": "X",
            "ts": 0.0,
            "dur": 4.5,
            "pid": 7,
            "tid": 7,
            "args": {"n": 0, "result": 3, "source": "/src/demo.c:7"},
        },
    ]


def test_slices_lie_inside_each_other() -> None:
    """Also those of calls whose return was not seen, and of tail calls."""
    rows = [(F, 90), (G, 80), (F, 70), (F_END, 90), (F, 90), (G, 90), (G_END, 90), (F, 90), (G, 80)]
    spans = sorted(
        (each["ts"], each["ts"] + each["dur"]) for each in events(rows) if each["ph"] == "X"
    )
    assert len(spans) == 7
    for start, end in spans:
        assert start <= end
        for other_start, other_end in spans:
            apart = end <= other_start or other_end <= start
            inside = other_start <= start <= end <= other_end
            around = start <= other_start <= other_end <= end
            assert apart or inside or around


def test_a_return_that_was_not_seen() -> None:
    found = [each for each in events([(F, 90), (G, 80), (F_END, 90)]) if each["ph"] == "X"]
    assert [(each["name"], each["dur"]) for each in found] == [("g", 0.0), ("f", 3.0)]
    assert found[0]["args"]["returned"] is False
    assert "returned" not in found[1]["args"]


def test_what_has_no_duration_is_an_instant() -> None:
    found = events([(INSIDE, 90), (LINE, 90)])[2:]
    assert [(each["ph"], each["s"], each["cat"]) for each in found] == [
        ("i", "t", "inlined"),
        ("i", "t", "line"),
    ]


def test_goroutines_have_numbers_of_their_own() -> None:
    found = events([(GO, 90), (GO_END, 90)], tid=8, task=8)
    number = (1 << 22) + 8
    assert [(each["name"], each["tid"], each["args"].get("name")) for each in found] == [
        ("process_name", 7, "demo"),
        ("thread_name", number, "goroutine 8"),
        ("go", number, None),
    ]


def test_names_come_once() -> None:
    found = [*events([(LINE, 90)] * 5), *events([])]
    assert [each["ph"] for each in found] == ["M", "M", *["i"] * 5]


@pytest.mark.parametrize("lines", range(1, 5))
def test_a_trace_that_was_killed_is_whole_up_to_there(lines: int) -> None:
    """Both viewers accept an array without its end."""
    out = io.BytesIO()
    builder = CallBuilder(PLACES, ChromeTrace(out, Named()))
    for at in range(lines):
        builder.handle(hit(START_NS + at, LINE, 90))
    assert len(json.loads(out.getvalue() + b"]")) == 2 + lines


def test_hostile_names() -> None:
    out = io.BytesIO()
    trace = ChromeTrace(out, Named())
    builder = CallBuilder([place(ENTRY, "\x1b\u202e\ud800")], trace)
    builder.handle(hit(START_NS, 0, 90))
    trace.close()
    assert out.getvalue().decode().replace("\n", "").isprintable()
    assert json.loads(out.getvalue())[-1]["name"] == "\x1b\u202e\ud800"


def test_a_pair_of_static_probes_is_a_slice() -> None:
    out = io.BytesIO()
    trace = ChromeTrace(out, Named())
    names = ("db:query__start", "db:query__done")
    builder = CallBuilder([place(PlaceKind.STATIC, each) for each in names], trace)
    builder.handle(hit(START_NS, 0, 90))
    builder.handle(hit(START_NS + 1500, 1, 90))
    trace.close()
    first, last = json.loads(out.getvalue())[2:]
    assert (first["ph"], first["ts"]) == ("i", 0.0)
    assert (last["ph"], last["name"], last["ts"], last["dur"]) == ("X", names[1], 0.0, 1.5)
