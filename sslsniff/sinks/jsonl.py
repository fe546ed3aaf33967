"""JSON lines: the stable form for programs (docs/json.md)."""

import json
from typing import Any, BinaryIO

import orjson

from sslsniff.decoders import content
from sslsniff.decoders.messages import (
    Frame,
    Headers,
    Http2Totals,
    Side,
    Undecoded,
    asked_once,
)
from sslsniff.escaping import escape_json
from sslsniff.model import (
    Address,
    Body,
    Chunk,
    Connection,
    Direction,
    Exchange,
    InnerMessage,
    Request,
    Response,
    Summary,
    Wait,
)
from sslsniff.sinks import text
from sslsniff.sinks.base import Sink
from sslsniff.sinks.message_objects import call_object, message_object
from sslsniff.sinks.proto_fields import Schema, no_schema

Object = dict[str, Any]

_NEWLINE = orjson.OPT_APPEND_NEWLINE
_ENCODER = json.JSONEncoder(
    ensure_ascii=False,
    separators=(",", ":"),
    default=lambda fragment: orjson.loads(orjson.dumps(fragment)),
)


class JsonSink(Sink):
    """Writes one object a line to ``stream``; ``chunks`` asks for raw plaintext too.

    Memory: some hundred bytes for each open connection.
    """

    wants_bodies = True

    def __init__(
        self, stream: BinaryIO, *, chunks: bool = False, schema: Schema = no_schema
    ) -> None:
        self._stream = stream
        self._chunks = chunks
        self._schema = schema
        self.wants_plaintext = chunks
        self._origins: dict[str, tuple[tuple[object, ...], Object]] = {}

    def opened(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._connection_event("opened", connection, time_ns)

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._connection_event("closed", connection, time_ns)
        self._origins.pop(connection.id, None)

    def chunk(self, chunk: Chunk) -> None:
        """See ``Sink``."""
        if not self._chunks and not chunk.missing:
            return
        connection, time_ns, tid = chunk.connection, chunk.time_ns, chunk.tid
        if chunk.missing and chunk.cause is not None:
            line = self._begun("loss", connection, time_ns, tid)
            line |= {"cause": chunk.cause.value, "events": 1, "bytes": chunk.missing}
            self._write(line)
        if self._chunks:
            line = self._begun("chunk", connection, time_ns, tid)
            line |= {
                "direction": chunk.direction.value,
                "offset": chunk.offset,
                "missing": chunk.missing,
                "data": text.bytes_object(chunk.data, len(chunk.data)),
            }
            self._write(line)

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        request, response = exchange.request, exchange.response
        line = self._begun("exchange", exchange.connection, exchange.started_ns, exchange.tid)
        line |= {
            "duration_ms": _since(exchange.started_ns, exchange.ended_ns),
            "first_byte_ms": _since(exchange.started_ns, exchange.first_byte_ns),
            "protocol": exchange.protocol,
            "stream": exchange.stream,
            "request": _request(request) if request else None,
            "response": _response(response) if response else None,
            "informational": list(map(_response, exchange.informational)),
            "missing_bytes": exchange.missing_bytes,
            "error": exchange.error,
        }
        if exchange.warnings:
            line["warnings"] = exchange.warnings
        line |= call_object(exchange)
        self._write(line)

    def frame(self, connection: Connection, frame: Frame, time_ns: int, tid: int) -> None:
        """See ``Sink``."""
        line = self._begun("frame", connection, time_ns, tid)
        line |= {
            "direction": _direction(connection, frame.side),
            "stream": frame.stream,
            "frame": frame.type,
            "flags": frame.flags,
            "length": frame.length,
        }
        for name, value in frame.details.items():
            is_raw = isinstance(value, bytes)
            line[name] = text.bytes_object(value, len(value)) if is_raw else value
        self._write(line)

    def wait(self, connection: Connection, wait: Wait, time_ns: int) -> None:
        """See ``Sink``."""
        line = self._begun("wait", connection, time_ns)
        line |= {
            "direction": _direction(connection, wait.side),
            "stream": wait.stream,
            "waited_ms": _since(wait.since_ns, time_ns),
            "over": wait.is_over,
        }
        self._write(line)

    def frame_totals(self, connection: Connection, totals: Http2Totals, time_ns: int) -> None:
        """See ``Sink``."""
        for side in Side:
            line = self._begun("frame_totals", connection, time_ns)
            line |= {
                "direction": _direction(connection, side),
                "streams": totals.streams[side],
                "resets": totals.resets[side],
                "header_table": totals.header_table[side],
                "connection_window": totals.window[side],
            }
            self._write(line)

    def message(self, passed: InnerMessage) -> None:
        """See ``Sink``."""
        said = message_object(passed.exchange, passed.message, self._schema)
        line = self._begun(said.pop("type"), passed.connection, passed.time_ns, passed.tid)
        line["direction"] = _direction(passed.connection, passed.message.side)
        line |= said
        self._write(line)

    def undecoded(self, connection: Connection, message: Undecoded, time_ns: int) -> None:
        """See ``Sink``."""
        line = self._begun("undecoded", connection, time_ns)
        line |= {
            "direction": _direction(connection, message.side),
            "reason": message.reason,
            "data": text.bytes_object(message.data, message.size),
        }
        self._write(line)

    def summary(self, summary: Summary) -> None:
        """See ``Sink``."""
        for loss in summary.losses:
            self._write(
                {
                    "type": "loss",
                    "time": None,
                    "cause": loss.cause.value,
                    "events": loss.events,
                    "bytes": loss.bytes,
                }
            )
        line: Object = {
            "type": "summary",
            "exchanges": summary.exchanges,
            "connections": summary.connections,
            "joined_connections": summary.joined,
            "bytes": summary.bytes,
            "lost_events": sum(loss.events for loss in summary.losses),
            "lost_bytes": sum(loss.bytes for loss in summary.losses),
            "duration_s": round(summary.duration_ns / 1e9, 6),
        }
        if summary.shown is not None:
            line["shown"] = summary.shown
        if summary.left_out is not None:
            line["left_out_connections"] = summary.left_out
        self._write(line)

    def flush(self) -> None:
        """See ``Sink``."""
        self._stream.flush()

    def _connection_event(self, event: str, connection: Connection, time_ns: int) -> None:
        line = {"type": None, "event": event, **self._begun("connection", connection, time_ns)}
        line |= {
            "joined": not connection.from_start,
            "sni": connection.sni,
            "alpn": connection.alpn,
            "tls_version": connection.tls_version,
            "cipher": connection.cipher,
            "tls": connection.tls,
            "bytes_read": connection.bytes_read,
            "bytes_written": connection.bytes_written,
            "missing_bytes": connection.missing_bytes,
        }
        self._write(line)

    def _begun(
        self, kind: str, connection: Connection, time_ns: int, tid: int | None = None
    ) -> Object:
        """Return the fields with which a line of this type begins."""
        known = connection.role, connection.local, connection.remote  # the rest never changes
        kept = self._origins.get(connection.id)
        if kept is None or kept[0] != known:
            kept = self._origins[connection.id] = known, _origin(connection)
        return {**kept[1], "type": kind, "time": text.utc_time(time_ns), "tid": tid or None}

    def _write(self, line: Object) -> None:
        try:
            encoded = orjson.dumps(line, option=_NEWLINE)
            if not encoded.isascii() or b"\x7f" in encoded:  # other things JSON has escaped
                encoded = _escaped(encoded.decode().removesuffix("\n"))
        except orjson.JSONEncodeError:  # lone surrogates, and numbers of more than 64 bits
            encoded = _escaped(_ENCODER.encode(line))
        self._stream.write(encoded)


def _escaped(line: str) -> bytes:
    return f"{escape_json(line)}\n".encode()


def _origin(connection: Connection) -> Object:
    """Return the fields that tell whose line it is, with those before and between them."""
    return {
        "type": None,
        "time": None,
        **text.origin(connection, None),
        "connection": connection.id,
        "client": _address(connection.client),
        "server": _address(connection.server),
    }


def _direction(connection: Connection, sender: Side) -> str:
    direction = Direction.WRITE if connection.role is sender else Direction.READ
    return direction.value


def _address(address: Address | None) -> Object | None:
    return {"ip": address.ip, "port": address.port} if address else None


def _since(start_ns: int, end_ns: int | None) -> float | None:
    """Return milliseconds, rounded to microseconds."""
    return None if end_ns is None else (end_ns - start_ns + 500) // 1000 / 1000


@asked_once
def _headers(headers: Headers) -> orjson.Fragment | Headers:
    """Return headers for a line: encoded already, unless they hold lone surrogates.

    They are copied, as what orjson returns takes 4 KiB of memory, however short it is.
    """
    try:
        return orjson.Fragment(memoryview(orjson.dumps(headers)).tobytes())
    except orjson.JSONEncodeError:
        return headers


def _body(body: Body, headers: Headers) -> Object:
    shown = text.bytes_object(body.data, body.size)
    if content.codings(headers):
        decoded = content.decode(body.data, headers)
        if decoded.error is None:
            shown["decoded"] = text.bytes_object(decoded.data, len(decoded.data))
    return shown


def _request(request: Request) -> Object:
    return {
        "method": request.method,
        "scheme": request.scheme,
        "authority": request.authority,
        "target": request.target,
        "url": request.url,
        "headers": _headers(request.headers),
        "body": _body(request.body, request.headers),
        "trailers": request.trailers,
    }


def _response(response: Response) -> Object:
    return {
        "status": response.status,
        "reason": response.reason,
        "headers": _headers(response.headers),
        "body": _body(response.body, response.headers),
        "trailers": response.trailers,
    }
