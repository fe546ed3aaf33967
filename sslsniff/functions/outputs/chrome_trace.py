"""Calls as a trace file of Chrome's, which ui.perfetto.dev and chrome://tracing show as slices.

The file is an array of events: "Trace Event Format", docs.google.com/document/d/1CvAClvFfyA5R-
PhYUmn5OOQtYMH4h6I0nSsKchNAySU. A call that returned is a complete event (``X``), and so is the
second of a pair of static probes, from the first one on. What has no duration is an instant
(``i``). The array may lack its end: then the trace was killed.
"""

from typing import BinaryIO

from sslsniff.fetching.trace_places import PlaceKind
from sslsniff.forms.json.encoded_json import encoded_json
from sslsniff.functions.outputs.thread_names import ThreadNames
from sslsniff.functions.outputs.traced_call import CallSink, TracedCall
from sslsniff.functions.outputs.value_json import json_value

_FIRST_GOROUTINE = 1 << 22
"""Goroutines get numbers above those of threads (PID_MAX_LIMIT, include/linux/threads.h)."""
_MOST_NAMED = 65_536
"""So many threads and goroutines get their names once; then they are named again."""
_CATEGORIES = {
    PlaceKind.ENTRY: "call",
    PlaceKind.INLINED: "inlined",
    PlaceKind.LINE: "line",
    PlaceKind.STATIC: "usdt",
    PlaceKind.ADDRESS: "address",
}


class ChromeTrace(CallSink):
    """Writes an event to ``stream`` when a call ends; times are since the first call.

    ``close`` ends the array, and leaves ``stream`` open.
    """

    def __init__(self, stream: BinaryIO, names: ThreadNames | None = None) -> None:
        self._stream = stream
        self._names = names or ThreadNames()
        self._start_ns = 0
        self._last_ns = 0
        self._named: set[tuple[int, int]] = set()
        self._separator = b"[\n"

    def began(self, time_ns: int) -> None:
        """See ``CallSink``."""
        self._start_ns = time_ns

    def entered(self, call: TracedCall) -> None:
        """See ``CallSink``."""
        self._last_ns = max(self._last_ns, call.time_ns)

    def ended(self, call: TracedCall) -> None:
        """See ``CallSink``; an unseen return was not before the last hit that was seen."""
        place = call.place
        thread = self._thread(call)
        values = {name: json_value(value) for name, value in call.arguments.items()}
        if call.has_result:
            values["result"] = json_value(call.result)
        if call.is_end_doubtful:
            values["doubtful"] = True
        if place.line is not None:
            values["source"] = f"{place.file}:{place.line}"
        event: dict[str, object] = {
            "name": place.function,
            "cat": _CATEGORIES[place.kind],
            "ph": "X",
            "ts": (call.start_ns - self._start_ns) / 1000,
        }
        if call.duration_ns is not None:
            event["dur"] = call.duration_ns / 1000
            self._last_ns = max(self._last_ns, call.start_ns + call.duration_ns)
        elif call.has_inside:
            event["dur"] = (self._last_ns - call.time_ns) / 1000
            values["returned"] = False
        else:
            event |= {"ph": "i", "s": "t"}
        self._write(event | {"pid": call.pid, "tid": thread, "args": values})

    def flush(self) -> None:
        """See ``CallSink``."""
        self._stream.flush()

    def close(self) -> None:
        """See ``CallSink``."""
        self._stream.write(b"\n]\n" if self._separator == b",\n" else b"[]\n")
        self._stream.flush()

    def _thread(self, call: TracedCall) -> int:
        """Return the number of a call's thread or goroutine, which has its name in the file."""
        pid, key = call.thread
        number = key if key >= 0 else _FIRST_GOROUTINE + ~key
        if (pid, number) not in self._named:
            if len(self._named) >= _MOST_NAMED:
                self._named.clear()
            if (pid, 0) not in self._named:
                self._named.add((pid, 0))
                self._metadata("process_name", pid, pid, self._names.name(pid))
            self._named.add((pid, number))
            name = self._names.name(key) if key >= 0 else f"goroutine {~key}"
            self._metadata("thread_name", pid, number, name)
        return number

    def _metadata(self, what: str, pid: int, number: int, name: str) -> None:
        self._write({"name": what, "ph": "M", "pid": pid, "tid": number, "args": {"name": name}})

    def _write(self, event: dict[str, object]) -> None:
        self._stream.write(self._separator + encoded_json(event))
        self._separator = b",\n"
