"""Calls as JSON lines: exact objects, in which nothing controls a terminal."""

import io
import json
from typing import Any

import pytest

from sslsniff.core.escaping import escape
from sslsniff.fetching.trace_places import PlaceKind
from sslsniff.fetching.traced_values import Text
from sslsniff.functions.outputs.call_json import CallJson
from sslsniff.functions.outputs.traced_call import TracedCall, TraceSummary
from tests.unit.traced import ENTRY, INLINED, START_NS, Named, place

FIELDS = {
    "type": str,
    "time": str,
    "duration_ns": int | None,
    "pid": int,
    "tid": int,
    "comm": str,
    "goroutine": int,
    "task": int,
    "depth": int,
    "kind": str,
    "function": str,
    "inlined": bool,
    "into": str | None,
    "file": str | None,
    "line": int | None,
    "args": dict,
    "result": object,
    "result_inferred": bool,
    "returned": bool,
}
"""The fields of a call's line, in their order, and their types (docs/json.md)."""


def written(call: TracedCall) -> tuple[str, dict[str, Any]]:
    out = io.BytesIO()
    shown = CallJson(out, Named())
    shown.entered(call)
    assert out.getvalue() == b""
    shown.ended(call)
    line = out.getvalue().decode()
    assert line.endswith("\n")
    found = json.loads(line)
    order = [name for name in FIELDS if name in found]
    assert [*found] == order
    for name, value in found.items():
        assert isinstance(value, FIELDS[name])
    return line, found


def test_a_call_with_all_fields() -> None:
    call = TracedCall(place(ENTRY, "f"), START_NS, 7, 8, None, 2, {"i": 1, "len": 5}, 1500, 6, True)
    assert written(call)[1] == {
        "type": "call",
        "time": "2025-11-21T04:40:00.123456Z",
        "duration_ns": 1500,
        "pid": 7,
        "tid": 8,
        "comm": "demo",
        "depth": 2,
        "kind": "function",
        "function": "f",
        "inlined": False,
        "file": "/src/demo.c",
        "line": 7,
        "args": {"i": 1, "len": 5},
        "result": 6,
    }


def test_an_inlined_call_with_the_result_of_its_caller() -> None:
    call = TracedCall(place(INLINED, "f", into="main"), START_NS, 7, 7, None, 0, {})
    call.result, call.has_result, call.is_result_inferred, call.ends_later = None, True, True, True
    found = written(call)[1]
    assert (found["inlined"], found["into"]) == (True, "main")
    assert (found["result"], found["result_inferred"], found["duration_ns"]) == (None, True, None)
    assert "returned" not in found


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (PlaceKind.ENTRY, "function"),
        (PlaceKind.INLINED, "function"),
        (PlaceKind.LINE, "line"),
        (PlaceKind.STATIC, "usdt"),
        (PlaceKind.ADDRESS, "address"),
    ],
)
def test_kinds(kind: PlaceKind, shown: str) -> None:
    found = written(TracedCall(place(kind, "f", file=None, line=None), 1, 7, 7, None, 0))[1]
    assert (found["type"], found["kind"]) == ("call", shown)
    assert found["inlined"] is (kind is INLINED)
    assert (found["file"], found["line"], found["duration_ns"]) == (None, None, None)
    assert "result" not in found


@pytest.mark.parametrize(("is_go", "name"), [(True, "goroutine"), (False, "task")])
def test_goroutines_and_tasks(is_go: bool, name: str) -> None:
    found = written(TracedCall(place(ENTRY, "f", is_go=is_go), 1, 7, 7, 17, 0))[1]
    assert {"goroutine", "task"} & {*found} == {name}
    assert found[name] == 17


def test_a_return_that_was_not_seen() -> None:
    call = TracedCall(place(ENTRY, "f"), 1, 7, 7, None, 0, ends_later=True)
    assert written(call)[1]["returned"] is False
    call.duration_ns = 0
    assert "returned" not in written(call)[1]


def test_hostile_names_and_values() -> None:
    hostile = "\x1b[31m\u202e\x7f\u2028\ud800"
    call = TracedCall(
        place(ENTRY, hostile, file=hostile), 1, 7, 7, None, 0, {hostile: Text(hostile)}
    )
    line, found = written(call)
    assert escape(line.removesuffix("\n")) == line.removesuffix("\n")
    assert (found["function"], found["file"], found["args"]) == (
        hostile,
        hostile,
        {hostile: hostile},
    )


def test_a_number_of_128_bits() -> None:
    call = TracedCall(place(ENTRY, "f"), 1, 7, 7, None, 0, {"n": 1 << 127})
    assert written(call)[1]["args"] == {"n": 1 << 127}


def test_the_summary() -> None:
    out = io.BytesIO()
    shown = CallJson(out)
    shown.summary(TraceSummary(calls=9, duration_ns=1_500_000_000, shown=2, lost=1, limited=3))
    assert json.loads(out.getvalue()) == {
        "type": "summary",
        "calls": 9,
        "lost_calls": 1,
        "rate_limited_calls": 3,
        "forgotten_calls": 0,
        "duration_s": 1.5,
        "shown": 2,
    }
