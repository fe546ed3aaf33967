"""Chunks -> messages -> exchanges: the one place where requests meet their responses.

Memory: bodies are kept only for sinks that want them, up to ``body_limit_bytes`` each
and ``KEPT_BYTES`` in all; beyond, their sizes are still counted.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sslsniff.decoders.carried import Carried
from sslsniff.decoders.detect import Detector, guess_sender
from sslsniff.decoders.messages import (
    Aborted,
    BodyData,
    BodyTrailers,
    Frame,
    GrpcMessage,
    Http2Totals,
    Message,
    MessageEnd,
    RequestHead,
    ResponseHead,
    ServerSentEvent,
    Side,
    Stall,
    StreamMessage,
    Undecoded,
    WebSocketMessage,
)
from sslsniff.decoders.opaque import UNKNOWN
from sslsniff.model import (
    Body,
    Chunk,
    Connection,
    Direction,
    Exchange,
    Loss,
    LossCause,
    Request,
    Response,
    Summary,
    Wait,
)
from sslsniff.sinks.base import Sink
from sslsniff.waits import Waits

KEPT_BYTES = 256 << 20
"""Bytes of unfinished bodies that are kept at most, over all connections."""

_UNKNOWN_AFTER_NS = 1_000_000_000
"""So long after a connection's first bytes a protocol that was not recognised is told of."""

_FIRST_BYTES = 64


@dataclass(slots=True)
class _OpenExchange:
    """An exchange that has not ended, with what was kept of its bodies."""

    exchange: Exchange
    parts: dict[Side, list[bytes]] = field(
        default_factory=lambda: {Side.CLIENT: [], Side.SERVER: []}
    )
    kept_bytes: dict[Side, int] = field(default_factory=lambda: {Side.CLIENT: 0, Side.SERVER: 0})
    ended: set[Side] = field(default_factory=set)


@dataclass(slots=True)
class _Conversation:
    """A connection as decoded: its decoder and its open exchanges by stream."""

    connection: Connection
    decoder: Carried
    open: dict[int, _OpenExchange] = field(default_factory=dict)
    waiting: list[Chunk] = field(default_factory=list)
    ended: set[Side] = field(default_factory=set)
    """The sides that send no more, as the decoder knows."""
    first: Chunk | None = None
    switched: Exchange | None = None
    """The exchange that ended HTTP: what follows flows on its behalf."""


class Tracer:
    """A ``flows.Listener`` that decodes, and tells sinks.

    ``last_ns`` is the time of the last chunk.
    ``frames`` asks for HTTP/2 frames too. With ``streams`` only what is of these HTTP/2 streams is
    told (0: the frames of the connection). Without a sink that wants messages nothing is decoded.
    """

    def __init__(
        self,
        sinks: Sequence[Sink],
        *,
        frames: bool = False,
        streams: Collection[int] = (),
        body_limit_bytes: int = 16 << 20,
    ) -> None:
        self._sinks = sinks
        self._frames = frames
        self._streams = frozenset(streams)
        self._waits = Waits(self._wait)
        self._decodes = any(sink.wants_messages for sink in sinks)
        self._body_limit = body_limit_bytes if any(sink.wants_bodies for sink in sinks) else 0
        self._kept_bytes = 0
        self._conversations: dict[str, _Conversation] = {}
        self._unrecognised: dict[str, _Conversation] = {}
        self._first_ns: int | None = None
        self.last_ns = 0
        self._lossy: dict[str, Connection] = {}
        self._loss_events: dict[LossCause, int] = {}
        self.totals = Summary()
        self._exchanges = 0
        self._handlers: dict[type, Callable[[_Conversation, Any, Chunk], None]] = {
            RequestHead: self._request_head,
            ResponseHead: self._response_head,
            BodyData: self._body_data,
            MessageEnd: self._message_end,
            Aborted: self._aborted,
            Frame: self._frame,
            Stall: self._stall,
            Http2Totals: self._frame_totals,
            Undecoded: self._undecoded,
            WebSocketMessage: self._stream_message,
            GrpcMessage: self._stream_message,
            ServerSentEvent: self._stream_message,
            BodyTrailers: self._body_trailers,
        }

    def opened(self, connection: Connection, time_ns: int) -> None:
        """See ``flows.Listener``."""
        if self._first_ns is None:
            self._first_ns = time_ns
        self.totals.connections += 1
        self.totals.joined += not connection.from_start
        for sink in self._sinks:
            sink.opened(connection, time_ns)
        if self._decodes:
            decoder = Carried(Detector(alpn=connection.alpn, frames=self._frames))
            self._conversations[connection.id] = _Conversation(connection, decoder)

    def chunk(self, chunk: Chunk) -> None:
        """See ``flows.Listener``."""
        self.last_ns = chunk.time_ns
        self.totals.bytes += len(chunk.data)
        if chunk.missing:
            self._count_loss(chunk)
        for sink in self._sinks:
            sink.chunk(chunk)
        if self._decodes:
            conversation = self._conversations[chunk.connection.id]
            if conversation.first is None and chunk.data:
                conversation.first = replace(chunk, data=chunk.data[:_FIRST_BYTES])
                self._unrecognised[chunk.connection.id] = conversation
            self.tick(chunk.time_ns)
            if chunk.connection.role is None and not self._find_role(conversation, chunk):
                return
            self._decode(conversation, chunk)

    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None:
        """See ``flows.Listener``."""
        conversation = self._conversations.get(connection.id)
        if conversation is not None:
            self._settle(conversation)
            side = connection.sender(direction)
            if side is not None:
                self._end_side(conversation, side, time_ns)
        for sink in self._sinks:
            sink.ended(connection, direction, time_ns)

    def tick(self, now_ns: int) -> None:
        """Tell the sinks what has lasted for long enough: protocols not recognised, stalls."""
        self._tell_unknown(now_ns)
        self._waits.tick(now_ns)

    def _tell_unknown(self, now_ns: int) -> None:
        while self._unrecognised:
            conversation = next(iter(self._unrecognised.values()))
            assert conversation.first is not None
            is_young = now_ns - conversation.first.time_ns < _UNKNOWN_AFTER_NS
            if is_young and conversation.decoder.protocol == UNKNOWN:
                return
            self._tell_if_unknown(conversation)

    def _tell_if_unknown(self, conversation: _Conversation) -> None:
        """Tell the sinks, unless they know or the protocol is recognised by now."""
        connection, first = conversation.connection, conversation.first
        is_news = self._unrecognised.pop(connection.id, None) is not None
        if is_news and first is not None and conversation.decoder.protocol == UNKNOWN:
            writer = connection.role or Side.CLIENT
            side = writer if first.direction is Direction.WRITE else writer.other
            for sink in self._sinks:
                sink.unknown(connection, side, first.data, first.time_ns)

    def open_exchanges(self) -> list[Exchange]:
        """Return the exchanges that have not ended, the oldest first."""
        open_now = [
            opened.exchange
            for conversation in self._conversations.values()
            for opened in conversation.open.values()
        ]
        return sorted(open_now, key=lambda exchange: exchange.started_ns)

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``flows.Listener``."""
        self.tick(time_ns)
        conversation = self._conversations.pop(connection.id, None)
        if conversation is not None:
            self._end(conversation, time_ns)
            self._unrecognised.pop(connection.id, None)
        for sink in self._sinks:
            sink.closed(connection, time_ns)

    def finish(self, counted: Sequence[Loss] = ()) -> None:
        """End what is still open, though its connection is not; tell the sinks the figures.

        ``counted`` is what the source knows as lost: of connections that were never told of, too.
        """
        for conversation in self._conversations.values():
            self._settle(conversation)
            rest = conversation.decoder.give_up()
            self._dispatch(conversation, rest, _end_of(conversation.connection, self.last_ns))
            self._waits.close(conversation.connection, self.last_ns)
            for stream in list(conversation.open):
                self._finish(conversation, stream, self.last_ns, "capture ended")
        totals = self.totals
        totals.exchanges = self._exchanges if self._decodes else None
        totals.duration_ns = self.last_ns - (self._first_ns or self.last_ns)
        totals.lossy_connections = list(self._lossy.values())
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
        totals.losses = list(placed.values())
        for sink in self._sinks:
            sink.summary(totals)

    def _count_loss(self, chunk: Chunk) -> None:
        cause = chunk.cause or LossCause.NOT_CAPTURED
        self._loss_events[cause] = self._loss_events.get(cause, 0) + 1
        self._lossy[chunk.connection.id] = chunk.connection

    def _find_role(self, conversation: _Conversation, chunk: Chunk) -> bool:
        """Learn from the bytes which side the process plays, where its library does not tell.

        Chunks wait until then, at most 16 of them: after that the writer counts as the client.
        """
        conversation.waiting.append(chunk)
        sender = guess_sender(chunk.data)
        if sender is None and len(conversation.waiting) < 16:
            return False
        self._settle_role(conversation, sender or Side.CLIENT, chunk.direction)
        return False

    def _settle(self, conversation: _Conversation) -> None:
        """Decode what still waits for a role; nothing said it, so the writer is the client."""
        if conversation.waiting:
            self._settle_role(conversation, Side.CLIENT, Direction.WRITE)

    def _settle_role(self, conversation: _Conversation, sender: Side, direction: Direction) -> None:
        connection = conversation.connection
        connection.role = sender if direction is Direction.WRITE else sender.other
        waiting, conversation.waiting = conversation.waiting, []
        for chunk in waiting:
            self._decode(conversation, chunk)

    def _decode(self, conversation: _Conversation, chunk: Chunk) -> None:
        side = conversation.connection.sender(chunk.direction)
        assert side is not None
        if chunk.missing:
            messages = conversation.decoder.gap(side, chunk.missing)
        else:
            messages = conversation.decoder.feed(side, chunk.data)
        self._dispatch(conversation, messages, chunk)

    def _dispatch(self, conversation: _Conversation, messages: list[Message], chunk: Chunk) -> None:
        for message in messages:
            self._handlers[type(message)](conversation, message, chunk)

    def _end(self, conversation: _Conversation, time_ns: int) -> None:
        self._settle(conversation)
        for side in (Side.CLIENT, Side.SERVER):
            self._end_side(conversation, side, time_ns)
        end = _end_of(conversation.connection, time_ns)
        self._waits.close(conversation.connection, time_ns)
        self._dispatch(conversation, conversation.decoder.give_up(), end)
        for stream in list(conversation.open):
            self._finish(conversation, stream, time_ns, "connection closed")

    def _end_side(self, conversation: _Conversation, side: Side, time_ns: int) -> None:
        if side in conversation.ended:
            return
        conversation.ended.add(side)
        end = _end_of(conversation.connection, time_ns)
        self._dispatch(conversation, conversation.decoder.end(side), end)

    def _exchange(self, conversation: _Conversation, stream: int, chunk: Chunk) -> _OpenExchange:
        opened = conversation.open.get(stream)
        if opened is None:
            protocol = conversation.decoder.protocol
            opened = _OpenExchange(
                Exchange(
                    connection=conversation.connection,
                    protocol=protocol,
                    stream=None if protocol.startswith("http/1") else stream,
                    tid=chunk.tid,
                    started_ns=chunk.time_ns,
                )
            )
            conversation.open[stream] = opened
        return opened

    def _request_head(
        self, conversation: _Conversation, message: RequestHead, chunk: Chunk
    ) -> None:
        exchange = self._exchange(conversation, message.stream, chunk).exchange
        if exchange.stream is None:
            exchange.protocol = message.version.lower()  # http/1.0, on the same decoder
        exchange.request = Request(
            method=message.method,
            target=message.target,
            scheme=message.scheme,
            authority=message.authority,
            headers=message.headers,
            default_scheme=conversation.connection.scheme,
        )
        exchange.warnings += message.warnings

    def _response_head(
        self, conversation: _Conversation, message: ResponseHead, chunk: Chunk
    ) -> None:
        exchange = self._exchange(conversation, message.stream, chunk).exchange
        response = Response(message.status, message.reason, message.headers)
        exchange.warnings += message.warnings
        if message.status is not None and 100 <= message.status < 200 and message.status != 101:
            exchange.informational.append(response)
            return
        exchange.response = response
        exchange.first_byte_ns = chunk.time_ns

    def _body_data(self, conversation: _Conversation, message: BodyData, chunk: Chunk) -> None:
        opened = conversation.open.get(message.stream)
        body = _body(opened, message.side)
        if opened is None or body is None:
            return
        size = len(message.data)
        body.size += size + message.missing
        body.missing += message.missing
        room = min(
            self._body_limit - opened.kept_bytes[message.side], KEPT_BYTES - self._kept_bytes
        )
        # What follows a gap does not join what came before it.
        if room > 0 and size and not body.missing:
            part = message.data[:room]
            opened.parts[message.side].append(part)
            opened.kept_bytes[message.side] += len(part)
            self._kept_bytes += len(part)

    def _message_end(self, conversation: _Conversation, message: MessageEnd, chunk: Chunk) -> None:
        opened = conversation.open.get(message.stream)
        if opened is None:
            return
        half = _half(opened, message.side)
        if half is not None:
            half.trailers += message.trailers
        opened.ended.add(message.side)
        if message.side is Side.CLIENT:
            opened.exchange.sent_ns = chunk.time_ns
        if Side.SERVER in opened.ended and (
            Side.CLIENT in opened.ended or opened.exchange.request is None
        ):
            self._finish(conversation, message.stream, chunk.time_ns, None)

    def _aborted(self, conversation: _Conversation, message: Aborted, chunk: Chunk) -> None:
        opened = conversation.open.get(message.stream)
        if opened is None:
            return
        # Behind a whole response it only spares the rest of the request (RFC 9113, 8.1).
        spared = message.error == "reset: NO_ERROR" and Side.SERVER in opened.ended
        error = None if spared else message.error
        self._finish(conversation, message.stream, chunk.time_ns, error)

    def _is_asked(self, stream: int | None) -> bool:
        return not self._streams or stream in self._streams

    def _frame(self, conversation: _Conversation, message: Frame, chunk: Chunk) -> None:
        if self._is_asked(message.stream):
            for sink in self._sinks:
                sink.frame(conversation.connection, message, chunk.time_ns, chunk.tid)

    def _stall(self, conversation: _Conversation, message: Stall, chunk: Chunk) -> None:
        self._waits.take(conversation.connection, message, chunk.time_ns)

    def _wait(self, connection: Connection, wait: Wait, time_ns: int) -> None:
        if not wait.stream or self._is_asked(wait.stream):
            for sink in self._sinks:
                sink.wait(connection, wait, time_ns)

    def _frame_totals(
        self, conversation: _Conversation, message: Http2Totals, chunk: Chunk
    ) -> None:
        for sink in self._sinks:
            sink.frame_totals(conversation.connection, message, chunk.time_ns)

    def _stream_message(
        self, conversation: _Conversation, message: StreamMessage, chunk: Chunk
    ) -> None:
        opened = conversation.open.get(message.stream)
        exchange = opened.exchange if opened is not None else conversation.switched
        if not self._is_asked(exchange.stream if exchange is not None else None):
            return
        for sink in self._sinks:
            sink.message(conversation.connection, exchange, message, chunk.time_ns, chunk.tid)

    def _body_trailers(
        self, conversation: _Conversation, message: BodyTrailers, chunk: Chunk
    ) -> None:
        opened = conversation.open.get(message.stream)
        half = _half(opened, message.side) if opened is not None else None
        if half is not None:
            half.trailers += message.trailers

    def _undecoded(self, conversation: _Conversation, message: Undecoded, chunk: Chunk) -> None:
        self._tell_if_unknown(conversation)
        for sink in self._sinks:
            sink.undecoded(conversation.connection, message, chunk.time_ns)

    def _finish(
        self, conversation: _Conversation, stream: int, time_ns: int, error: str | None
    ) -> None:
        opened = conversation.open.pop(stream)
        exchange = opened.exchange
        exchange.ended_ns = time_ns
        exchange.error = error
        if exchange.response is not None and exchange.response.status == 101:
            conversation.switched = exchange
        for side, parts in opened.parts.items():
            body = _body(opened, side)
            if body is not None and parts:
                body.data = b"".join(parts)
                self._kept_bytes -= len(body.data)
        self._exchanges += 1
        if self._is_asked(exchange.stream):
            for sink in self._sinks:
                sink.exchange(exchange)


def _end_of(connection: Connection, time_ns: int) -> Chunk:
    """Return a chunk without bytes, which stands for the time and place of the end."""
    return Chunk(connection, Direction.READ, time_ns, 0, connection.bytes_read, b"")


def _half(opened: _OpenExchange, side: Side) -> Request | Response | None:
    return opened.exchange.request if side is Side.CLIENT else opened.exchange.response


def _body(opened: _OpenExchange | None, side: Side) -> Body | None:
    half = _half(opened, side) if opened is not None else None
    return half.body if half is not None else None
