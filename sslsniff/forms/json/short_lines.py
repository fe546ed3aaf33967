"""Short lines for exchanges and frames, most of what a capture writes for a screen.

A short line is a JSON array; for an exchange the bytes of its bodies follow. It has what the
object of docs/json.md is made from, and takes less than half of the time to write. Who looks at an
exchange makes the object (``screen.captured.rebuilt_exchanges``). All else, and exchanges that are
more than a request and its response, are JSON lines; one of type ``origin`` has what the short
lines of a connection leave out.
"""

import re
from typing import Any, BinaryIO, NamedTuple, Self

import orjson

from sslsniff.core.model import (
    Connection,
    Exchange,
    Handshake,
    Request,
    Response,
    handshake_exchange,
)
from sslsniff.decoders.messages import Frame
from sslsniff.forms.grpc_calls import call_of
from sslsniff.forms.json.json_lines import JsonSink, changing_fields, shown_headers
from sslsniff.forms.text import pieces

_EXCHANGE, _FRAME = 0, 1
IS_EXCHANGE, IS_FRAME = b"[0,", b"[1,"
"""How the short line of an exchange begins, and that of a frame."""

SENT_MS = "sent_ms"
"""The member with the milliseconds until the request of an exchange was complete."""

_BODIES = b"\x1f"
"""Stands before the bytes of bodies; JSON escapes it. In them line feeds are escaped."""
_ESCAPED = re.compile(rb"\\(.)")


class ShortRequest(NamedTuple):
    """The request in a short line.

    ``host``: host and port as sent. ``missing``: bytes of the body that were not captured.
    ``stored``: how many of its ``size`` bytes are stored.
    """

    method: str | None
    target: str | None
    scheme: str | None
    authority: str | None
    url: str
    host: str | None
    size: int
    missing: int
    stored: int
    headers: list[list[str | None]]
    trailers: list[list[str | None]]

    @classmethod
    def of(cls, request: Request) -> tuple[object, ...]:
        """Return the values for a line, in the order of the fields; a named tuple is slower."""
        return (
            request.method,
            request.target,
            request.scheme,
            request.authority,
            request.url,
            request.host_and_port,
            *_content(request),
        )


class ShortResponse(NamedTuple):
    """The response in a short line: see ``ShortRequest``."""

    status: int | None
    reason: str
    size: int
    missing: int
    stored: int
    headers: list[list[str | None]]
    trailers: list[list[str | None]]

    @classmethod
    def of(cls, response: Response) -> tuple[object, ...]:
        """Return the values for a line."""
        return response.status, response.reason, *_content(response)


class ShortExchange(NamedTuple):
    """An exchange in a short line: a request and its response, of which one may be None."""

    kind: int
    connection: str
    protocol: str
    stream: int | None
    tid: int
    started_ns: int
    sent_ns: int | None
    first_byte_ns: int | None
    ended_ns: int | None
    error: str | None
    warnings: list[str]
    request: ShortRequest | None
    response: ShortResponse | None

    @classmethod
    def parse(cls, line: bytes) -> Self:
        """Return what a short line says that begins with ``IS_EXCHANGE``."""
        *values, request, response = orjson.loads(line.partition(_BODIES)[0])
        values.append(request and ShortRequest._make(request))
        values.append(response and ShortResponse._make(response))
        return cls._make(values)

    @property
    def missing_bytes(self) -> int:
        """Bytes of bodies that were not captured."""
        request, response = self.request, self.response
        return (request.missing if request else 0) + (response.missing if response else 0)


class ShortFrame(NamedTuple):
    """A frame in a short line: see ``Frame``."""

    kind: int
    connection: str
    side: str
    stream: int
    type: str
    flags: list[str]
    length: int
    details: dict[str, Any]
    time_ns: int
    tid: int

    @classmethod
    def parse(cls, line: bytes) -> Self:
        """Return what a short line says that begins with ``IS_FRAME``."""
        return cls._make(orjson.loads(line))


def is_frame_of(line: bytes, connection: str) -> bool:
    """Say whether a line is one of a frame, short or not, on the connection with this id."""
    name = b'"%b",' % connection.encode()
    # A quotation mark in a text from the wire is escaped: it cannot look like this.
    return line.startswith(b"[1," + name) or b'"connection":' + name in line


def bodies_of(line: bytes, short: ShortExchange) -> tuple[bytes, bytes]:
    """Return the bytes of both bodies, as far as they are stored, in the line of ``short``."""
    data = _ESCAPED.sub(_unescaped, line.partition(_BODIES)[2])
    place = short.request.stored if short.request else 0
    return data[:place], data[place:]


def without_bodies(line: bytes) -> bytes:
    """Return the short line of an exchange without the bytes of its bodies."""
    return line.partition(_BODIES)[0]


class ShortLines(JsonSink):
    """Writes short lines, and JSON lines for what has none; ``options``: those of ``JsonSink``.

    Its JSON lines of exchanges have also ``SENT_MS``.
    """

    def __init__(self, stream: BinaryIO, **options: Any) -> None:
        super().__init__(stream, **options)
        self._more_fields = _sent_ms
        self._known: dict[str, tuple[object, ...]] = {}

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        super().closed(connection, time_ns)
        self._known.pop(connection.id, None)

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        line = None if self._calls_of is not None or _is_special(exchange) else _line(exchange)
        if line is None:
            super().exchange(exchange)
            return
        self._write_origin(exchange.connection, exchange.started_ns)
        self._stream.write(line + b"\n")

    def handshake(self, handshake: Handshake) -> None:
        """See ``Sink``: a failure is a row of the screen, like an exchange."""
        if handshake.end.is_failure:
            self.exchange(handshake_exchange(handshake))

    def frame(self, connection: Connection, frame: Frame, time_ns: int, tid: int) -> None:
        """See ``Sink``."""
        values = (
            _FRAME,
            connection.id,
            frame.side.value,
            frame.stream,
            frame.type,
            frame.flags,
            frame.length,
            frame.details,
            time_ns,
            tid,
        )
        try:
            line = orjson.dumps(values)
        except orjson.JSONEncodeError:  # it has bytes, or lone surrogates
            super().frame(connection, frame, time_ns, tid)
            return
        self._write_origin(connection, time_ns)
        self._stream.write(line + b"\n")

    def _write_origin(self, connection: Connection, time_ns: int) -> None:
        """Write what short lines leave out, once, and again when it has changed."""
        known = changing_fields(connection)
        if self._known.get(connection.id) != known:
            self._known[connection.id] = known
            self._write("origin", connection, time_ns, 0, {"tls": connection.tls})


def _content(message: Request | Response) -> tuple[object, ...]:
    """Return the values that requests and responses have in common, the last ones of each."""
    body, (headers, _) = message.body, shown_headers(message.headers)
    return body.size, body.missing, len(body.data), headers, message.trailers


def _sent_ms(exchange: Exchange) -> dict[str, Any]:
    return {SENT_MS: pieces.milliseconds_between(exchange.started_ns, exchange.sent_ns)}


def _is_special(exchange: Exchange) -> bool:
    """Say whether an exchange is more than a request and its response."""
    return bool(
        exchange.model_call is not None
        or exchange.statement is not None
        or exchange.rpc is not None
        or exchange.omitted is not None
        or exchange.place is not None
        or exchange.ending is not None
        or exchange.redacted is not None
        or exchange.informational
        or call_of(exchange) is not None
    )


def _line(exchange: Exchange) -> bytes | None:
    """Return the short line of an exchange; None if a text has lone surrogates."""
    request, response = exchange.request, exchange.response
    values = (
        _EXCHANGE,
        exchange.connection.id,
        exchange.protocol,
        exchange.stream,
        exchange.tid,
        exchange.started_ns,
        exchange.sent_ns,
        exchange.first_byte_ns,
        exchange.ended_ns,
        exchange.error,
        exchange.warnings,
        request and ShortRequest.of(request),
        response and ShortResponse.of(response),
    )
    data = (request.body.data if request else b"") + (response.body.data if response else b"")
    if b"\n" in data or b"\\" in data:
        data = data.replace(b"\\", b"\\\\").replace(b"\n", b"\\n")
    try:
        return orjson.dumps(values) + _BODIES + data
    except orjson.JSONEncodeError:
        return None


def _unescaped(found: re.Match[bytes]) -> bytes:
    return b"\n" if found[1] == b"n" else b"\\"
