"""Connections whose protocol was not recognised: reported once, a second after their first bytes.

Memory: some bytes for each connection that is younger than that.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from sslsniff.decoders.messages import Side, Undecoded
from sslsniff.decoders.opaque import UNKNOWN
from sslsniff.model import Chunk, Connection, Direction
from sslsniff.sinks.base import Sink

REPORTED_AFTER_NS = 1_000_000_000
"""So long after a connection's first bytes it is told of."""

_FIRST_BYTES = 64


class Unrecognised(Sink):
    """Tells ``sinks``, before whom it is; ``protocol`` returns a connection's as far as known.

    A connection is told of earlier if bytes of it are told to be undecoded.
    """

    def __init__(self, sinks: Sequence[Sink], protocol: Callable[[Connection], str]) -> None:
        self._sinks = sinks
        self._protocol = protocol
        self._silent: set[str] = set()  # connections of which no byte was seen
        self._first: dict[str, Chunk] = {}  # the oldest first

    def opened(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._silent.add(connection.id)

    def chunk(self, chunk: Chunk) -> None:
        """See ``Sink``."""
        if chunk.data and chunk.connection.id in self._silent:
            self._silent.discard(chunk.connection.id)
            self._first[chunk.connection.id] = replace(chunk, data=chunk.data[:_FIRST_BYTES])

    def undecoded(self, connection: Connection, message: Undecoded, time_ns: int) -> None:
        """See ``Sink``."""
        self._tell(connection)

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._silent.discard(connection.id)
        self._first.pop(connection.id, None)

    def tick(self, now_ns: int) -> None:
        """Tell of those that are old enough; forget those that were recognised."""
        while self._first:
            first = next(iter(self._first.values()))
            is_young = now_ns - first.time_ns < REPORTED_AFTER_NS
            if is_young and self._protocol(first.connection) == UNKNOWN:
                return
            self._tell(first.connection)

    def _tell(self, connection: Connection) -> None:
        first = self._first.pop(connection.id, None)
        if first is not None and self._protocol(connection) == UNKNOWN:
            writer = connection.role or Side.CLIENT
            side = writer if first.direction is Direction.WRITE else writer.other
            for sink in self._sinks:
                sink.unknown(connection, side, first.data, first.time_ns)
