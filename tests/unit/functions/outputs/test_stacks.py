"""Stacks in text, in JSON and as folded lines."""

import io
import json

from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.functions.outputs.call_json import CallJson
from sslsniff.functions.outputs.call_lines import CallLines
from sslsniff.functions.outputs.folded_stacks import FoldedStacks
from sslsniff.functions.outputs.traced_call import TracedCall
from sslsniff.functions.stacks.stack_trace import CodePlace, MissingFrames, StackTrace
from sslsniff.machine_code.probe_sites import Cost

PLACE = Place(PlaceKind.ENTRY, "inner", "/bin/app", 16, 16, Cost.EMULATED)
INNER = CodePlace("inner", "/src/app.c", 7, True, "app", 20)
OUTER = CodePlace("a;b\x1b", None, None, False, "app", 20)
UNKNOWN = CodePlace(None, None, None, False, "lib.so", 255)
STACK = StackTrace(lambda: (INNER, OUTER, UNKNOWN), MissingFrames.UNKNOWN)


def call(stack: StackTrace | None, *, ends_later: bool = False) -> TracedCall:
    return TracedCall(PLACE, 10**18, 1, 1, None, 0, ends_later=ends_later, stack=stack)


def test_lines_below_the_call() -> None:
    stream = io.StringIO()
    sink = CallLines(stream)
    for ends_later in (False, True):
        traced = call(STACK, ends_later=ends_later)
        sink.entered(traced)
        sink.ended(traced)
    lines = stream.getvalue().splitlines()
    shown = [
        "inner  app.c:7  [inlined]",
        "a;b\\x1b  (app)",
        "lib.so+0xff",
        "... (missing: unknown)",
    ]
    assert [each.strip() for each in lines[1:5]] == shown
    assert [each.strip() for each in lines[6:10]] == shown
    assert lines[1].startswith(" " * 30)


def test_without_stacks_nothing_changes() -> None:
    stream = io.StringIO()
    sink = CallLines(stream)
    sink.entered(call(None))
    sink.ended(call(None))
    assert len(stream.getvalue().splitlines()) == 1


def test_the_array_in_json() -> None:
    stream = io.BytesIO()
    CallJson(stream).ended(call(STACK))
    found = json.loads(stream.getvalue())["stack"]
    assert found[0] == {
        "function": "inner",
        "file": "/src/app.c",
        "line": 7,
        "inlined": True,
        "module": "app",
        "address": 20,
    }
    assert found[2]["function"] is None
    assert found[3:] == [{"missing": "unknown"}]
    CallJson(stream := io.BytesIO()).ended(call(None))
    assert "stack" not in json.loads(stream.getvalue())


def test_folded_lines_count_equal_stacks() -> None:
    stream = io.StringIO()
    sink = FoldedStacks(stream)
    whole, other = (StackTrace(lambda: (INNER, OUTER)) for _ in range(2))
    for stack in (STACK, whole, whole, other, None):
        sink.entered(call(stack))
    sink.close()
    assert stream.getvalue().splitlines() == [
        "[missing: unknown];lib.so+0xff;a:b\\x1b;inner 1",
        "a:b\\x1b;inner 3",
    ]
