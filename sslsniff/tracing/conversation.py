"""The exchanges of one connection: requests meet their responses here."""

from collections.abc import Callable
from typing import Any

from sslsniff.decoders.http2.heads import VERSION as HTTP2_VERSION
from sslsniff.decoders.inner.inner_protocols import InnerProtocols
from sslsniff.decoders.messages import (
    Aborted,
    BodyData,
    BodyInDoubt,
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
from sslsniff.fast_path import Consumer
from sslsniff.model import (
    NO_BODY,
    Chunk,
    Connection,
    Direction,
    Exchange,
    InnerMessage,
    Request,
    Response,
)
from sslsniff.sinks.base import Sink
from sslsniff.tracing.flow_control_stalls import FlowControlStalls
from sslsniff.tracing.memory_limit import MOST_BYTES, MemoryLimit
from sslsniff.tracing.open_exchange import BodyRoom, OpenExchange, head_bytes
from sslsniff.tracing.roles import assume_role

# Looking up a member of an enum takes time.
_CLIENT, _SERVER = Side.CLIENT, Side.SERVER

_HTTP2 = HTTP2_VERSION.lower()

MOST_OPEN = 4096
"""Exchanges of a connection that may be open at once; servers allow some hundred as a rule."""

MOST_HEAD_BYTES = 16 << 20
"""Their heads and trailers, all together."""

_OPEN_BYTES = 1500  # memory of an open exchange, without its heads

EVICTED = f"evicted: all connections together held over {MOST_BYTES >> 20} MiB"
"""Why an exchange ended, or bytes were not decoded, where memory was needed for others."""


class _DecoderConsumer:
    """A ``fast_path.Consumer``: decodes what one side sends."""

    __slots__ = ("_conversation", "_side", "last_ns", "position")

    by_record = None

    def __init__(self, conversation: "Conversation", side: Side, position: int) -> None:
        self.position = position
        self.last_ns = 0
        self._conversation = conversation
        self._side = side

    def feed(self, time_ns: int, tid: int, data: memoryview) -> None:
        """See ``fast_path.Consumer``."""
        self.position += len(data)
        self.last_ns = time_ns
        self._conversation.feed(self._side, bytes(data), time_ns, tid)


class Conversation:
    """Decodes the chunks of ``connection``, and passes exchanges to ``sink``."""

    def __init__(
        self,
        connection: Connection,
        decoder: InnerProtocols,
        sink: Sink,
        stalls: FlowControlStalls,
        room: BodyRoom,
        memory: MemoryLimit,
    ) -> None:
        self.connection = connection
        self._decoder = decoder
        self._sink = sink
        self._stalls = stalls
        self._room = room
        self._memory = memory
        self._open: dict[int, OpenExchange] = {}
        self._head_bytes = 0
        self._waiting: list[Chunk] = []
        self._ended: set[Side] = set()
        self._scheme = connection.scheme
        self._switched: Exchange | None = None  # it ended HTTP: what follows is on its behalf
        self._now_ns = 0  # when what is being decoded passed, and in which thread
        self._tid = 0

    @property
    def protocol(self) -> str:
        """The protocol as far as it is known."""
        return self._decoder.protocol

    @property
    def held_bytes(self) -> int:
        """See ``memory_limit.Evictable``; bodies have a limit of their own, ``BodyRoom``."""
        waiting = sum([len(chunk.data) for chunk in self._waiting])
        opened = self._head_bytes + _OPEN_BYTES * len(self._open)
        return self._decoder.held_bytes + opened + waiting

    @property
    def open_exchanges(self) -> list[Exchange]:
        """The exchanges that have not ended."""
        return [opened.exchange for opened in self._open.values()]

    def chunk(self, chunk: Chunk) -> None:
        """Decode plaintext, or a loss; while the role is not known, keep it."""
        if self.connection.role is None:
            self._waiting.append(chunk)
            self._memory.grow(self, len(chunk.data), chunk.time_ns)
            return
        if self._waiting:
            self._decode_waiting()
        self._decode(chunk)

    def end(self, direction: Direction, time_ns: int) -> None:
        """Note that nothing follows in one direction."""
        self._decode_waiting()
        side = self.connection.sender(direction)
        if side is not None:
            self._end_side(side, time_ns)

    def close(self, time_ns: int) -> None:
        """Take the end of the connection: what is open ends."""
        self._decode_waiting()
        for side in Side:
            self._end_side(side, time_ns)
        self._finish_all(time_ns, "connection closed")
        self._memory.forget(self)

    def break_off(self, time_ns: int) -> None:
        """Handle the end of the capture: report what is open, though it may continue."""
        self._decode_waiting()
        self._finish_all(time_ns, "capture ended")

    def evict(self, time_ns: int) -> None:
        """See ``memory_limit.Evictable``: what follows is decoded as after a loss."""
        self._decode_waiting()
        self._now_ns, self._tid = time_ns, 0
        self._dispatch(self._decoder.stop(EVICTED))
        self._finish_all(time_ns, EVICTED)
        self._decoder = self._decoder.successor()
        self.connection.evictions += 1

    def _decode_waiting(self) -> None:
        """Decode what was kept until the role is known; if it still is not, it is assumed."""
        if self._waiting and self.connection.role is None:
            assume_role(self.connection, self._waiting[0].direction)
        waiting, self._waiting = self._waiting, []
        for chunk in waiting:
            self._decode(chunk)

    def consumer(self, direction: Direction) -> Consumer | None:
        """Return what decodes the next bytes of a direction, None while the role is not known."""
        connection = self.connection
        side = connection.sender(direction)
        if side is None:
            return None
        return _DecoderConsumer(self, side, connection.position(direction))

    def feed(self, side: Side, data: bytes, time_ns: int, tid: int) -> None:
        """Decode the next bytes that ``side`` sent."""
        self._now_ns = time_ns
        self._tid = tid
        for message in self._decoder.feed(side, data):
            _HANDLERS[type(message)](self, message)
        self._memory.grow(self, len(data) * self._decoder.growth, time_ns)

    def _decode(self, chunk: Chunk) -> None:
        side = self.connection.sender(chunk.direction)
        assert side is not None
        if chunk.missing:
            self._now_ns, self._tid = chunk.time_ns, chunk.tid
            self._dispatch(self._decoder.gap(side, chunk.missing))
        else:
            self.feed(side, chunk.data, chunk.time_ns, chunk.tid)

    def _dispatch(self, messages: list[Message]) -> None:
        for message in messages:
            _HANDLERS[type(message)](self, message)

    def _end_side(self, side: Side, time_ns: int) -> None:
        if side not in self._ended:
            self._ended.add(side)
            self._now_ns, self._tid = time_ns, 0
            self._dispatch(self._decoder.end(side))

    def _finish_all(self, time_ns: int, error: str) -> None:
        self._stalls.close(self.connection, time_ns)
        self._now_ns, self._tid = time_ns, 0
        self._dispatch(self._decoder.give_up())
        for stream in list(self._open):
            self._finish(stream, error)

    # What the decoder reports.

    def _begin(self, stream: int, protocol: str) -> OpenExchange:
        if len(self._open) >= MOST_OPEN:
            oldest = next(iter(self._open))
            self._finish(oldest, f"over {MOST_OPEN} exchanges open")
        number = stream if protocol == _HTTP2 else None
        exchange = Exchange(self.connection, protocol, number, self._tid, self._now_ns)
        opened = self._open[stream] = OpenExchange(exchange, {})
        return opened

    def _hold(self, opened: OpenExchange, size: int) -> None:
        """Count what an exchange keeps of a head; where that is too much, the oldest end."""
        opened.head_bytes += size
        self._head_bytes += size
        self._memory.room_bytes -= size + _OPEN_BYTES
        while self._head_bytes > MOST_HEAD_BYTES:
            oldest = next(iter(self._open))
            self._finish(oldest, f"over {MOST_HEAD_BYTES >> 20} MiB of heads of open exchanges")

    def _request_head(self, message: RequestHead) -> None:
        stream, headers, whole = message.stream, message.headers, message.whole
        opened = self._open.get(stream) or self._begin(stream, message.version.lower())
        opened.exchange.request = Request(
            message.method,
            message.target,
            message.scheme,
            message.authority,
            headers,
            NO_BODY,
            [],
            self._scheme,
        )
        if message.warnings:
            opened.add_warnings(message.warnings)
        if headers.omitted is not None:
            opened.omit(headers.omitted)
        if whole:
            opened.keep(_CLIENT, whole, 0, self._room)
        if whole is None or not self._ended_half(stream, opened, _CLIENT):
            self._hold(opened, head_bytes(headers))

    def _response_head(self, message: ResponseHead) -> None:
        stream, status, headers = message.stream, message.status, message.headers
        opened = self._open.get(stream)
        if opened is None:  # the version of HTTP/1 is the request's, which was not seen
            is_http2 = message.version == HTTP2_VERSION
            opened = self._begin(stream, _HTTP2 if is_http2 else "http/1.1")
        exchange, whole = opened.exchange, message.whole
        is_last = whole is not None and exchange.sent_ns is not None and not opened.in_doubt
        body = self._room.passing(whole) if whole and is_last else NO_BODY
        response = Response(status, message.reason, headers, body, [])
        if message.warnings:
            opened.add_warnings(message.warnings)
        if headers.omitted is not None:
            opened.omit(headers.omitted)
        if status is not None and 100 <= status < 200 and status != 101:
            if not opened.add_informational(response):
                return
        else:
            exchange.response = response
            exchange.first_byte_ns = self._now_ns
        if is_last:  # as a rule
            self._finish(stream, None)
            return
        if whole:
            opened.keep(_SERVER, whole, 0, self._room)
        if whole is None or not self._ended_half(stream, opened, _SERVER):
            self._hold(opened, head_bytes(headers))

    def _body_data(self, message: BodyData) -> None:
        opened = self._open.get(message.stream)
        if opened is not None:
            opened.keep(message.side, message.data, message.missing, self._room)

    def _body_in_doubt(self, message: BodyInDoubt) -> None:
        opened = self._open.get(message.stream)
        if opened is not None:
            opened.in_doubt |= {message.side}

    def _message_end(self, message: MessageEnd) -> None:
        opened = self._open.get(message.stream)
        if opened is None:
            return
        kept = opened.add_trailers(message.side, message.trailers) if message.trailers else 0
        if not self._ended_half(message.stream, opened, message.side) and kept:
            self._hold(opened, kept)

    def _ended_half(self, stream: int, opened: OpenExchange, side: Side) -> bool:
        """Handle the end of a message; return whether the exchange ended with it."""
        exchange = opened.exchange
        if opened.in_doubt:
            opened.judge(side)
        if side is _CLIENT:
            exchange.sent_ns = self._now_ns
        else:
            opened.is_answered = True
        if not opened.is_answered or (exchange.sent_ns is None and exchange.request is not None):
            return False
        self._finish(stream, None if exchange.response else "undecodable: response head not seen")
        return True

    def _aborted(self, message: Aborted) -> None:
        opened = self._open.get(message.stream)
        if opened is None:
            return
        # Behind a whole response it only spares the rest of the request (RFC 9113, 8.1).
        spared = message.error == "reset: NO_ERROR" and opened.is_answered
        self._finish(message.stream, None if spared else message.error)

    def _frame(self, message: Frame) -> None:
        self._sink.frame(self.connection, message, self._now_ns, self._tid)

    def _stall(self, message: Stall) -> None:
        self._stalls.handle(self.connection, message, self._now_ns)

    def _frame_totals(self, message: Http2Totals) -> None:
        self._sink.frame_totals(self.connection, message, self._now_ns)

    def _stream_message(self, message: StreamMessage) -> None:
        opened = self._open.get(message.stream)
        exchange = opened.exchange if opened is not None else self._switched
        passed = InnerMessage(self.connection, exchange, message, self._now_ns, self._tid)
        self._sink.message(passed)

    def _body_trailers(self, message: BodyTrailers) -> None:
        opened = self._open.get(message.stream)
        if opened is not None:
            self._hold(opened, opened.add_trailers(message.side, message.trailers))

    def _undecoded(self, message: Undecoded) -> None:
        self._sink.undecoded(self.connection, message, self._now_ns)

    def _finish(self, stream: int, error: str | None) -> None:
        opened = self._open.pop(stream)
        self._head_bytes -= opened.head_bytes
        exchange = opened.exchange
        exchange.ended_ns = self._now_ns
        exchange.error = error or opened.error
        response = exchange.response
        if response is not None and response.status == 101:
            self._switched = exchange
        if opened.kept:
            opened.join(self._room)
        self._sink.exchange(exchange)


_HANDLERS: dict[type, Callable[[Conversation, Any], None]] = {
    RequestHead: Conversation._request_head,
    ResponseHead: Conversation._response_head,
    BodyData: Conversation._body_data,
    BodyInDoubt: Conversation._body_in_doubt,
    MessageEnd: Conversation._message_end,
    Aborted: Conversation._aborted,
    Frame: Conversation._frame,
    Stall: Conversation._stall,
    Http2Totals: Conversation._frame_totals,
    Undecoded: Conversation._undecoded,
    WebSocketMessage: Conversation._stream_message,
    GrpcMessage: Conversation._stream_message,
    ServerSentEvent: Conversation._stream_message,
    BodyTrailers: Conversation._body_trailers,
}
