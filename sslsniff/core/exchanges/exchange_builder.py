"""Decodes the chunks of all connections into exchanges, and sums up the capture.

Memory: bodies are stored only for sinks that want them, up to ``body_limit_bytes`` of one and
``open_exchange.MOST_BODY_BYTES`` of all. Beyond that, only their sizes are counted.
"""

from collections.abc import Collection, Sequence
from functools import partial

from sslsniff.core.exchanges.connection_decoder import ConnectionDecoder
from sslsniff.core.exchanges.flow_control_stalls import FlowControlStalls
from sslsniff.core.exchanges.memory_limit import MemoryLimit
from sslsniff.core.exchanges.open_exchange import BodyRoom
from sslsniff.core.exchanges.open_exchanges import OpenExchanges
from sslsniff.core.exchanges.other_ends import OtherEnds
from sslsniff.core.exchanges.unrecognised import Unrecognised
from sslsniff.core.exchanges.watched_ends import WatchedEnds
from sslsniff.core.fan_out import FanOut
from sslsniff.core.fast_path import Consumer
from sslsniff.core.losses import Loss, LossCause
from sslsniff.core.model import Chunk, Connection, Direction, Exchange, Handshake, NotProbed
from sslsniff.core.sink import (
    LEAST_IDLE_NS,
    MOST_IDLE_SESSIONS,
    IdleSession,
    Sink,
    Summary,
)
from sslsniff.decoders.detect import Detector
from sslsniff.decoders.inner.inner_protocols import InnerProtocols


class ExchangeBuilder:
    """A ``flows.Listener`` that decodes, and passes the results to sinks.

    ``frames`` asks for HTTP/2 frames, too. ``streams`` selects HTTP/2 streams (0: the frames of the
    connection); without it, all are reported. If no sink wants messages, nothing is decoded.
    """

    def __init__(
        self,
        sinks: Sequence[Sink],
        *,
        frames: bool = False,
        streams: Collection[int] = (),
        body_limit_bytes: int = 16 << 20,
    ) -> None:
        self._frames = frames or any(sink.wants_stalls for sink in sinks)
        self._decodes = any(sink.wants_messages for sink in sinks)
        self._wants_plaintext = any(sink.wants_plaintext for sink in sinks)
        self._unrecognised = Unrecognised(sinks, self._protocol)
        first = [self._unrecognised] if self._decodes else []
        self._fan_out = FanOut([*first, *sinks], streams, frames=frames)
        self._stalls = FlowControlStalls(self._fan_out.stall)
        wants_bodies = any(sink.wants_bodies for sink in sinks)
        self._room = BodyRoom(body_limit_bytes if wants_bodies else 0)
        self._memory = MemoryLimit()
        self._other_ends = OtherEnds()
        self._watched_ends = WatchedEnds()
        self._open: dict[str, Connection] = {}
        self._decoders: dict[str, ConnectionDecoder] = {}
        self._first_ns: int | None = None
        self.last_ns = 0
        """The latest time of plaintext or of a loss."""
        self._now_ns = 0
        self._lossy: dict[str, Connection] = {}
        self._loss_events: dict[LossCause, int] = {}
        self.totals = Summary()
        self._is_summed_up = False
        for sink in sinks:
            sink.decoded_by(self._is_idle)

    def opened(self, connection: Connection, time_ns: int) -> None:
        """See ``flows.Listener``."""
        self._begin(time_ns)
        self._open[connection.id] = connection
        self.totals.connections += 1
        self.totals.joined += not connection.from_start
        self.totals.handshakes.seen += connection.from_start and connection.tls
        self._fan_out.opened(connection, time_ns)
        if self._decodes:
            detector = Detector(
                connection.alpn,
                frames=self._frames,
                from_start=connection.from_start,
                database_found=partial(self._other_ends.add, connection),
            )
            self._watched_ends.open(connection)
            exchanges = OpenExchanges(
                connection,
                InnerProtocols(detector),
                self._fan_out,
                self._stalls,
                self._room,
                self._memory,
                self._watched_ends,
            )
            self._decoders[connection.id] = ConnectionDecoder(exchanges, self._memory)

    def handshake(self, handshake: Handshake) -> None:
        """See ``flows.Listener``."""
        self._begin(handshake.began_ns)
        self.last_ns = max(self.last_ns, handshake.ended_ns)
        self.totals.handshakes.add(handshake)
        self._fan_out.handshake(handshake)

    def _begin(self, time_ns: int) -> None:
        """Note when a connection began: in a file, its packets may come after later ones."""
        if self._first_ns is None or 0 < time_ns < self._first_ns:
            self._first_ns = time_ns

    def chunk(self, chunk: Chunk) -> None:
        """See ``flows.Listener``."""
        self.last_ns = max(self.last_ns, chunk.time_ns)
        self.totals.bytes += len(chunk.data)
        if chunk.missing:
            self._count_loss(chunk)
        if chunk.redacted is not None:
            self.totals.secrets.add(chunk.redacted)
        self._fan_out.chunk(chunk)
        if self._decodes:
            self._decoders[chunk.connection.id].chunk(chunk)

    def consumer(self, connection: Connection, direction: Direction) -> Consumer | None:
        """See ``flows.Listener``: None if plaintext is both decoded and passed to sinks."""
        if not self._decodes:
            return self._fan_out.consumer(connection, direction)
        if self._wants_plaintext:
            return None
        return self._decoders[connection.id].consumer(direction)

    def consumed(self, count: int, time_ns: int) -> None:
        """See ``flows.Listener``."""
        self.totals.bytes += count
        self.last_ns = max(self.last_ns, time_ns)

    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None:
        """See ``flows.Listener``."""
        decoder = self._decoders.get(connection.id)
        if decoder is not None:
            decoder.end(direction, time_ns)
        self._fan_out.ended(connection, direction, time_ns)

    def tick(self, now_ns: int) -> None:
        """Report unrecognised protocols and flow-control stalls that last for long enough."""
        self._now_ns = now_ns
        self._fan_out.tick(now_ns)
        self._stalls.tick(now_ns)

    def open_exchanges(self) -> list[Exchange]:
        """Return the exchanges that have not ended, the oldest first."""
        open_now = [
            exchange for decoder in self._decoders.values() for exchange in decoder.open_exchanges
        ]
        return sorted(open_now, key=lambda exchange: exchange.started_ns)

    def count_open(self, connection: Connection) -> int:
        """Return how many exchanges of a connection have not ended."""
        decoder = self._decoders.get(connection.id)
        return len(decoder.open_exchanges) if decoder is not None else 0

    def _is_idle(self, connection: Connection) -> bool:
        """See ``Sink.decoded_by``."""
        decoder = self._decoders.get(connection.id)
        return decoder is not None and decoder.is_idle

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``flows.Listener``."""
        decoder = self._decoders.get(connection.id)
        if decoder is not None:
            decoder.close(time_ns)
        self._fan_out.closed(connection, time_ns)
        self._decoders.pop(connection.id, None)
        self._other_ends.forget(connection)
        self._watched_ends.close(connection, time_ns)
        self._open.pop(connection.id, None)

    def finish(
        self,
        counted: Sequence[Loss] = (),
        left_out: int | None = None,
        not_probed: list[NotProbed] | None = None,
    ) -> None:
        """Report the exchanges that are still open, and the figures of the capture.

        The arguments are what the source returns: ``Source.counted_losses``, which include those of
        connections without an event, ``Source.left_out`` and ``Source.not_probed``.
        """
        now_ns = max(self._now_ns, self.last_ns)
        for connection in self._open.values():
            if self._decodes:
                decoder = self._decoders[connection.id]
                self._note_idle(connection, decoder.transaction.idle_ns(now_ns))
                decoder.end_capture(now_ns)
            self._fan_out.left_open(connection)
        self.sum_up(counted, left_out, not_probed)

    def sum_up(
        self,
        counted: Sequence[Loss] = (),
        left_out: int | None = None,
        not_probed: list[NotProbed] | None = None,
    ) -> None:
        """Report only the figures of the capture, once; see ``finish``."""
        if self._is_summed_up:
            return
        self._is_summed_up = True
        totals = self.totals
        totals.exchanges = self._fan_out.exchanges if self._decodes else None
        totals.without_text = self._fan_out.without_text
        totals.without_request = self._fan_out.without_request
        totals.evictions = self._memory.evictions
        totals.left_out = left_out
        totals.not_probed = not_probed
        totals.began_ns = self._first_ns
        totals.duration_ns = max(0, self.last_ns - (self._first_ns or self.last_ns))
        totals.lossy_connections = sorted(
            self._lossy.values(), key=lambda connection: (connection.opened_ns, connection.id)
        )
        placed = {
            cause: Loss(
                cause, events, sum(c.missing.get(cause, 0) for c in totals.lossy_connections)
            )
            for cause, events in self._loss_events.items()
        }
        for loss in counted:
            unplaced = loss.bytes - placed[loss.cause].bytes if loss.cause in placed else loss.bytes
            if unplaced > 0:
                placed[loss.cause] = loss
                totals.unplaced_bytes += unplaced
        totals.losses = [placed[cause] for cause in LossCause if cause in placed]
        self._fan_out.summary(totals)

    def _note_idle(self, connection: Connection, idle_ns: int) -> None:
        if idle_ns >= LEAST_IDLE_NS and len(self.totals.idle_sessions) < MOST_IDLE_SESSIONS:
            self.totals.idle_sessions.append(IdleSession(connection, idle_ns))

    def _protocol(self, connection: Connection) -> str:
        return self._decoders[connection.id].protocol

    def _count_loss(self, chunk: Chunk) -> None:
        cause = chunk.cause or LossCause.NOT_CAPTURED
        self._loss_events[cause] = self._loss_events.get(cause, 0) + 1
        self._lossy[chunk.connection.id] = chunk.connection
