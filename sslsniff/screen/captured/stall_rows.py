"""Stores the flow-control stalls of connections, as far as diagrams and lists show them."""

from collections import deque
from typing import Any, NamedTuple, Protocol

from sslsniff.screen.captured.rebuilt_exchanges import nanoseconds

Object = dict[str, Any]

MOST_STALLS = 2_000
"""Of all connections; the oldest goes first."""
LONG_MS = 1_000
"""Of a stall that lasts so long it is said who does not read."""


class StallRow(NamedTuple):
    """A stall from ``since_ns`` to ``until_ns``, at least, of what one side sends.

    ``stream`` 0: on all streams. ``text``: why, in words.
    """

    stream: int
    by_client: bool
    since_ns: int
    until_ns: int
    is_over: bool
    text: str

    @property
    def lasted_ms(self) -> float:
        """How long it lasted, at least."""
        return (self.until_ns - self.since_ns) / 1e6


class StalledConnection(Protocol):
    """A connection with its stalls and the time of the longest: ``capture_rows.ConnectionRow``."""

    role: str
    stalls: deque[StallRow]
    stalled_ms: float


class StallStore:
    """Gives each connection its ``stalls``, in bounded memory; counts those with long ones."""

    def __init__(self) -> None:
        self.stalled_connections = 0
        self._order: deque[StalledConnection] = deque()

    def add(self, connection: StalledConnection, shown: Object) -> None:
        """Store what a ``wait`` line says; it replaces what was said of a stall that lasted."""
        until_ns = nanoseconds(shown["time"])
        waited_ms = shown["waited_ms"]
        if not until_ns or waited_ms is None:
            return
        by_client = (shown["direction"] == "write") == (connection.role == "client")
        stream, since_ns = shown["stream"], until_ns - round(waited_ms * 1e6)
        stall = StallRow(stream, by_client, since_ns, until_ns, shown["over"], shown["text"])
        before = connection.stalls
        for place, each in enumerate(before):
            if not each.is_over and (each.stream, each.by_client) == (stream, by_client):
                del before[place]
                self._order.remove(connection)
                break
        before.append(stall)
        self._order.append(connection)
        if stall.lasted_ms >= LONG_MS > connection.stalled_ms:
            self.stalled_connections += 1
        connection.stalled_ms = max(connection.stalled_ms, stall.lasted_ms)
        if len(self._order) > MOST_STALLS:
            self._order.popleft().stalls.popleft()
