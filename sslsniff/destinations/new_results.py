"""Passes results to other sinks once, though what leads to them is read again."""

from collections.abc import Callable, Sequence
from typing import Protocol

from sslsniff.core.model import Chunk, Connection, Exchange, Handshake, InnerMessage
from sslsniff.core.sink import FlowControlStall, Sink, Summary
from sslsniff.decoders.messages import Frame, Http2Totals, Side, Undecoded


class RepeatingSource(Protocol):
    """A source that reads again what it, or another, has read.

    ``is_repeated``: whether the results of the present events are stored. ``place``: where these
    events are in the source, the same each time.
    """

    is_repeated: bool
    place: str


class NewResults(Sink):
    """Passes to ``sinks`` nothing while ``source`` repeats: those results are stored already.

    Nothing is stored until ``persist``: then all is. Who is killed just after that, before the
    source knows of it, has stored results that another stores again. So each exchange has a
    ``place`` of its own, the same both times.
    """

    def __init__(self, sinks: Sequence[Sink], source: RepeatingSource) -> None:
        self.wants_bodies = any(sink.wants_bodies for sink in sinks)
        self.wants_messages = any(sink.wants_messages for sink in sinks)
        self._sinks = sinks
        self._source = source
        self._exchanges = 0
        self._place = ""
        self._exchanges_at_place = 0

    def _call(self, hook: Callable[[Sink], None]) -> None:
        if not self._source.is_repeated:
            for sink in self._sinks:
                hook(sink)

    def opened(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._call(lambda sink: sink.opened(connection, time_ns))

    def chunk(self, chunk: Chunk) -> None:
        """See ``Sink``: only losses are passed on."""
        if chunk.missing:
            self._call(lambda sink: sink.chunk(chunk))

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        if self._source.is_repeated:
            return
        self._exchanges += 1
        if self._place != self._source.place:
            self._place, self._exchanges_at_place = self._source.place, 0
        exchange.place = f"{self._place}/{self._exchanges_at_place}"
        self._exchanges_at_place += 1
        for sink in self._sinks:
            sink.exchange(exchange)

    def handshake(self, handshake: Handshake) -> None:
        """See ``Sink``."""
        self._call(lambda sink: sink.handshake(handshake))

    def frame(self, connection: Connection, frame: Frame, time_ns: int, tid: int) -> None:
        """See ``Sink``."""
        self._call(lambda sink: sink.frame(connection, frame, time_ns, tid))

    def stall(self, connection: Connection, stall: FlowControlStall, time_ns: int) -> None:
        """See ``Sink``."""
        self._call(lambda sink: sink.stall(connection, stall, time_ns))

    def frame_totals(self, connection: Connection, totals: Http2Totals, time_ns: int) -> None:
        """See ``Sink``."""
        self._call(lambda sink: sink.frame_totals(connection, totals, time_ns))

    def message(self, inner: InnerMessage) -> None:
        """See ``Sink``."""
        self._call(lambda sink: sink.message(inner))

    def unknown(self, connection: Connection, side: Side, first: bytes, time_ns: int) -> None:
        """See ``Sink``."""
        self._call(lambda sink: sink.unknown(connection, side, first, time_ns))

    def undecoded(self, connection: Connection, message: Undecoded, time_ns: int) -> None:
        """See ``Sink``."""
        self._call(lambda sink: sink.undecoded(connection, message, time_ns))

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._call(lambda sink: sink.closed(connection, time_ns))

    def summary(self, summary: Summary) -> None:
        """See ``Sink``: with the exchanges that were passed on."""
        summary.exchanges = self._exchanges
        for sink in self._sinks:
            sink.summary(summary)

    def persist(self) -> None:
        """See ``Sink``."""
        for sink in self._sinks:
            sink.persist()
