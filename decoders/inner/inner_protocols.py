"""Reads what is inside HTTP bodies: gRPC, WebSocket, server-sent events, calls of language models.

A wrapper around a decoder of HTTP. It reads the bodies in the decoder's messages, and adds the
messages that it finds in them. The decoder's own messages are not changed.

Memory per connection: ``ROOM_BYTES`` for unfinished messages, ``WINDOWS_BYTES`` for decompression,
and ``_MAX_READERS`` readers.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sslsniff.decoders.content.coded_body import WINDOWS_BYTES, decompressing
from sslsniff.decoders.decoder import CLOSED, BodyReader
from sslsniff.decoders.detect import Detector
from sslsniff.decoders.inner import grpc, permessage_deflate
from sslsniff.decoders.inner.event_stream import EventStreamReader, is_event_stream
from sslsniff.decoders.inner.grpc_shape import GrpcShape
from sslsniff.decoders.inner.models.possible_calls import may_be_model_call
from sslsniff.decoders.inner.partial_messages import START_BYTES, Room
from sslsniff.decoders.inner.websocket import WebSocketReader
from sslsniff.decoders.messages import (
    SIDES,
    Aborted,
    BodyData,
    BodyInDoubt,
    Headers,
    Message,
    MessageEnd,
    RequestHead,
    ResponseHead,
    Side,
    cached_in_headers,
    in_pieces,
)

if TYPE_CHECKING:
    from sslsniff.decoders.inner.models.model_bodies import OpenModelCall

_MAX_EXCHANGES = 4096
_MAX_READERS = 2 * _MAX_EXCHANGES
"""One for the request and one for the response of each open exchange."""
_READERS_GROWTH = START_BYTES
"""See ``Decoder.growth``: a few compressed bytes may decode to all of ``START_BYTES``."""
_READER_BYTES, _SHAPE_BYTES, _WEBSOCKET_REQUEST_BYTES = 1000, 600, 100  # memory of each
_CALL_BYTES = 3000  # memory of a model call, beside its texts


class InnerProtocols:
    """Reads the bodies that ``decoder`` finds. Feed this instead of ``decoder``."""

    def __init__(self, decoder: Detector) -> None:
        self._decoder = decoder
        self._room = Room()
        self._windows = Room(WINDOWS_BYTES)
        self._readers: dict[tuple[int, Side], BodyReader] = {}
        self._websocket_requests: set[int] = set()  # streams that may become a WebSocket
        self._shape = GrpcShape()
        self._calls: dict[int, OpenModelCall] = {}

    @property
    def protocol(self) -> str:
        """The protocol of the connection, which carries the inner ones."""
        return self._decoder.protocol

    @property
    def is_idle(self) -> bool:
        """See ``Detector``."""
        return self._decoder.is_idle

    def feed(self, side: Side, data: bytes) -> list[Message]:
        """Feed the next bytes that ``side`` sent."""
        messages = self._decoder.feed(side, data)
        if not (self._readers or self._websocket_requests or self._shape.watched or self._calls):
            for message in messages:
                if isinstance(message, _HEADS) and not _is_plain(message.headers):
                    break
                if isinstance(message, RequestHead) and may_be_model_call(message):
                    break
            else:  # the usual case
                return messages
        return self._read(messages)

    def gap(self, side: Side, missing: int) -> list[Message]:
        """Note lost bytes."""
        return self._read(self._decoder.gap(side, missing))

    @property
    def growth(self) -> int:
        """See ``Decoder``."""
        return _READERS_GROWTH if self._readers else self._decoder.growth

    @property
    def held_bytes(self) -> int:
        """See ``Decoder``."""
        # Buffers that grow take an eighth more (CPython, bytearray_resize).
        buffers = self._room.used_bytes * 9 // 8 + self._windows.filled_bytes
        readers = _READER_BYTES * len(self._readers) + _SHAPE_BYTES * len(self._shape.watched)
        return (
            self._decoder.held_bytes
            + buffers
            + readers
            + _WEBSOCKET_REQUEST_BYTES * len(self._websocket_requests)
            + _CALL_BYTES * len(self._calls)
        )

    def end(self, side: Side, reason: str = CLOSED) -> list[Message]:
        """End a side."""
        return self._read(self._decoder.end(side, reason))

    def stop(self, reason: str) -> list[Message]:
        """Stop reading: report buffered bytes as undecoded, because of ``reason``."""
        out: list[Message] = []
        for reader in self._readers.values():
            reader.stop(reason, out)
        self._readers.clear()
        for stream in [*self._calls]:
            self._close_call(stream)
        for side in SIDES:
            out += self._read(self._decoder.end(side, reason))
        return out

    def successor(self) -> "InnerProtocols":
        """Return a new decoder for the next bytes, which starts as after a loss."""
        return InnerProtocols(self._decoder.successor())

    def finish(self) -> list[Message]:
        """See ``Detector``."""
        return self._read(self._decoder.finish())

    def _read(self, messages: list[Message]) -> list[Message]:
        out: list[Message] = []
        for message in in_pieces(messages):
            handler = _HANDLERS.get(type(message))
            if handler is not None:
                handler(self, message, out)
            out.append(message)
        return out

    def _request(self, head: RequestHead, out: list[Message]) -> None:
        self._begin_body(head.stream, Side.CLIENT, head.headers, out)
        if may_be_model_call(head):
            self._begin_call(head, out)
        if head.method == "CONNECT" and (":protocol", "websocket") in head.headers:
            if len(self._websocket_requests) >= _MAX_EXCHANGES:
                self._websocket_requests.clear()
            self._websocket_requests.add(head.stream)

    def _response(self, head: ResponseHead, out: list[Message]) -> None:
        if head.status is not None and head.status < 200:
            return
        if not self._begin_answer(head, out):
            self._begin_body(head.stream, Side.SERVER, head.headers, out)
        if head.stream in self._websocket_requests:
            self._websocket_requests.discard(head.stream)
            if head.status is not None and head.status < 300:  # RFC 8441 section 5
                for side in SIDES:
                    agreed = permessage_deflate.takeover(head.headers, side)
                    reader = WebSocketReader(head.stream, side, self._room, agreed)
                    self._add(head.stream, side, reader, out)

    def _begin_body(self, stream: int, side: Side, headers: Headers, out: list[Message]) -> None:
        """Add a reader of a body whose headers say that it carries messages."""
        if headers.may_hide("content-type"):
            if self._shape.is_proven:
                guess = grpc.MediaType(guessed=True)
                reader = grpc.GrpcReader(stream, side, self._room, guess, headers)
                self._add(stream, side, reader, out)
            self._shape.begin(stream, side)
        elif (kind := grpc.media_type_of(headers)) is not None:
            messages = grpc.GrpcReader(stream, side, self._room, kind, headers)
            self._add(stream, side, decompressing(messages, headers, self._windows), out)
        elif side is Side.SERVER and is_event_stream(headers):
            events = EventStreamReader(stream, side, self._room)
            self._add(stream, side, decompressing(events, headers, self._windows), out)

    def _begin_call(self, head: RequestHead, out: list[Message]) -> None:
        """Read a request that may be a model call."""
        from sslsniff.decoders.inner.models import model_bodies  # only for programs that post JSON

        self._close_call(head.stream)
        opened = model_bodies.open_call(head, self._room)
        if opened is None:
            return
        if len(self._calls) >= _MAX_EXCHANGES:
            self._close_call(next(iter(self._calls)))
        self._calls[head.stream] = opened
        reader = model_bodies.RequestReader(opened, self._room)
        self._add(head.stream, Side.CLIENT, decompressing(reader, head.headers, self._windows), out)

    def _begin_answer(self, head: ResponseHead, out: list[Message]) -> bool:
        """Read the answer to a model call; return whether it is one."""
        opened = self._calls.get(head.stream)
        if opened is None:
            return False
        from sslsniff.decoders.inner.models.model_bodies import answer_reader

        reader = answer_reader(opened, head.headers, self._room)
        if reader is None:
            return False
        self._add(head.stream, Side.SERVER, decompressing(reader, head.headers, self._windows), out)
        return True

    def _close_call(self, stream: int) -> None:
        opened = self._calls.pop(stream, None)
        if opened is not None:
            opened.close()

    def _read_body(self, message: BodyData, out: list[Message]) -> None:
        if self._shape.watched:
            self._shape.body(message)
        reader = self._readers.get((message.stream, message.side))
        if reader is not None:
            if message.missing:
                reader.gap(message.missing, out)
            reader.feed(message.data, out)

    def _lose_sync(self, message: BodyInDoubt, out: list[Message]) -> None:
        self._shape.drop(message.stream)
        reader = self._readers.get((message.stream, message.side))
        if reader is not None:
            reader.lose_sync(out)

    def _end_body(self, message: MessageEnd, out: list[Message]) -> None:
        if self._shape.watched:
            self._shape.end(message.stream, message.side)
        self._drop(message.stream, message.side, out)
        if message.side is Side.SERVER and self._calls:
            self._close_call(message.stream)

    def _abort(self, message: Aborted, out: list[Message]) -> None:
        self._websocket_requests.discard(message.stream)
        self._shape.drop(message.stream)
        for side in SIDES:
            self._drop(message.stream, side, out)
        self._close_call(message.stream)

    def _add(self, stream: int, side: Side, reader: BodyReader, out: list[Message]) -> None:
        self._drop(stream, side, out)
        if len(self._readers) >= _MAX_READERS:
            self._drop(*next(iter(self._readers)), out)
        self._readers[stream, side] = reader

    def _drop(self, stream: int, side: Side, out: list[Message]) -> None:
        reader = self._readers.pop((stream, side), None)
        if reader is not None:
            reader.end(out)


@cached_in_headers
def _is_plain(headers: Headers) -> bool:
    """Return whether the headers of a body show that it carries no messages."""
    return not (
        headers.may_hide("content-type")
        or grpc.media_type_of(headers) is not None
        or is_event_stream(headers)
        or (":protocol", "websocket") in headers
    )


_HEADS = (RequestHead, ResponseHead)

_HANDLERS: dict[type, Callable[[InnerProtocols, Any, list[Message]], None]] = {
    RequestHead: InnerProtocols._request,
    ResponseHead: InnerProtocols._response,
    BodyData: InnerProtocols._read_body,
    BodyInDoubt: InnerProtocols._lose_sync,
    MessageEnd: InnerProtocols._end_body,
    Aborted: InnerProtocols._abort,
}
"""The decoder's messages that matter to bodies; others are only passed on."""
