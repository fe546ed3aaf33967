"""Writes JSON lines, the stable form for programs (docs/json.md)."""

import functools
from collections.abc import Callable
from typing import Any, BinaryIO

import orjson

from sslsniff.core.model import (
    Address,
    Chunk,
    Connection,
    Direction,
    Exchange,
    Handshake,
    InnerMessage,
    Request,
    Response,
)
from sslsniff.core.redacted import RedactedSecret
from sslsniff.core.rpc_calls import rpc_object
from sslsniff.core.sink import FlowControlStall
from sslsniff.core.statements import db_object
from sslsniff.core.tree_place import TreePlace
from sslsniff.decoders.content import codings
from sslsniff.decoders.messages import (
    SIDES,
    Frame,
    Headers,
    Http2Totals,
    Side,
    Undecoded,
    cached_in_headers,
)
from sslsniff.forms.endings import ending_object
from sslsniff.forms.grpc_calls import call_of
from sslsniff.forms.json.encoded_json import encoded_json
from sslsniff.forms.json.json_summary import JsonSummary
from sslsniff.forms.json.message_objects import call_object, message_object
from sslsniff.forms.model_calls import llm_object
from sslsniff.forms.proto_fields import Schema, no_schema
from sslsniff.forms.text import pieces
from sslsniff.forms.text.stall_text import stall_text

Object = dict[str, Any]

CallObjects = Callable[[Exchange], list[orjson.Fragment] | None]
"""Returns the calls that served an exchange, encoded."""

_NO_BODY = orjson.Fragment(b'{"size":0,"text":""}')

_Origin = tuple[tuple[object, ...], str, str]
"""The fields of a connection that all its lines have.

Those that may change, as values; then all, encoded: before the thread's id, and after it.
"""
_NO_ORIGIN: _Origin = ((), "", "")


class JsonSink(JsonSummary):
    """Writes one object a line to ``stream``; with ``chunks``, raw plaintext as well.

    ``stalls``: write flow-control stalls, which another sink may want without frames.
    ``calls_of``: returns the objects of the calls that served an exchange, None: they are not
    known. ``names_machine``: lines have the name
    of the machine also where it is this one. ``heads_only``: an exchange has no bodies but their
    sizes, no model call and no place in a tree.
    Memory: about a kilobyte for each open connection.
    """

    wants_bodies = True
    wants_messages = True

    def __init__(
        self,
        stream: BinaryIO,
        *,
        chunks: bool = False,
        stalls: bool = True,
        schema: Schema = no_schema,
        calls_of: CallObjects | None = None,
        names_machine: bool = False,
        heads_only: bool = False,
    ) -> None:
        super().__init__(stream)
        self._heads_only = heads_only
        self._names_machine = names_machine
        self._chunks = chunks
        self._stalls = stalls
        self._schema = schema
        self._calls_of = calls_of
        self._more_fields: Callable[[Exchange], Object] | None = None
        """Returns members of an exchange that only a subclass writes."""
        self.wants_plaintext = chunks
        self._origins: dict[str, _Origin] = {}

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
            fields: Object = {"cause": chunk.cause.value, "events": 1, "bytes": chunk.missing}
            self._write("loss", connection, time_ns, tid, fields)
        if self._chunks:
            fields = {
                "direction": chunk.direction.value,
                "offset": chunk.offset,
                "missing": chunk.missing,
                "data": pieces.bytes_object(chunk.data, len(chunk.data)),
            }
            self._write("chunk", connection, time_ns, tid, fields)

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        request, response = exchange.request, exchange.response
        has_all = not self._heads_only
        fields: Object = {
            "duration_ms": pieces.milliseconds_between(exchange.started_ns, exchange.ended_ns),
            "first_byte_ms": pieces.milliseconds_between(
                exchange.started_ns, exchange.first_byte_ns
            ),
            "protocol": exchange.protocol,
            "stream": exchange.stream,
            "request": _request(request, has_body=has_all) if request else None,
            "response": _response(response, has_body=has_all) if response else None,
            "informational": exchange.informational and [*map(_response, exchange.informational)],
            "missing_bytes": exchange.missing_bytes,
            "error": exchange.error,
        }
        if exchange.ending is not None:
            fields["ending"] = ending_object(exchange, exchange.ending)
        if exchange.place is not None:
            fields["place"] = exchange.place
        if has_all and exchange.tree is not None and exchange.tree.is_known:
            fields |= _tree_object(exchange.tree)
        if exchange.warnings:
            fields["warnings"] = exchange.warnings
        if exchange.redacted is not None:
            fields["redacted"] = [*map(_redacted, exchange.redacted.items())]
        if exchange.omitted is not None:
            fields |= {"truncated": True, "omitted": exchange.omitted._asdict()}
        call = call_of(exchange)
        if call is not None:
            fields["grpc"] = call_object(call)
        if has_all and exchange.model_call is not None:
            fields["llm"] = llm_object(exchange.model_call, exchange.started_ns)
        if exchange.statement is not None:
            fields["db"] = db_object(exchange.statement)
        if exchange.rpc is not None:
            fields["rpc"] = rpc_object(exchange.rpc)
        if self._calls_of is not None:
            fields["calls"] = self._calls_of(exchange)
        if self._more_fields is not None:
            fields |= self._more_fields(exchange)
        self._write("exchange", exchange.connection, exchange.started_ns, exchange.tid, fields)

    def handshake(self, handshake: Handshake) -> None:
        """See ``Sink``."""
        connection, facts, end = handshake.connection, handshake.facts, handshake.end
        fields: Object = {
            "duration_ms": pieces.milliseconds_between(handshake.began_ns, handshake.ended_ns),
            "failure": end.kind if end.is_failure else None,
            "text": end.text,
            "sent_alert": facts.sent_alert,
            "received_alert": facts.received_alert,
            "error": facts.error,
            "ending": facts.ending.name.lower(),
            "sni": connection.sni,
        }
        self._write("handshake", connection, handshake.began_ns, 0, fields)
        self._origins.pop(connection.id, None)

    def frame(self, connection: Connection, frame: Frame, time_ns: int, tid: int) -> None:
        """See ``Sink``."""
        fields = {
            "direction": _direction(connection, frame.side),
            "stream": frame.stream,
            "frame": frame.type,
            "flags": frame.flags,
            "length": frame.length,
        }
        for name, value in frame.details.items():
            is_raw = isinstance(value, bytes)
            fields[name] = pieces.bytes_object(value, len(value)) if is_raw else value
        self._write("frame", connection, time_ns, tid, fields)

    def stall(self, connection: Connection, stall: FlowControlStall, time_ns: int) -> None:
        """See ``Sink``."""
        if not self._stalls:
            return
        fields = {
            "direction": _direction(connection, stall.side),
            "stream": stall.stream,
            "waited_ms": pieces.milliseconds_between(stall.since_ns, time_ns),
            "over": stall.is_over,
            "text": stall_text(stall, time_ns),
        }
        if stall.use is not None:
            fields |= stall.use._asdict()
        fields["requests"] = {str(stream): name for stream, name in stall.requests.items()}
        self._write("wait", connection, time_ns, 0, fields)

    def frame_totals(self, connection: Connection, totals: Http2Totals, time_ns: int) -> None:
        """See ``Sink``."""
        for side in SIDES:
            fields = {
                "direction": _direction(connection, side),
                "streams": totals.streams[side],
                "resets": totals.resets[side],
                "header_table": totals.header_table[side],
                "connection_window": totals.window[side],
            }
            self._write("frame_totals", connection, time_ns, 0, fields)

    def message(self, inner: InnerMessage) -> None:
        """See ``Sink``."""
        fields = message_object(inner.exchange, inner.message, self._schema)
        kind = fields.pop("type")
        fields = {"direction": _direction(inner.connection, inner.message.side), **fields}
        self._write(kind, inner.connection, inner.time_ns, inner.tid, fields)

    def undecoded(self, connection: Connection, message: Undecoded, time_ns: int) -> None:
        """See ``Sink``."""
        fields = {
            "direction": _direction(connection, message.side),
            "reason": message.reason,
            "data": pieces.bytes_object(message.data, message.size),
        }
        self._write("undecoded", connection, time_ns, 0, fields)

    def _connection_event(self, event: str, connection: Connection, time_ns: int) -> None:
        fields = {
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
        if connection.left_out:
            fields["left_out"] = True
        if connection.evictions:
            fields["evictions"] = connection.evictions
        self._write("connection", connection, time_ns, 0, fields, event)

    def _write(
        self,
        kind: str,
        connection: Connection,
        time_ns: int,
        tid: int,
        fields: Object,
        event: str | None = None,
    ) -> None:
        """Write a line of type ``kind``: the connection's fields, encoded once, then ``fields``."""
        known = changing_fields(connection)
        before, process, rest = self._origins.get(connection.id, _NO_ORIGIN)
        if before != known:
            process, rest = _origin(connection, names_machine=self._names_machine)
            self._origins[connection.id] = known, process, rest
        named = f'"{kind}"' if event is None else f'"{kind}","event":"{event}"'
        # Packets without a time have 0.
        time = f'"{pieces.utc_time(time_ns)}"' if time_ns else "null"
        start = f'{{"type":{named},"time":{time},{process}"tid":{tid or "null"},{rest},'
        self._stream.write(start.encode() + encoded_json(fields)[1:] + b"\n")


@functools.lru_cache(maxsize=1024)
def _redacted(counted: tuple[RedactedSecret, int]) -> orjson.Fragment:
    """Return a secret that was blanked, encoded; most are written again and again."""
    secret, count = counted
    return orjson.Fragment(encoded_json({**secret._asdict(), "count": count}))


def changing_fields(connection: Connection) -> tuple[object, ...]:
    """Return the fields of a connection that its lines have and that may change."""
    return connection.role, connection.local, connection.remote


def _origin(connection: Connection, *, names_machine: bool) -> tuple[str, str]:
    """Return a connection's fields, encoded: those before the thread's id, and those after it."""
    origin = pieces.origin(connection, None)
    if names_machine:
        origin["machine"] = connection.process.machine_name
    process = {"pid": origin.pop("pid")}
    del origin["tid"]
    rest = {
        **origin,
        "connection": connection.id,
        "client": _address(connection.client),
        "server": _address(connection.server),
    }
    if connection.peer is not None:
        rest["peer"] = connection.peer._asdict()
    return _members(process) + ",", _members(rest)


def _members(fields: Object) -> str:
    return encoded_json(fields).decode()[1:-1]


def _tree_object(place: TreePlace) -> Object:
    found: Object = {"id": place.id, "parent": place.parent}
    if place.evidence is not None:
        found["evidence"] = place.evidence
    return found


def _direction(connection: Connection, sender: Side) -> str:
    direction = Direction.WRITE if connection.role is sender else Direction.READ
    return direction.value


def _address(address: Address | None) -> Object | None:
    return {"ip": address.ip, "port": address.port} if address else None


@cached_in_headers
def shown_headers(headers: Headers) -> tuple[orjson.Fragment | Headers, bool]:
    """Return headers for a line, and whether they say that the body has a content coding.

    The headers are encoded already, unless they have lone surrogates. The result is a copy: what
    orjson returns takes 4 KiB of memory, however short it is.
    """
    is_coded = bool(codings.codings(headers))
    try:
        return orjson.Fragment(memoryview(orjson.dumps(headers)).tobytes()), is_coded
    except orjson.JSONEncodeError:
        return headers, is_coded


def _body(data: bytes, size: int, headers: Headers, is_coded: bool) -> Object | orjson.Fragment:
    if not (is_coded or size or data):
        return _NO_BODY
    fields = pieces.bytes_object(data, size)
    if is_coded:
        decoded = codings.decode(data, headers)
        if decoded.data or decoded.error is None:
            shown = fields["decoded"] = pieces.bytes_object(decoded.data, len(decoded.data))
            if not decoded.complete:
                shown["truncated"] = True
    return fields


def _request(request: Request, *, has_body: bool) -> Object:
    headers, body = request.headers, request.body
    shown, is_coded = shown_headers(headers)
    return {
        "method": request.method,
        "scheme": request.scheme,
        "authority": request.authority,
        "target": request.target,
        "url": request.url,
        "headers": shown,
        "body": _body(body.data if has_body else b"", body.size, headers, is_coded),
        "trailers": request.trailers,
    }


def _response(response: Response, *, has_body: bool = True) -> Object:
    headers, body = response.headers, response.body
    shown, is_coded = shown_headers(headers)
    return {
        "status": response.status,
        "reason": response.reason,
        "headers": shown,
        "body": _body(body.data if has_body else b"", body.size, headers, is_coded),
        "trailers": response.trailers,
    }
