"""An exchange that has not ended: the body bytes stored for it, and how many were lost."""

from collections.abc import Sequence
from dataclasses import dataclass

from sslsniff.core.endings import ExchangeEnding
from sslsniff.core.model import NO_BODY, Body, Exchange, Request, Response
from sslsniff.decoders.decoder import CLOSED
from sslsniff.decoders.messages import Header, Headers, Omitted, Side, cached_in_headers

MOST_BODY_BYTES = 256 << 20
"""Body bytes that are stored for the open exchanges of all connections."""

MOST_EXTRA_BYTES = 4 << 20
"""Memory of an exchange's informational responses and trailers; the largest of HTTP/1 fit."""

_CLIENT = Side.CLIENT  # looking up a member of an enum takes time

_ENDS_OF_TRANSFERS = frozenset((CLOSED, "reset: CANCEL", "reset: NO_ERROR"))
"""How clients end the transfer of an answer that is complete: they do not wait for the last, empty
chunk or frame. SDKs of OpenAI close the connection where ``[DONE]`` came."""

_RESET = "reset: "  # an HTTP/2 stream

_HEAD_BYTES, _FIELD_BYTES = 500, 250  # without text, in CPython 3.11


def list_bytes(fields: Sequence[Header]) -> int:
    """Return about how many bytes of memory a head or trailers take."""
    return _HEAD_BYTES + len(fields) * _FIELD_BYTES + _text_bytes(fields)


def _text_bytes(fields: Sequence[Header]) -> int:
    return sum([len(name or "") + len(value or "") for name, value in fields])


@cached_in_headers
def head_bytes(headers: Headers) -> int:
    """Return ``list_bytes`` of a head; computed once for each ``Headers``."""
    return list_bytes(headers)


def _announces_trailers(headers: Headers) -> bool:
    media_type = headers.first("content-type") or ""
    return media_type.startswith("application/grpc") or headers.first("trailer") is not None


@dataclass(slots=True)
class BodyRoom:
    """How many body bytes may be stored."""

    limit_bytes: int
    """Of one body."""
    free_bytes: int = MOST_BODY_BYTES
    """Of all bodies together, beyond those that are stored now."""

    def whole_body(self, data: bytes) -> Body:
        """Return the body of an exchange that ends at once: it takes no room."""
        return Body(len(data), data[: min(self.limit_bytes, self.free_bytes)])


@dataclass(slots=True)
class OpenExchange:
    """An exchange, with the state that is needed until it ends."""

    exchange: Exchange
    body_data: dict[Side, bytes | bytearray]
    """The stored bytes of each body."""
    answered_ns: int | None = None
    """When the response ended; None if it did not."""
    in_doubt: frozenset[Side] = frozenset()
    """Sides whose body lost an unknown number of bytes, perhaps none."""
    error: str | None = None
    """The exchange's error, unless it ends with another one."""
    head_bytes: int = 0
    """About the memory of its heads and trailers."""
    extra_bytes: int = 0
    """About the memory of its informational responses and trailers."""

    def message(self, side: Side) -> Request | Response | None:
        """Return the request (client) or the response (server); None if it was not seen."""
        return self.exchange.request if side is _CLIENT else self.exchange.response

    def body(self, side: Side) -> Body | None:
        """Return the body of a message, which may be changed; None if no head was seen."""
        message = self.message(side)
        if message is None:
            return None
        if message.body is NO_BODY:
            message.body = Body()
        return message.body

    def add_omitted(self, omitted: Omitted) -> None:
        """Count header fields that are not stored."""
        before = self.exchange.omitted or Omitted(0, 0)
        self.exchange.omitted = Omitted(*map(sum, zip(before, omitted, strict=True)))

    def add_warnings(self, warnings: Sequence[str]) -> None:
        """Add the warnings of a head, without those that are there."""
        present = self.exchange.warnings
        present += [warning for warning in warnings if warning not in present]

    def add_informational(self, response: Response) -> bool:
        """Add a response that another one follows; return whether there was room."""
        size = head_bytes(response.headers)
        if self.extra_bytes + size > MOST_EXTRA_BYTES:
            self.add_omitted(Omitted(len(response.headers), _text_bytes(response.headers), 1))
            return False
        self.extra_bytes += size
        self.exchange.informational.append(response)
        return True

    def add_trailers(self, side: Side, trailers: list[Header]) -> int:
        """Add trailers if there is room; return the memory that they take."""
        message, size = self.message(side), list_bytes(trailers)
        if message is None:
            return 0
        if isinstance(trailers, Headers) and trailers.omitted is not None:
            self.add_omitted(trailers.omitted)
        if self.extra_bytes + size > MOST_EXTRA_BYTES:
            self.add_omitted(Omitted(len(trailers), _text_bytes(trailers)))
            return 0
        self.extra_bytes += size
        message.trailers += trailers
        return size

    def add_body(self, side: Side, data: bytes, missing: int, room: BodyRoom) -> None:
        """Count a piece of a body and the bytes lost before it; store it if there is room."""
        body = self.body(side)
        if body is None:
            return
        size = len(data)
        body.size += size + missing
        body.missing += missing
        # Bytes after a gap do not continue those before it.
        if not size or body.missing or side in self.in_doubt:
            return
        stored = self.body_data.get(side, b"")
        fitting = min(size, room.limit_bytes - len(stored), room.free_bytes)
        if fitting <= 0:
            return
        room.free_bytes -= fitting
        if not stored:
            self.body_data[side] = data[:fitting]  # most bodies come in one piece: no copy
            return
        if not isinstance(stored, bytearray):
            stored = self.body_data[side] = bytearray(stored)
        stored += data[:fitting]

    def finish_bodies(self, room: BodyRoom) -> None:
        """Set the data of the bodies to the stored bytes, and free their room."""
        for side, stored in self.body_data.items():
            body = self.body(side)
            if body is not None:
                body.data = bytes(stored)
                room.free_bytes += len(stored)

    def infer_loss(self, side: Side) -> None:
        """Set how many bytes a body in doubt lost, from the length that its head declares.

        Called when the body ended. If the head declares no length, and no loss was counted,
        ``error`` says that bytes were lost.
        """
        if side not in self.in_doubt:
            return
        body, length = self.body(side), self._declared_length(side)
        if body is not None and length is not None:
            seen = body.size - body.missing
            body.missing = max(0, length - seen)
            body.size = seen + body.missing
        elif body is None or not body.missing:
            self.error = "undecodable: bytes lost"

    def complete_ns(self, error: str) -> int | None:
        """Return when a model's streamed answer was complete, if ``error`` only ended its transfer.

        None: there is no such answer, or the error is about more.
        """
        call = self.exchange.model_call
        if call is None or not call.is_complete or error not in _ENDS_OF_TRANSFERS:
            return None
        return call.complete_ns

    def ending(self, error: str) -> ExchangeEnding | None:
        """Return how far the exchange had come when it ended with ``error``.

        None: that is no end of the exchange, but one of what is seen of it.
        """
        exchange = self.exchange
        is_closed = error == CLOSED
        if not is_closed and not error.startswith(_RESET):
            return None
        connection = exchange.connection.ending if is_closed else None
        part = None
        if exchange.response is not None and self.answered_ns is None:
            part = Side.SERVER
        elif exchange.request is not None and exchange.sent_ns is None:
            part = Side.CLIENT
        message = self.message(part) if part is not None else None
        if part is None or message is None or part in self.in_doubt:
            return ExchangeEnding(None, 0, None, connection) if connection else None
        return ExchangeEnding(part, message.body.size, self._declared_length(part), connection)

    @property
    def has_whole_response(self) -> bool:
        """Whether all of the response came: its end, or as many bytes as it declares.

        Before its end, trailers may be missing: gRPC's have the status of the call.
        """
        if self.answered_ns is not None:
            return True
        request, response = self.exchange.request, self.exchange.response
        if response is None or self.in_doubt or _announces_trailers(response.headers):
            return False
        if request is not None and request.method == "CONNECT":
            return False  # a tunnel has no length (RFC 9110 section 8.6)
        return self._declared_length(Side.SERVER) == response.body.size

    def _declared_length(self, side: Side) -> int | None:
        """Return a body's length by its Content-Length; some responses have no body (RFC 9110)."""
        request, response = self.exchange.request, self.exchange.response
        if side is Side.SERVER and response is not None:
            to_head = request is not None and request.method == "HEAD"
            if to_head or response.status in (204, 304):
                return 0
        message = self.message(side)
        lengths = message.headers.all("content-length") if message is not None else []
        return (
            int(lengths[0]) if lengths and lengths[0].isascii() and lengths[0].isdigit() else None
        )
