"""Passes the results of decoding to all sinks."""

from collections.abc import Collection, Sequence

from sslsniff.core.fast_path import Consumer
from sslsniff.core.model import (
    Chunk,
    Connection,
    Direction,
    Exchange,
    Handshake,
    InnerMessage,
)
from sslsniff.core.sink import FlowControlStall, Sink, Summary
from sslsniff.decoders.messages import Frame, Http2Totals, Undecoded


class FanOut(Sink):
    """A sink that calls each of ``sinks``, in their order.

    With ``streams``, it passes only exchanges, frames and messages of these HTTP/2 streams (0: the
    frames of the connection). Without ``frames`` it passes none of them, nor their totals.
    ``wants_began``: whether a sink handles the beginnings of exchanges.
    ``exchanges`` is the number of exchanges, with those not inner; ``without_text``, of how many
    statements among them the text was not seen; ``without_request``, see ``Summary``.
    """

    def __init__(
        self, sinks: Sequence[Sink], streams: Collection[int] = (), *, frames: bool = True
    ) -> None:
        self.exchanges = self.without_text = self.without_request = 0
        self._sinks = sinks
        self._streams = frozenset(streams)
        self._frames = frames
        # Chunks and exchanges are many: only sinks that override the hook are called.
        self._chunk_hooks = [sink.chunk for sink in sinks if type(sink).chunk is not Sink.chunk]
        self._began_hooks = [sink.began for sink in sinks if type(sink).began is not Sink.began]
        self.wants_began = bool(self._began_hooks)
        self._tick_hooks = [sink.tick for sink in sinks if type(sink).tick is not Sink.tick]
        self._call_hooks = [sink.exchange for sink in sinks if sink.wants_only_model_calls]
        self._exchange_hooks = [
            sink.exchange
            for sink in sinks
            if type(sink).exchange is not Sink.exchange and not sink.wants_only_model_calls
        ]

    def _wants(self, stream: int | None) -> bool:
        return not self._streams or stream in self._streams

    def opened(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        for sink in self._sinks:
            sink.opened(connection, time_ns)

    def chunk(self, chunk: Chunk) -> None:
        """See ``Sink``."""
        for pass_on in self._chunk_hooks:
            pass_on(chunk)

    def consumer(self, connection: Connection, direction: Direction) -> Consumer | None:
        """See ``Sink``: the consumer of the only sink that wants plaintext; None if several do."""
        wanting = [sink for sink in self._sinks if sink.wants_plaintext]
        return wanting[0].consumer(connection, direction) if len(wanting) == 1 else None

    def began(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        for report in self._began_hooks:
            if self._wants(exchange.stream):
                report(exchange)

    def tick(self, now_ns: int) -> None:
        """See ``Sink``."""
        for report in self._tick_hooks:
            report(now_ns)

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        self.exchanges += 1
        statement = exchange.statement
        if statement is not None and statement.text is None:
            self.without_text += statement.lacks_text
        if exchange.request is None and exchange.response is not None:
            self.without_request += not exchange.connection.from_start
        if not self._streams or exchange.stream in self._streams:
            if exchange.model_call is not None:
                for report in self._call_hooks:
                    report(exchange)
            for report in self._exchange_hooks:
                report(exchange)

    def handshake(self, handshake: Handshake) -> None:
        """See ``Sink``."""
        for sink in self._sinks:
            sink.handshake(handshake)

    def frame(self, connection: Connection, frame: Frame, time_ns: int, tid: int) -> None:
        """See ``Sink``."""
        if self._frames and self._wants(frame.stream):
            for sink in self._sinks:
                sink.frame(connection, frame, time_ns, tid)

    def stall(self, connection: Connection, stall: FlowControlStall, time_ns: int) -> None:
        """See ``Sink``."""
        if not stall.stream or self._wants(stall.stream):
            for sink in self._sinks:
                sink.stall(connection, stall, time_ns)

    def frame_totals(self, connection: Connection, totals: Http2Totals, time_ns: int) -> None:
        """See ``Sink``."""
        for sink in self._sinks if self._frames else ():
            sink.frame_totals(connection, totals, time_ns)

    def message(self, inner: InnerMessage) -> None:
        """See ``Sink``."""
        if self._wants(inner.exchange.stream if inner.exchange is not None else None):
            for sink in self._sinks:
                sink.message(inner)

    def undecoded(self, connection: Connection, message: Undecoded, time_ns: int) -> None:
        """See ``Sink``."""
        for sink in self._sinks:
            sink.undecoded(connection, message, time_ns)

    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None:
        """See ``Sink``."""
        for sink in self._sinks:
            sink.ended(connection, direction, time_ns)

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        for sink in self._sinks:
            sink.closed(connection, time_ns)

    def left_open(self, connection: Connection) -> None:
        """See ``Sink``."""
        for sink in self._sinks:
            sink.left_open(connection)

    def summary(self, summary: Summary) -> None:
        """See ``Sink``."""
        for sink in self._sinks:
            sink.summary(summary)
