"""Stores what the lines of a capture say, in bounded memory.

The oldest go first: of exchanges their bodies and messages, then they themselves; of connections
their frames. The store counts what it dropped, and the screen says so.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from sslsniff.forms.json.short_lines import (
    IS_EXCHANGE,
    IS_FRAME,
    ShortExchange,
    is_frame_of,
    without_bodies,
)
from sslsniff.screen.captured.capture_rows import ConnectionRow, ExchangeRow
from sslsniff.screen.captured.stall_rows import StallStore
from sslsniff.statistics.outcome import Outcome

Object = dict[str, Any]

MOST_EXCHANGES = 50_000
MOST_CONNECTIONS = 10_000
MOST_EXCHANGE_BYTES = 128 << 20
"""Of the lines of exchanges and their messages."""
MOST_FRAME_BYTES = 32 << 20
MOST_NOTES = 1_000

_FRAMES = (IS_FRAME, b'{"type":"frame",')
"""How the line of a frame begins: the most frequent of all, so it is not parsed before use."""

_SWITCHED = 101
"""The status of an exchange whose messages follow: a WebSocket over HTTP/1."""


@dataclass(slots=True)
class Dropped:
    """What was dropped to bound memory: counts of exchanges, of their bodies, of frames, ..."""

    exchanges: int = 0
    bodies: int = 0
    frames: int = 0
    connections: int = 0
    notes: int = 0


@dataclass(slots=True)
class Losses:
    """Lost plaintext by cause, in events and bytes: as reported so far, and in sum at the end."""

    so_far: dict[str, tuple[int, int]] = field(default_factory=dict)
    in_sum: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def by_cause(self) -> dict[str, tuple[int, int]]:
        """The sum at the end has also what could not be reported before."""
        return self.in_sum or self.so_far

    @property
    def bytes(self) -> int:
        """All lost bytes."""
        return sum(lost for _, lost in self.by_cause.values())


class Store:
    """What was captured; ``feed`` and ``add_note`` may be called in other threads.

    ``handle_exchange`` gets the figures of each exchange that ended. ``lock``: needed to read
    more than one value. ``version`` grows with each change.
    """

    def __init__(self, handle_exchange: Callable[[Outcome], None] = lambda outcome: None) -> None:
        self.lock = threading.Lock()
        self.version = 0
        self.rows: dict[int, ExchangeRow] = {}
        """By their numbers, oldest first."""
        self.connections: dict[str, ConnectionRow] = {}
        self.losses = Losses()
        self.notes: deque[str] = deque(maxlen=MOST_NOTES)
        self.summary: Object | None = None
        self.dropped = Dropped()
        self.ended = 0
        """How many exchanges ended, dropped ones included."""
        self._handle_exchange = handle_exchange
        self._origins: dict[str, Object] = {}
        self._last_number = 0
        self._open: dict[tuple[str, int | None], ExchangeRow] = {}
        self._whole: deque[ExchangeRow] = deque()
        self._bytes = 0
        self.stalls = StallStore()
        self.failed = 0
        """How many exchanges ended early, or failed by their status."""
        self._frames: deque[bytes] = deque()
        self._frame_bytes = 0

    def add_note(self, line: str) -> None:
        """Store a line that the capture wrote to standard error."""
        with self.lock:
            self.dropped.notes += len(self.notes) == MOST_NOTES
            self.notes.append(line)
            self.version += 1

    def feed(self, line: bytes) -> None:
        """Store a line of ``ShortLines``. What is no object of a known type is left out."""
        if line.startswith(IS_EXCHANGE):
            short = ShortExchange.parse(line)
            with self.lock:
                self._handle_short(line, short)
                self.version += 1
            return
        if line.startswith(_FRAMES):
            with self.lock:
                self._add_frame(line)
            return
        try:
            shown = orjson.loads(line)
        except orjson.JSONDecodeError:
            self.add_note(f"a line of the capture is not JSON: {line[:80]!r}")
            return
        with self.lock:
            handle = _HANDLERS.get(shown["type"])
            if handle is not None:
                handle(self, line, shown)
                self.version += 1

    def _handle_short(self, line: bytes, short: ShortExchange) -> None:
        origin = self._origins[short.connection]
        connection = self.connections.get(short.connection) or self._connection(origin)
        row = self._open.pop((connection.id, short.stream), None) or self._add_row(connection)
        row.finish_short(line, short)
        self._handle_ended(row, len(line), Outcome.of_short(short, origin, connection.sni))

    def _handle_exchange_line(self, line: bytes, shown: Object) -> None:
        connection = self._connection(shown)
        row = self._open.pop((connection.id, shown["stream"]), None) or self._add_row(connection)
        row.finish(line, shown)
        self._handle_ended(row, len(line), Outcome.of_json(shown, connection.sni))

    def _handle_ended(self, row: ExchangeRow, size: int, outcome: Outcome) -> None:
        connection = row.connection
        connection.protocol = row.protocol
        connection.count += 1
        self.ended += 1
        self.failed += row.is_failed
        self._grow(row, size)
        if row.status == _SWITCHED:
            self._open[connection.id, row.stream] = row
        self._handle_exchange(outcome)
        self._bound_exchanges()

    def _handle_message(self, line: bytes, shown: Object) -> None:
        if shown.get("opcode") == "notification":
            return  # calls by JSON-RPC have a row when they have ended
        connection = self._connection(shown)
        key = connection.id, shown["stream"]
        row = self._open.get(key)
        if row is None:
            row = self._open[key] = self._add_row(connection)
            row.begin(shown)
            if shown["type"] == "grpc" and shown["service"]:
                row.url = f"/{shown['service']}/{shown['method']}"
        row.messages = row.messages or []
        row.messages.append(line)
        self._grow(row, len(line))
        self._bound_exchanges()

    def frames_of(self, connection: ConnectionRow) -> list[bytes]:
        """Return the lines of the frames of a connection: those that are still stored."""
        with self.lock:
            frames = [*self._frames]
        return [line for line in frames if is_frame_of(line, connection.id)]

    def _add_frame(self, line: bytes) -> None:
        self._frames.append(line)
        self._frame_bytes += len(line)
        self.version += 1
        while self._frame_bytes > MOST_FRAME_BYTES:
            self._frame_bytes -= len(self._frames.popleft())
            self.dropped.frames += 1

    def _handle_totals(self, line: bytes, shown: Object) -> None:
        self._connection(shown).totals.append(shown)

    def _handle_stall(self, line: bytes, shown: Object) -> None:
        self.stalls.add(self._connection(shown), shown)

    def _handle_origin(self, line: bytes, shown: Object) -> None:
        self._origins[shown["connection"]] = shown
        self._connection(shown).origin = shown

    def _handle_connection(self, line: bytes, shown: Object) -> None:
        connection = self._connection(shown)
        connection.update_event(shown)
        if connection.closed:
            self._origins.pop(connection.id, None)
            # What was sent inside a WebSocket ends with its connection.
            for key in [key for key in self._open if key[0] == connection.id]:
                del self._open[key]

    def _handle_loss(self, line: bytes, shown: Object) -> None:
        at_end = "connection" not in shown
        known = self.losses.in_sum if at_end else self.losses.so_far
        events, lost = known.get(shown["cause"], (0, 0))
        known[shown["cause"]] = events + shown["events"], lost + shown["bytes"]

    def _handle_summary(self, line: bytes, shown: Object) -> None:
        self.summary = shown

    def _connection(self, shown: Object) -> ConnectionRow:
        connection = self.connections.get(shown["connection"])
        if connection is None:
            connection = self.connections[shown["connection"]] = ConnectionRow(shown)
            connection.origin = self._origins.get(connection.id, {})
            if len(self.connections) > MOST_CONNECTIONS:
                self._drop_connection()
        connection.update(shown)
        return connection

    def _drop_connection(self) -> None:
        """Drop the oldest connection that is closed and has no exchanges, else the oldest."""
        oldest = (each for each in self.connections.values() if each.closed and not each.rows)
        found = next(oldest, None) or next(iter(self.connections.values()))
        del self.connections[found.id]
        self.dropped.connections += 1

    def _add_row(self, connection: ConnectionRow) -> ExchangeRow:
        self._last_number += 1
        row = self.rows[self._last_number] = ExchangeRow(self._last_number, connection)
        connection.rows.append(row)
        self._whole.append(row)
        return row

    def _grow(self, row: ExchangeRow, size: int) -> None:
        row.size += size
        self._bytes += size
        if not row.is_whole:
            row.is_whole = True
            self._whole.append(row)

    def _bound_exchanges(self) -> None:
        while self._bytes > MOST_EXCHANGE_BYTES and len(self._whole) > 1:
            self._drop_bodies(self._whole.popleft())
        while len(self.rows) > MOST_EXCHANGES or (
            self._bytes > MOST_EXCHANGE_BYTES and len(self.rows) > 1
        ):
            row = self.rows.pop(next(iter(self.rows)))
            row.connection.rows.remove(row)  # among the first
            self._open.pop((row.connection.id, row.stream), None)
            if row.is_whole:
                self._whole.remove(row)  # the first, unless messages were added late
            self._bytes -= row.size
            self.dropped.exchanges += 1

    def _drop_bodies(self, row: ExchangeRow) -> None:
        row.is_whole = False
        row.messages = ()
        if row.line is not None:
            row.line = _without_bodies(row.line)
        size = len(row.line or b"")
        self._bytes -= row.size - size
        row.size = size
        self.dropped.bodies += 1


def _without_bodies(line: bytes) -> bytes:
    if line.startswith(IS_EXCHANGE):
        return without_bodies(line)
    shown = orjson.loads(line)
    for name in ("request", "response"):
        body = (shown[name] or {}).get("body")
        if body and body["size"]:
            shown[name]["body"] = {"size": body["size"], "text": "", "truncated": True}
    shown.pop("llm", None)
    return orjson.dumps(shown)


_HANDLERS: dict[str, Callable[[Store, bytes, Object], None]] = {
    "exchange": Store._handle_exchange_line,
    "message": Store._handle_message,
    "grpc": Store._handle_message,
    "frame_totals": Store._handle_totals,
    "wait": Store._handle_stall,
    "origin": Store._handle_origin,
    "connection": Store._handle_connection,
    "loss": Store._handle_loss,
    "summary": Store._handle_summary,
}
