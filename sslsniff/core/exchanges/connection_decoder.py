"""Makes the exchanges of one connection: adds each response to its request."""

from collections.abc import Callable
from typing import Any

from sslsniff.core.endings import ExchangeEnding
from sslsniff.core.exchanges.earlier_streams import EarlierStreams
from sslsniff.core.exchanges.flow_control_stalls import FlowControlStalls
from sslsniff.core.exchanges.hidden_statements import without_secrets
from sslsniff.core.exchanges.memory_limit import MOST_BYTES, MemoryLimit
from sslsniff.core.exchanges.open_exchange import BodyRoom, OpenExchange, head_bytes
from sslsniff.core.exchanges.redacted_messages import RedactedMessages
from sslsniff.core.exchanges.side_consumer import SideConsumer
from sslsniff.core.exchanges.transaction_times import TransactionTimes
from sslsniff.core.exchanges.watched_ends import WatchedEnds
from sslsniff.core.fan_out import FanOut
from sslsniff.core.fast_path import Consumer
from sslsniff.core.model import (
    NO_BODY,
    Chunk,
    Connection,
    Direction,
    Exchange,
    InnerMessage,
    Request,
    Response,
)
from sslsniff.core.roles import assume_role
from sslsniff.core.sink import CAPTURE_ENDED
from sslsniff.decoders import messages
from sslsniff.decoders.databases.statement import Statement
from sslsniff.decoders.decoder import CLOSED
from sslsniff.decoders.http2.heads import VERSION as HTTP2_VERSION
from sslsniff.decoders.inner.inner_protocols import InnerProtocols
from sslsniff.decoders.messages import Headers, Message, Side
from sslsniff.decoders.opaque import UNKNOWN

# Looking up a member of an enum takes time.
_CLIENT, _SERVER = Side.CLIENT, Side.SERVER

_HTTP2 = HTTP2_VERSION.lower()

MOST_OPEN = 4096
"""Open exchanges of one connection; beyond, the oldest ends. Most HTTP/2 servers allow some 100."""

MOST_HEAD_BYTES = 16 << 20
"""Memory of the heads and trailers of a connection's open exchanges; beyond, the oldest ends."""

_MOST_NAME = 500
"""Characters of a request's method and path where it is only named."""

_OPEN_BYTES = 1500  # memory of an open exchange, without its heads

EVICTED = f"evicted: all connections together held over {MOST_BYTES >> 20} MiB"
"""Error of exchanges and reason of undecoded bytes whose memory other connections needed."""

LEFT_OUT = "left out: more traffic than can be decoded"
"""Error of exchanges whose connection is not captured any more (``--sample auto``)."""


class ConnectionDecoder:
    """Decodes the chunks of ``connection``, and passes exchanges to ``sink``."""

    def __init__(
        self,
        connection: Connection,
        decoder: InnerProtocols,
        sink: FanOut,
        stalls: FlowControlStalls,
        room: BodyRoom,
        memory: MemoryLimit,
        ends: WatchedEnds,
    ) -> None:
        self.connection = connection
        self._decoder = decoder
        self._sink = sink
        self._began = sink.began if sink.wants_began else None
        self._stalls = stalls
        self._room = room
        self._memory = memory
        self._ends = ends
        self._open: dict[int, OpenExchange] = {}
        self._earlier_streams = EarlierStreams(connection)
        self._head_bytes = 0
        self._waiting: list[Chunk] = []  # until the role is known
        self._ended: set[Side] = set()
        self._scheme = connection.scheme
        # The exchange that ended HTTP by a 101 response: later messages belong to it.
        self._switched: Exchange | None = None
        self._hides = False
        self.transaction = TransactionTimes()
        self._redacted: RedactedMessages | None = None  # with the first secret that was blanked
        self._now_ns = 0  # time of the bytes that are being decoded
        self._tid = 0  # thread that sent or received them

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
    def is_idle(self) -> bool:
        """Whether no exchange is open, and no message has come in part."""
        is_between = not self._open and not self._waiting and self._switched is None
        return is_between and self._decoder.is_idle

    @property
    def open_exchanges(self) -> list[Exchange]:
        """The exchanges that have not ended."""
        return [opened.exchange for opened in self._open.values()]

    def chunk(self, chunk: Chunk) -> None:
        """Decode plaintext or a loss; store it while the role is unknown."""
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
        """Handle the end of the connection: end its open exchanges."""
        reason = LEFT_OUT if self.connection.left_out else CLOSED
        self._decode_waiting()
        for side in Side:
            self._end_side(side, time_ns, reason)
        self._end_all(time_ns, reason)
        self._memory.forget(self)

    def end_capture(self, time_ns: int) -> None:
        """Handle the end of the capture: report the exchanges that are open, and buffered bytes."""
        self._decode_waiting()
        if self.protocol != UNKNOWN:
            for side in Side:
                self._end_side(side, time_ns, CAPTURE_ENDED)
        self._end_all(time_ns, CAPTURE_ENDED)

    def evict(self, time_ns: int) -> None:
        """See ``memory_limit.Evictable``; the next bytes are decoded as after a loss."""
        self._decode_waiting()
        self._now_ns, self._tid = time_ns, 0
        self._dispatch(self._decoder.stop(EVICTED))
        self._end_all(time_ns, EVICTED)
        self._decoder = self._decoder.successor()
        self.transaction = TransactionTimes()
        self.connection.evictions += 1

    def _decode_waiting(self) -> None:
        """Decode the stored chunks; if the role is still unknown, assume it."""
        if self._waiting and self.connection.role is None:
            assume_role(self.connection, self._waiting[0].direction)
        waiting, self._waiting = self._waiting, []
        for chunk in waiting:
            self._decode(chunk)

    def consumer(self, direction: Direction) -> Consumer | None:
        """Return the decoder of a direction's next bytes; None while the role is unknown."""
        connection = self.connection
        side = connection.sender(direction)
        if side is None:
            return None
        return SideConsumer(self.feed, side, connection.position(direction))

    def feed(self, side: Side, data: bytes, time_ns: int, tid: int) -> None:
        """Decode the next bytes that ``side`` sent."""
        self._now_ns = time_ns
        self._tid = tid
        self._dispatch(self._decoder.feed(side, data))
        self._memory.grow(self, len(data) * self._decoder.growth, time_ns)

    def _decode(self, chunk: Chunk) -> None:
        side = self.connection.sender(chunk.direction)
        assert side is not None
        if chunk.missing:
            self._now_ns, self._tid = chunk.time_ns, chunk.tid
            if self._redacted is not None:
                self._redacted.forget(side)
            self._dispatch(self._decoder.gap(side, chunk.missing))
        else:
            self._hides = chunk.hidden is not None
            if chunk.redacted is None:
                self.feed(side, chunk.hidden or chunk.data, chunk.time_ns, chunk.tid)
                return
            if self._redacted is None:
                self._redacted = RedactedMessages(self._open)
            for piece in self._redacted.pieces(chunk, side):
                self.feed(side, piece, chunk.time_ns, chunk.tid)

    def _dispatch(self, decoded: list[Message]) -> None:
        for message in without_secrets(decoded, self._statement) if self._hides else decoded:
            _HANDLERS[type(message)](self, message)

    def _statement(self, stream: int) -> Statement | None:
        opened = self._open.get(stream)
        return opened.exchange.statement if opened is not None else None

    def _request_name(self, stream: int) -> str | None:
        """Return method and path of an open stream's request; None: one of them is not known."""
        opened = self._open.get(stream)
        request = opened.exchange.request if opened is not None else None
        if request is None or request.method is None or request.target is None:
            return None
        return f"{request.method} {request.target.partition('?')[0]}"[:_MOST_NAME]

    def _end_side(self, side: Side, time_ns: int, reason: str = CLOSED) -> None:
        if side not in self._ended:
            self._ended.add(side)
            self._stalls.note_requests(self.connection)
            self._now_ns, self._tid = time_ns, 0
            self._dispatch(self._decoder.end(side, reason))

    def _end_all(self, time_ns: int, error: str) -> None:
        self._stalls.close(self.connection, time_ns)
        self._now_ns, self._tid = time_ns, 0
        self._dispatch(self._decoder.finish())
        for stream in list(self._open):
            self._end_exchange(stream, error)

    def _open_exchange(self, stream: int, protocol: str) -> OpenExchange:
        if len(self._open) >= MOST_OPEN:
            oldest = next(iter(self._open))
            self._end_exchange(oldest, f"over {MOST_OPEN} exchanges open")
        number = stream if protocol == _HTTP2 else None
        exchange = Exchange(self.connection, protocol, number, self._tid, self._now_ns)
        opened = self._open[stream] = OpenExchange(exchange, {})
        if number is not None and self._redacted is not None:
            self._redacted.take(number, opened)
        return opened

    def _count_head(self, opened: OpenExchange, size: int) -> None:
        """Count the memory of a head or trailers; at the limit, end the oldest exchanges."""
        opened.head_bytes += size
        self._head_bytes += size
        self._memory.room_bytes -= size + _OPEN_BYTES
        while self._head_bytes > MOST_HEAD_BYTES:
            oldest = next(iter(self._open))
            error = f"over {MOST_HEAD_BYTES >> 20} MiB of heads of open exchanges"
            self._end_exchange(oldest, error)

    def _end_message(self, stream: int, opened: OpenExchange, side: Side) -> bool:
        """Handle the end of a message; return whether the exchange ended with it."""
        exchange, request = opened.exchange, opened.exchange.request
        if opened.in_doubt:
            opened.infer_loss(side)
        ended_ns = self._now_ns
        if side is _SERVER:
            opened.answered_ns = ended_ns
        elif opened.answered_ns is not None and request is not None and not request.body.size:
            # Nothing came after the response: its body was refused.
            exchange.sent_ns, ended_ns = exchange.started_ns, opened.answered_ns
        else:
            exchange.sent_ns = ended_ns
        if opened.answered_ns is None or (exchange.sent_ns is None and request is not None):
            return False
        error = None if exchange.response else "undecodable: response head not seen"
        self._end_exchange(stream, error, ended_ns)
        return True

    def _end_exchange(self, stream: int, error: str | None, ended_ns: int | None = None) -> None:
        opened = self._open.pop(stream)
        self._head_bytes -= opened.head_bytes
        exchange = opened.exchange
        if error is not None and (complete_ns := opened.complete_ns(error)) is not None:
            error, ended_ns = None, complete_ns
        exchange.ended_ns = self._now_ns if ended_ns is None else ended_ns
        exchange.error = error = error or opened.error
        if error is not None:
            exchange.ending = self._ending(opened, error)
        response = exchange.response
        if response is not None and response.status == 101:
            self._switched = exchange
        if opened.body_data:
            opened.finish_bodies(self._room)
        self._sink.exchange(exchange)

    def _ending(self, opened: OpenExchange, error: str) -> ExchangeEnding | None:
        ending = opened.ending(error)
        if ending is None or ending.connection is None:
            return ending
        peer = self._ends.peer_process(self.connection, opened.exchange.ended_ns or 0)
        return ending._replace(peer_process=peer)

    # A handler for each type of message.

    def _on_request_head(self, message: messages.RequestHead) -> None:
        stream, headers, whole = message.stream, message.headers, message.whole
        opened = self._open.get(stream)
        began = None
        if opened is None:
            opened = self._open_exchange(stream, message.version.lower())
            began = self._began
            self._earlier_streams.note_request(stream)
        if self._redacted is not None:
            self._redacted.take(_CLIENT, opened)
        method, scheme, authority = message.method, message.scheme, message.authority
        opened.exchange.request = Request(
            method, message.target, scheme, authority, headers, NO_BODY, [], self._scheme
        )
        if began is not None:
            began(opened.exchange)
        if message.warnings:
            opened.add_warnings(message.warnings)
        if headers.omitted is not None:
            opened.add_omitted(headers.omitted)
        if whole:
            opened.add_body(_CLIENT, whole, 0, self._room)
        if whole is None or not self._end_message(stream, opened, _CLIENT):
            self._count_head(opened, head_bytes(headers))

    def _on_response_head(self, message: messages.ResponseHead) -> None:
        stream, status, headers = message.stream, message.status, message.headers
        opened = self._open.get(stream)
        if opened is None:
            # The request, which names the version of HTTP/1, was not seen.
            is_http2 = message.version == HTTP2_VERSION
            opened = self._open_exchange(stream, _HTTP2 if is_http2 else "http/1.1")
            self._earlier_streams.note_response(stream)
            if self._began is not None:
                self._began(opened.exchange)
        if self._redacted is not None:
            self._redacted.take(_SERVER, opened)
        exchange, whole = opened.exchange, message.whole
        is_last = whole is not None and exchange.sent_ns is not None and not opened.in_doubt
        body = self._room.whole_body(whole) if whole and is_last else NO_BODY
        response = Response(status, message.reason, headers, body, [])
        if message.warnings:
            opened.add_warnings(message.warnings)
        if headers.omitted is not None:
            opened.add_omitted(headers.omitted)
        if status is not None and 100 <= status < 200 and status != 101:
            if not opened.add_informational(response):
                return
        else:
            switched = exchange.response
            if switched is not None and switched.status == 101:
                # It goes on as HTTP/2 on stream 1 (h2c, RFC 7540 section 3.2).
                opened.add_informational(switched)
                exchange.protocol, exchange.stream = _HTTP2, stream
            exchange.response = response
            exchange.first_byte_ns = self._now_ns
        if is_last:  # the usual case
            self._end_exchange(stream, None)
            return
        if whole:
            opened.add_body(_SERVER, whole, 0, self._room)
        if whole is None or not self._end_message(stream, opened, _SERVER):
            self._count_head(opened, head_bytes(headers))

    def _earlier(self, stream: int, side: Side) -> OpenExchange | None:
        """Open an exchange whose head passed before the capture; None: it is none, or is over."""
        is_one = (
            side is _SERVER and self.protocol == _HTTP2 and self._earlier_streams.is_new(stream)
        )
        if not is_one:
            return None
        opened = self._open_exchange(stream, _HTTP2)
        opened.exchange.response = Response(None, "", Headers(), NO_BODY, [])
        if self._began is not None:
            self._began(opened.exchange)
        return opened

    def _on_body_data(self, message: messages.BodyData) -> None:
        stream, side = message.stream, message.side
        opened = self._open.get(stream) or self._earlier(stream, side)
        if opened is not None:
            opened.add_body(side, message.data, message.missing, self._room)

    def _on_body_in_doubt(self, message: messages.BodyInDoubt) -> None:
        opened = self._open.get(message.stream)
        if opened is not None:
            opened.in_doubt |= {message.side}

    def _on_message_end(self, message: messages.MessageEnd) -> None:
        stream, side = message.stream, message.side
        opened = self._open.get(stream) or self._earlier(stream, side)
        if opened is None:
            return
        size = opened.add_trailers(side, message.trailers) if message.trailers else 0
        if not self._end_message(stream, opened, side) and size:
            self._count_head(opened, size)

    def _on_aborted(self, message: messages.Aborted) -> None:
        opened = self._open.get(message.stream)
        if opened is None:
            return
        # A server may stop a request that it has answered (RFC 9113 section 8.1). curl does not
        # wait for the empty frame after a body.
        is_success = opened.exchange.protocol == _HTTP2 and opened.has_whole_response
        self._end_exchange(message.stream, None if is_success else message.error)

    def _on_frame(self, message: messages.Frame) -> None:
        self._sink.frame(self.connection, message, self._now_ns, self._tid)

    def _on_stall(self, message: messages.Stall) -> None:
        self._stalls.handle(self.connection, message, self._now_ns, self._request_name)

    def _on_frame_totals(self, message: messages.Http2Totals) -> None:
        self._sink.frame_totals(self.connection, message, self._now_ns)

    def _on_stream_message(self, message: messages.StreamMessage) -> None:
        opened = self._open.get(message.stream)
        exchange = opened.exchange if opened is not None else self._switched
        inner = InnerMessage(self.connection, exchange, message, self._now_ns, self._tid)
        self._sink.message(inner)

    def _on_body_trailers(self, message: messages.BodyTrailers) -> None:
        opened = self._open.get(message.stream)
        if opened is not None:
            self._count_head(opened, opened.add_trailers(message.side, message.trailers))

    def _on_model_request(self, message: messages.ModelRequest) -> None:
        opened = self._open.get(message.stream)
        if opened is not None:
            opened.exchange.model_call = message.call

    def _on_first_output(self, message: messages.FirstOutput) -> None:
        opened = self._open.get(message.stream)
        if opened is not None and opened.exchange.model_call is not None:
            opened.exchange.model_call.first_output_ns = self._now_ns

    def _on_answer_end(self, message: messages.AnswerEnd) -> None:
        opened = self._open.get(message.stream)
        if opened is not None and opened.exchange.model_call is not None:
            opened.exchange.model_call.complete_ns = self._now_ns

    def _on_statement_start(self, message: messages.StatementStart) -> None:
        statement = message.statement
        opened = self._open_exchange(message.stream, statement.system)
        opened.exchange.statement = statement
        opened.exchange.sent_ns = self._now_ns
        self.transaction.begin_statement(statement, self._now_ns)
        if self._began is not None:
            self._began(opened.exchange)
        self._count_head(opened, statement.held_bytes)

    def _on_statement_answer(self, message: messages.StatementAnswer) -> None:
        opened = self._open.get(message.stream)
        if opened is not None:
            opened.exchange.first_byte_ns = self._now_ns

    def _on_statement_end(self, message: messages.StatementEnd) -> None:
        if message.stream in self._open:
            self._end_exchange(message.stream, message.error)

    def _on_transaction_change(self, message: messages.TransactionChange) -> None:
        opened = self._open.get(message.stream) if message.stream is not None else None
        exchange = opened.exchange if opened is not None else None
        self.transaction.change(message.step, exchange, self._now_ns)

    def _on_rpc_start(self, message: messages.RpcStart) -> None:
        opened = self._open_exchange(message.stream, message.call.protocol)
        opened.exchange.rpc, opened.exchange.model_call = message.call, message.model_call
        opened.exchange.sent_ns = self._now_ns
        if self._began is not None:
            self._began(opened.exchange)
        self._count_head(opened, message.call.held_bytes)

    def _on_rpc_end(self, message: messages.RpcEnd) -> None:
        opened = self._open.get(message.stream)
        if opened is None:
            return
        if message.error is None:
            opened.exchange.first_byte_ns = self._now_ns
        self._end_exchange(message.stream, message.error)

    def _on_undecoded(self, message: messages.Undecoded) -> None:
        self._sink.undecoded(self.connection, message, self._now_ns)


_HANDLERS: dict[type, Callable[[ConnectionDecoder, Any], None]] = {
    messages.RequestHead: ConnectionDecoder._on_request_head,
    messages.ResponseHead: ConnectionDecoder._on_response_head,
    messages.BodyData: ConnectionDecoder._on_body_data,
    messages.BodyInDoubt: ConnectionDecoder._on_body_in_doubt,
    messages.MessageEnd: ConnectionDecoder._on_message_end,
    messages.Aborted: ConnectionDecoder._on_aborted,
    messages.Frame: ConnectionDecoder._on_frame,
    messages.Stall: ConnectionDecoder._on_stall,
    messages.Http2Totals: ConnectionDecoder._on_frame_totals,
    messages.Undecoded: ConnectionDecoder._on_undecoded,
    messages.WebSocketMessage: ConnectionDecoder._on_stream_message,
    messages.GrpcMessage: ConnectionDecoder._on_stream_message,
    messages.ServerSentEvent: ConnectionDecoder._on_stream_message,
    messages.BodyTrailers: ConnectionDecoder._on_body_trailers,
    messages.ModelRequest: ConnectionDecoder._on_model_request,
    messages.FirstOutput: ConnectionDecoder._on_first_output,
    messages.AnswerEnd: ConnectionDecoder._on_answer_end,
    messages.StatementStart: ConnectionDecoder._on_statement_start,
    messages.StatementAnswer: ConnectionDecoder._on_statement_answer,
    messages.StatementEnd: ConnectionDecoder._on_statement_end,
    messages.TransactionChange: ConnectionDecoder._on_transaction_change,
    messages.RpcStart: ConnectionDecoder._on_rpc_start,
    messages.RpcEnd: ConnectionDecoder._on_rpc_end,
    messages.RpcNotification: ConnectionDecoder._on_stream_message,
}
