"""Reports a connection whose protocol is not recognised, once, a second after its first bytes.

Memory: some 100 bytes for each connection until then.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sslsniff.core.model import Chunk, Connection, Direction
from sslsniff.core.sink import Sink
from sslsniff.decoders.messages import Side, Undecoded
from sslsniff.decoders.opaque import UNKNOWN

REPORTED_AFTER_NS = 1_000_000_000
"""How long after its first bytes a connection is reported."""

_FIRST_BYTES = 64


class _FirstBytes(NamedTuple):
    """Where a connection's plaintext begins: its first bytes, and when they passed."""

    connection: Connection
    direction: Direction
    time_ns: int
    data: bytes


class Unrecognised(Sink):
    """Calls ``Sink.unknown`` of ``sinks``; it must be called before them.

    ``protocol`` returns a connection's protocol, as far as known. A connection is reported earlier
    if bytes of it are reported as undecoded.
    """

    def __init__(self, sinks: Sequence[Sink], protocol: Callable[[Connection], str]) -> None:
        self._sinks = sinks
        self._protocol = protocol
        self._silent: set[str] = set()  # ids of connections without plaintext so far
        self._first: dict[str, _FirstBytes] = {}  # by the connection's id, oldest first

    def opened(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._silent.add(connection.id)

    def chunk(self, chunk: Chunk) -> None:
        """See ``Sink``."""
        connection, data = chunk.connection, chunk.data
        if data and connection.id in self._silent:
            self._silent.discard(connection.id)
            self._first[connection.id] = _FirstBytes(
                connection, chunk.direction, chunk.time_ns, data[:_FIRST_BYTES]
            )

    def undecoded(self, connection: Connection, message: Undecoded, time_ns: int) -> None:
        """See ``Sink``."""
        self._report(connection)

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._silent.discard(connection.id)
        self._first.pop(connection.id, None)

    def tick(self, now_ns: int) -> None:
        """Report connections that are old enough; forget those that were recognised."""
        while self._first:
            first = next(iter(self._first.values()))
            is_young = now_ns - first.time_ns < REPORTED_AFTER_NS
            if is_young and self._protocol(first.connection) == UNKNOWN:
                return
            self._report(first.connection)

    def _report(self, connection: Connection) -> None:
        first = self._first.pop(connection.id, None)
        if first is not None and self._protocol(connection) == UNKNOWN:
            writer = connection.role or Side.CLIENT
            side = writer if first.direction is Direction.WRITE else writer.other
            for sink in self._sinks:
                sink.unknown(connection, side, first.data, first.time_ns)
