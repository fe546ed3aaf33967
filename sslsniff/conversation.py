"""What passes on one connection, as exchanges: the place where requests meet their responses."""

from collections.abc import Callable
from typing import Any

from sslsniff.decoders.carried import Carried
from sslsniff.decoders.detect import guess_sender
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
from sslsniff.model import Chunk, Connection, Direction, Exchange, Request, Response
from sslsniff.open_exchange import BodyRoom, OpenExchange
from sslsniff.sinks.base import Sink
from sslsniff.waits import Waits

MOST_OPEN = 4096
"""Exchanges of a connection that may be open at once; servers allow some hundred as a rule."""

_CHUNKS_WITHOUT_ROLE = 16
"""So many chunks wait for one that tells the role; then the writer counts as the client."""


class Conversation:
    """Decodes the chunks of ``connection`` and tells ``audience``."""

    def __init__(
        self,
        connection: Connection,
        decoder: Carried,
        audience: Sink,
        waits: Waits,
        room: BodyRoom,
    ) -> None:
        self.connection = connection
        self._decoder = decoder
        self._audience = audience
        self._waits = waits
        self._room = room
        self._open: dict[int, OpenExchange] = {}
        self._waiting: list[Chunk] = []
        self._ended: set[Side] = set()
        self._switched: Exchange | None = None  # it ended HTTP: what follows is on its behalf
        self._handlers: dict[type, Callable[[Any, Chunk], None]] = {
            RequestHead: self._request_head,
            ResponseHead: self._response_head,
            BodyData: self._body_data,
            BodyInDoubt: self._body_in_doubt,
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

    @property
    def protocol(self) -> str:
        """The protocol as far as it is known."""
        return self._decoder.protocol

    @property
    def open_exchanges(self) -> list[Exchange]:
        """The exchanges that have not ended."""
        return [opened.exchange for opened in self._open.values()]

    def chunk(self, chunk: Chunk) -> None:
        """Take the next bytes. Where the library does not tell the role, they do."""
        if self.connection.role is not None:
            self._decode(chunk)
            return
        self._waiting.append(chunk)
        sender = guess_sender(chunk.data)
        if sender is not None or len(self._waiting) >= _CHUNKS_WITHOUT_ROLE:
            self._settle(sender or Side.CLIENT, chunk.direction)

    def end(self, direction: Direction, time_ns: int) -> None:
        """Take note that nothing follows in one direction."""
        self._settle()
        side = self.connection.sender(direction)
        if side is not None:
            self._end_side(side, time_ns)

    def close(self, time_ns: int) -> None:
        """Take the end of the connection: what is open ends."""
        self._settle()
        for side in Side:
            self._end_side(side, time_ns)
        self._finish_all(time_ns, "connection closed")

    def break_off(self, time_ns: int) -> None:
        """Take the end of the capture: what is open is told, though it goes on."""
        self._settle()
        self._finish_all(time_ns, "capture ended")

    def _settle(self, sender: Side = Side.CLIENT, direction: Direction = Direction.WRITE) -> None:
        """Decode what waits for a role; where nothing said it, the writer is the client."""
        if self._waiting:
            self.connection.role = sender if direction is Direction.WRITE else sender.other
            waiting, self._waiting = self._waiting, []
            for chunk in waiting:
                self._decode(chunk)

    def _decode(self, chunk: Chunk) -> None:
        side = self.connection.sender(chunk.direction)
        assert side is not None
        if chunk.missing:
            messages = self._decoder.gap(side, chunk.missing)
        else:
            messages = self._decoder.feed(side, chunk.data)
        self._dispatch(messages, chunk)

    def _dispatch(self, messages: list[Message], chunk: Chunk) -> None:
        for message in messages:
            self._handlers[type(message)](message, chunk)

    def _end_side(self, side: Side, time_ns: int) -> None:
        if side not in self._ended:
            self._ended.add(side)
            self._dispatch(self._decoder.end(side), self._end_chunk(time_ns))

    def _finish_all(self, time_ns: int, error: str) -> None:
        self._waits.close(self.connection, time_ns)
        self._dispatch(self._decoder.give_up(), self._end_chunk(time_ns))
        for stream in list(self._open):
            self._finish(stream, time_ns, error)

    def _end_chunk(self, time_ns: int) -> Chunk:
        """Return a chunk without bytes, which stands for the time and place of the end."""
        read = self.connection.bytes_read
        return Chunk(self.connection, Direction.READ, time_ns, 0, read, b"")

    # What the decoder tells.

    def _exchange(self, stream: int, chunk: Chunk) -> Exchange:
        opened = self._open.get(stream)
        if opened is None:
            if len(self._open) >= MOST_OPEN:
                oldest = next(iter(self._open))
                self._finish(oldest, chunk.time_ns, f"over {MOST_OPEN} exchanges open")
            protocol = self._decoder.protocol
            opened = self._open[stream] = OpenExchange(
                Exchange(
                    connection=self.connection,
                    protocol=protocol,
                    stream=None if protocol.startswith("http/1") else stream,
                    tid=chunk.tid,
                    started_ns=chunk.time_ns,
                )
            )
        return opened.exchange

    def _request_head(self, message: RequestHead, chunk: Chunk) -> None:
        exchange = self._exchange(message.stream, chunk)
        if exchange.stream is None:
            exchange.protocol = message.version.lower()  # http/1.0, on the same decoder
        exchange.request = Request(
            method=message.method,
            target=message.target,
            scheme=message.scheme,
            authority=message.authority,
            headers=message.headers,
            default_scheme=self.connection.scheme,
        )
        exchange.warnings += message.warnings

    def _response_head(self, message: ResponseHead, chunk: Chunk) -> None:
        exchange = self._exchange(message.stream, chunk)
        response = Response(message.status, message.reason, message.headers)
        exchange.warnings += message.warnings
        if message.status is not None and 100 <= message.status < 200 and message.status != 101:
            exchange.informational.append(response)
            return
        exchange.response = response
        exchange.first_byte_ns = chunk.time_ns

    def _body_data(self, message: BodyData, chunk: Chunk) -> None:
        opened = self._open.get(message.stream)
        if opened is not None:
            opened.keep(message, self._room)

    def _body_in_doubt(self, message: BodyInDoubt, chunk: Chunk) -> None:
        opened = self._open.get(message.stream)
        if opened is not None:
            opened.in_doubt.add(message.side)

    def _message_end(self, message: MessageEnd, chunk: Chunk) -> None:
        opened = self._open.get(message.stream)
        if opened is None:
            return
        half = opened.half(message.side)
        if half is not None:
            half.trailers += message.trailers
        opened.judge(message.side)
        opened.ended.add(message.side)
        exchange = opened.exchange
        if message.side is Side.CLIENT:
            exchange.sent_ns = chunk.time_ns
        if Side.SERVER in opened.ended and (
            Side.CLIENT in opened.ended or exchange.request is None
        ):
            error = None if exchange.response else "undecodable: response head not seen"
            self._finish(message.stream, chunk.time_ns, error)

    def _aborted(self, message: Aborted, chunk: Chunk) -> None:
        opened = self._open.get(message.stream)
        if opened is None:
            return
        # Behind a whole response it only spares the rest of the request (RFC 9113, 8.1).
        spared = message.error == "reset: NO_ERROR" and Side.SERVER in opened.ended
        self._finish(message.stream, chunk.time_ns, None if spared else message.error)

    def _frame(self, message: Frame, chunk: Chunk) -> None:
        self._audience.frame(self.connection, message, chunk.time_ns, chunk.tid)

    def _stall(self, message: Stall, chunk: Chunk) -> None:
        self._waits.take(self.connection, message, chunk.time_ns)

    def _frame_totals(self, message: Http2Totals, chunk: Chunk) -> None:
        self._audience.frame_totals(self.connection, message, chunk.time_ns)

    def _stream_message(self, message: StreamMessage, chunk: Chunk) -> None:
        opened = self._open.get(message.stream)
        exchange = opened.exchange if opened is not None else self._switched
        self._audience.message(self.connection, exchange, message, chunk.time_ns, chunk.tid)

    def _body_trailers(self, message: BodyTrailers, chunk: Chunk) -> None:
        opened = self._open.get(message.stream)
        half = opened.half(message.side) if opened is not None else None
        if half is not None:
            half.trailers += message.trailers

    def _undecoded(self, message: Undecoded, chunk: Chunk) -> None:
        self._audience.undecoded(self.connection, message, chunk.time_ns)

    def _finish(self, stream: int, time_ns: int, error: str | None) -> None:
        opened = self._open.pop(stream)
        exchange = opened.exchange
        exchange.ended_ns = time_ns
        exchange.error = error or opened.error
        if exchange.response is not None and exchange.response.status == 101:
            self._switched = exchange
        opened.join(self._room)
        self._audience.exchange(exchange)
