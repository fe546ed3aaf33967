"""Writes exchanges as a trace file of Chrome's, the calls that served each as slices inside of it.

The form is that of ``chrome_trace``. Each connection is a track; HTTP/2 streams that overlap have
tracks of their own.
"""

from collections.abc import Mapping, Sequence
from typing import BinaryIO

from sslsniff.core.model import Connection, Exchange
from sslsniff.core.sink import Sink
from sslsniff.forms.json.encoded_json import encoded_json
from sslsniff.forms.text import pieces
from sslsniff.functions.outputs.traced_call import CallsOf, TracedCall
from sslsniff.functions.outputs.value_json import json_value

_FIRST_TRACK = 1 << 23
"""Numbers above those of threads and of ``chrome_trace``'s goroutines."""

EARLIER_NS = 1_000_000_000
"""Exchanges are written as they end: others may have begun earlier, and no time is negative."""


class _Track:
    """A row of slices; ``end_ns``: when the last one ends."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.end_ns = 0


class ExchangeTrace(Sink):
    """Writes an event to ``stream`` for each exchange when it ended, and for each of its calls.

    ``calls_of``: returns the calls of an exchange, None: only exchanges are written. Times are
    since ``EARLIER_NS`` before the first connection or exchange whose time is known. One whose time
    is not known stands at the beginning, and says so.
    """

    def __init__(self, stream: BinaryIO, calls_of: CallsOf | None = None) -> None:
        self._stream = stream
        self._calls_of = calls_of
        self._start_ns: int | None = None
        self._tracks: dict[str, list[_Track]] = {}
        self._count = 0
        self._processes: set[int] = set()
        self._separator = b"[\n"

    def opened(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._begin(time_ns)

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        calls = (self._calls_of(exchange) if self._calls_of is not None else None) or ()
        start_ns = min([exchange.started_ns, *(each.time_ns for each in calls)])
        ends_ns = [each.time_ns + (each.duration_ns or 0) for each in calls]
        lasted_ns = pieces.span_ns(exchange.started_ns, exchange.ended_ns) or 0
        end_ns = max([exchange.started_ns + lasted_ns, *ends_ns])
        self._begin(start_ns)
        pid = exchange.connection.process.pid
        track = self._track(exchange.connection, start_ns)
        track.end_ns = end_ns
        request, response = exchange.request, exchange.response
        name = f"{request.method or '?'} {request.target or '?'}" if request else "?"
        values = {
            "status": response.status if response else None,
            "protocol": exchange.protocol,
            "stream": exchange.stream,
            "error": exchange.error,
        }
        if not exchange.started_ns:
            values["time"] = "not known"
        self._slice(name, "exchange", start_ns, end_ns, (pid, track.number), values)
        self._calls(calls, end_ns, (pid, track.number))

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._tracks.pop(connection.id, None)

    def flush(self) -> None:
        """See ``Sink``."""
        self._stream.flush()

    def close(self) -> None:
        """See ``Sink``: ends the array."""
        self._stream.write(b"\n]\n" if self._separator == b",\n" else b"[]\n")
        self._stream.flush()

    def _begin(self, time_ns: int) -> None:
        if self._start_ns is None and time_ns:
            self._start_ns = time_ns - EARLIER_NS

    def _calls(self, calls: Sequence[TracedCall], end_ns: int, where: tuple[int, int]) -> None:
        for call in calls:
            values = {name: json_value(value) for name, value in call.arguments.items()}
            if call.has_result:
                values["result"] = json_value(call.result)
            if call.is_end_doubtful:
                values["doubtful"] = True
            if call.task is not None:
                values["goroutine" if call.place.is_go else "task"] = call.task
            values["thread"] = call.tid
            call_end_ns = call.time_ns + (call.duration_ns or 0)
            if call.duration_ns is None and call.has_inside:
                call_end_ns = end_ns
                values["returned"] = False
            function = call.place.function
            self._slice(function, "call", call.time_ns, call_end_ns, where, values)

    def _slice(
        self,
        name: str,
        category: str,
        start_ns: int,
        end_ns: int,
        where: tuple[int, int],
        values: Mapping[str, object],
    ) -> None:
        """Write a slice; ``where``: its process and track."""
        self._write(
            {
                "name": name,
                "cat": category,
                "ph": "X",
                "ts": max(0, start_ns - (self._start_ns or 0)) / 1000,
                "dur": (end_ns - start_ns) / 1000,
                "pid": where[0],
                "tid": where[1],
                "args": values,
            }
        )

    def _track(self, connection: Connection, start_ns: int) -> _Track:
        """Return a track of the connection whose slices are over; it has its name in the file."""
        tracks = self._tracks.setdefault(connection.id, [])
        for each in tracks:
            if each.end_ns <= start_ns:
                return each
        process = connection.process
        if process.pid not in self._processes:
            self._processes.add(process.pid)
            self._metadata("process_name", process.pid, process.pid, process.comm)
        self._count += 1
        track = _Track(_FIRST_TRACK + self._count)
        tracks.append(track)
        self._metadata("thread_name", process.pid, track.number, f"connection {connection.id}")
        return track

    def _metadata(self, what: str, pid: int, number: int, name: str) -> None:
        self._write({"name": what, "ph": "M", "pid": pid, "tid": number, "args": {"name": name}})

    def _write(self, event: dict[str, object]) -> None:
        self._stream.write(self._separator + encoded_json(event))
        self._separator = b",\n"
