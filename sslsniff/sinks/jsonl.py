"""JSON lines: the stable form for programs (docs/json.md)."""

import json
from typing import Any, TextIO

import orjson

from sslsniff.decoders import content
from sslsniff.decoders.messages import (
    Frame,
    Header,
    Http2Totals,
    Side,
    StreamMessage,
    Undecoded,
)
from sslsniff.escaping import escape_json
from sslsniff.model import (
    Address,
    Body,
    Chunk,
    Connection,
    Direction,
    Exchange,
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

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class JsonSink(Sink):
    """Writes one object a line to ``stream``; ``chunks`` asks for raw plaintext too."""

    wants_bodies = True

    def __init__(self, stream: TextIO, *, chunks: bool = False, schema: Schema = no_schema) -> None:
        self._stream = stream
        self._chunks = chunks
        self._schema = schema
        self.wants_plaintext = chunks

    def opened(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._connection_event("opened", connection, time_ns)

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._connection_event("closed", connection, time_ns)

    def chunk(self, chunk: Chunk) -> None:
        """See ``Sink``."""
        if not self._chunks and not chunk.missing:
            return
        common = _common(chunk.connection, chunk.time_ns, chunk.tid)
        if chunk.missing and chunk.cause is not None:
            self._write(
                {"type": "loss", **common}
                | {"cause": chunk.cause.value, "events": 1, "bytes": chunk.missing}
            )
        if self._chunks:
            self._write(
                {"type": "chunk", **common}
                | {
                    "direction": chunk.direction.value,
                    "offset": chunk.offset,
                    "missing": chunk.missing,
                    "data": text.bytes_object(chunk.data, len(chunk.data)),
                }
            )

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        request, response = exchange.request, exchange.response
        self._write(
            {"type": "exchange", **_common(exchange.connection, exchange.started_ns, exchange.tid)}
            | {
                "duration_ms": _since(exchange.started_ns, exchange.ended_ns),
                "first_byte_ms": _since(exchange.started_ns, exchange.first_byte_ns),
                "protocol": exchange.protocol,
                "stream": exchange.stream,
                "request": _request(request) if request else None,
                "response": _response(response) if response else None,
                "informational": [_response(head) for head in exchange.informational],
                "missing_bytes": exchange.missing_bytes,
                "error": exchange.error,
            }
            | ({"warnings": exchange.warnings} if exchange.warnings else {})
            | call_object(exchange)
        )

    def frame(self, connection: Connection, frame: Frame, time_ns: int, tid: int) -> None:
        """See ``Sink``."""
        self._write(
            {"type": "frame", **_common(connection, time_ns, tid)}
            | {
                "direction": _direction(connection, frame.side),
                "stream": frame.stream,
                "frame": frame.type,
                "flags": frame.flags,
                "length": frame.length,
            }
            | {
                name: text.bytes_object(value, len(value)) if isinstance(value, bytes) else value
                for name, value in frame.details.items()
            }
        )

    def wait(self, connection: Connection, wait: Wait, time_ns: int) -> None:
        """See ``Sink``."""
        self._write(
            {"type": "wait", **_common(connection, time_ns, None)}
            | {
                "direction": _direction(connection, wait.side),
                "stream": wait.stream,
                "waited_ms": _since(wait.since_ns, time_ns),
                "over": wait.is_over,
            }
        )

    def frame_totals(self, connection: Connection, totals: Http2Totals, time_ns: int) -> None:
        """See ``Sink``."""
        for side in Side:
            self._write(
                {"type": "frame_totals", **_common(connection, time_ns, None)}
                | {
                    "direction": _direction(connection, side),
                    "streams": totals.streams[side],
                    "resets": totals.resets[side],
                    "header_table": totals.header_table[side],
                    "connection_window": totals.window[side],
                }
            )

    def message(
        self,
        connection: Connection,
        exchange: Exchange | None,
        message: StreamMessage,
        time_ns: int,
        tid: int,
    ) -> None:
        """See ``Sink``."""
        said = message_object(exchange, message, self._schema)
        whose = _common(connection, time_ns, tid)
        whose["direction"] = _direction(connection, message.side)
        self._write({"type": said.pop("type"), **whose, **said})

    def undecoded(self, connection: Connection, message: Undecoded, time_ns: int) -> None:
        """See ``Sink``."""
        self._write(
            {"type": "undecoded", **_common(connection, time_ns, None)}
            | {
                "direction": _direction(connection, message.side),
                "reason": message.reason,
                "data": text.bytes_object(message.data, message.size),
            }
        )

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
        self._write(
            {
                "type": "summary",
                "exchanges": summary.exchanges,
                "connections": summary.connections,
                "joined_connections": summary.joined,
                "bytes": summary.bytes,
                "lost_events": sum(loss.events for loss in summary.losses),
                "lost_bytes": sum(loss.bytes for loss in summary.losses),
                "duration_s": round(summary.duration_ns / 1e9, 6),
            }
            | ({} if summary.shown is None else {"shown": summary.shown})
            | ({} if summary.left_out is None else {"left_out_connections": summary.left_out})
        )

    def flush(self) -> None:
        """See ``Sink``."""
        self._stream.flush()

    def _connection_event(self, event: str, connection: Connection, time_ns: int) -> None:
        self._write(
            {"type": "connection", "event": event, **_common(connection, time_ns, None)}
            | {
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
        )

    def _write(self, line: Object) -> None:
        self._stream.write(_line(line))


def _line(line: Object) -> str:
    try:
        encoded = orjson.dumps(line).decode()
    except orjson.JSONEncodeError:  # lone surrogates, and numbers of more than 64 bits
        encoded = _ENCODER.encode(line)
    return escape_json(encoded) + "\n"


def _common(connection: Connection, time_ns: int, tid: int | None) -> Object:
    return {
        "time": text.utc_time(time_ns),
        **text.origin(connection, tid),
        "connection": connection.id,
        "client": _address(connection.client),
        "server": _address(connection.server),
    }


def _direction(connection: Connection, sender: Side) -> str:
    direction = Direction.WRITE if connection.role is sender else Direction.READ
    return direction.value


def _address(address: Address | None) -> Object | None:
    return address._asdict() if address else None


def _since(start_ns: int, end_ns: int | None) -> float | None:
    return None if end_ns is None else round((end_ns - start_ns) / 1e6, 3)


def _body(body: Body, headers: list[Header]) -> Object:
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
        "headers": request.headers,
        "body": _body(request.body, request.headers),
        "trailers": request.trailers,
    }


def _response(response: Response) -> Object:
    return {
        "status": response.status,
        "reason": response.reason,
        "headers": response.headers,
        "body": _body(response.body, response.headers),
        "trailers": response.trailers,
    }
