"""Calls as JSON lines: the stable form for programs (docs/json.md)."""

import functools
from typing import Any, BinaryIO

import orjson

from sslsniff.core.model import Exchange
from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.forms.json.encoded_json import encoded_json
from sslsniff.forms.json.json_lines import CallObjects
from sslsniff.forms.text import pieces
from sslsniff.functions.outputs.stack_text import stack_objects
from sslsniff.functions.outputs.thread_names import ThreadNames
from sslsniff.functions.outputs.traced_call import CallSink, CallsOf, TracedCall, TraceSummary
from sslsniff.functions.outputs.value_json import json_value, json_values

_KINDS = {
    PlaceKind.ENTRY: "function",
    PlaceKind.INLINED: "function",
    PlaceKind.LINE: "line",
    PlaceKind.STATIC: "usdt",
    PlaceKind.ADDRESS: "address",
}

_MOST_PROCESSES = 4096
"""So many names are kept encoded."""


class CallJson(CallSink):
    """Writes one object a line to ``stream`` for each call, when it ended."""

    def __init__(self, stream: BinaryIO, names: ThreadNames | None = None) -> None:
        self._stream = stream
        self._names = names or ThreadNames()
        self._fields: dict[int, tuple[Place, str]] = {}
        """By the places' identities, which stay theirs while they are held."""
        self._comm = functools.lru_cache(_MOST_PROCESSES)(self._encoded_comm)

    def ended(self, call: TracedCall) -> None:
        """See ``CallSink``."""
        self._stream.write(self.encoded(call) + b"\n")

    def encoded(self, call: TracedCall) -> bytes:
        """Return the object of a call, encoded."""
        place = call.place
        known = self._fields.get(id(place))
        if known is None:
            known = self._fields[id(place)] = (place, _place_fields(place))
        _, described = known
        values: dict[str, object] = {"args": json_values(call.arguments)}
        if call.has_result:
            values["result"] = json_value(call.result)
            if call.is_result_inferred:
                values["result_inferred"] = True
        if call.is_end_doubtful:
            values["doubtful"] = True
        if call.stack is not None:
            values["stack"] = stack_objects(call.stack)
        if call.duration_ns is None:
            duration = "null"
            if call.ends_later and place.kind is PlaceKind.ENTRY:
                values["returned"] = False
        else:
            duration = str(call.duration_ns)
        task = ""
        if call.task is not None:
            task = f'"{"goroutine" if place.is_go else "task"}":{call.task},'
        start = (
            f'{{"type":"call","time":"{pieces.utc_time(call.time_ns)}","duration_ns":{duration},'
            f'"pid":{call.pid},"tid":{call.tid},"comm":{self._comm(call.pid)},{task}"depth":{call.depth},'
            f"{described},"
        )
        return start.encode() + encoded_json(values)[1:]

    def _encoded_comm(self, pid: int) -> str:
        return encoded_json(self._names.name(pid)).decode()

    def summary(self, summary: TraceSummary) -> None:
        """See ``CallSink``."""
        line: dict[str, Any] = {
            "type": "summary",
            "calls": summary.calls,
            "lost_calls": summary.lost,
            "rate_limited_calls": summary.limited,
            "forgotten_calls": summary.forgotten,
            "duration_s": round(summary.duration_ns / 1e9, 6),
        }
        if summary.shown is not None:
            line["shown"] = summary.shown
        self._stream.write(encoded_json(line) + b"\n")

    def flush(self) -> None:
        """See ``CallSink``."""
        self._stream.flush()


def call_objects(calls_of: CallsOf, stream: BinaryIO) -> CallObjects:
    """Return what encodes the calls of exchanges, for lines that are written to ``stream``."""
    encoded = CallJson(stream).encoded

    def objects(exchange: Exchange) -> list[orjson.Fragment] | None:
        calls = calls_of(exchange)
        return None if calls is None else [orjson.Fragment(encoded(each)) for each in calls]

    return objects


def _place_fields(place: Place) -> str:
    """Return the fields that all calls of a place have, encoded."""
    fields: dict[str, object] = {
        "kind": _KINDS[place.kind],
        "function": place.function,
        "inlined": place.kind is PlaceKind.INLINED,
    }
    if place.kind is PlaceKind.INLINED:
        fields["into"] = place.into
    fields |= {"file": place.file, "line": place.line}
    return encoded_json(fields).decode()[1:-1]
