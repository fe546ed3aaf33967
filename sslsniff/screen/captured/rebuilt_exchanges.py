"""Rebuilds exchanges and frames from their stored lines.

The store has the line that the capture wrote of each: a JSON line or a short one.
"""

import base64
import io
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import orjson

from sslsniff.core.model import Address, Body, Connection, Exchange, Request, Response
from sslsniff.core.process import Container, Process
from sslsniff.core.redacted import counts_of
from sslsniff.core.rpc_calls import rpc_of
from sslsniff.core.statements import statement_of
from sslsniff.decoders.inner.models.model_call import ModelCall
from sslsniff.decoders.messages import Frame, Header, Headers, Side
from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.forms.json.short_lines import (
    IS_EXCHANGE,
    IS_FRAME,
    SENT_MS,
    ShortExchange,
    ShortFrame,
    ShortRequest,
    ShortResponse,
    bodies_of,
)

Object = dict[str, Any]

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def nanoseconds(time: str | None) -> int:
    """Return nanoseconds since the epoch of an RFC 3339 time in UTC with microseconds.

    0 if it is not known: null in JSON lines, empty in rows of lists.
    """
    if not time:
        return 0
    since = datetime.fromisoformat(time) - _EPOCH
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1_000


def data_of(shown: Object) -> bytes:
    """Return the bytes of an object for bytes, as far as they are present."""
    if "base64" in shown:
        return base64.b64decode(shown["base64"])
    text: str = shown["text"]
    return text.encode("utf-8", "surrogatepass")


def headers_of(pairs: Iterable[Iterable[str | None]]) -> Headers:
    """Return headers as decoders have them."""
    return Headers((name, value) for name, value in pairs)


def exchange_of_line(line: bytes, origin: Object, sni: str | None = None) -> Exchange:
    """Return the exchange of a line; ``origin``: an ``origin`` object of its connection."""
    if not line.startswith(IS_EXCHANGE):
        return exchange_of(orjson.loads(line), sni)
    short = ShortExchange.parse(line)
    sent, received = bodies_of(line, short)
    connection = _connection(origin, short.started_ns, sni, origin["tls"])
    return Exchange(
        connection=connection,
        protocol=short.protocol,
        stream=short.stream,
        tid=short.tid,
        started_ns=short.started_ns,
        sent_ns=short.sent_ns,
        first_byte_ns=short.first_byte_ns,
        ended_ns=short.ended_ns,
        request=short.request and _short_request(short.request, sent, connection.scheme),
        response=short.response and _short_response(short.response, received),
        error=short.error,
        warnings=short.warnings,
    )


def object_of_line(line: bytes, origin: Object) -> Object:
    """Return the object of docs/json.md for the line of an exchange."""
    if line.startswith(IS_EXCHANGE):
        exchange = exchange_of_line(line, origin)
        return _shown(lambda sink: sink.exchange(exchange))
    shown: Object = orjson.loads(line)
    shown.pop(SENT_MS, None)
    return shown


def frame_objects(lines: Iterable[bytes], origin: Object, stream: int | None) -> list[Object]:
    """Return the objects of docs/json.md for the lines of frames of one connection.

    ``stream``: only the frames of this one, and those of the connection (stream 0); None: all.
    """
    streams = None if stream is None else (0, stream)
    found = (_frame_object(line, origin, streams) for line in lines)
    return [each for each in found if each is not None]


def _frame_object(line: bytes, origin: Object, streams: tuple[int, int] | None) -> Object | None:
    """Return the object of a frame; None if it is of none of the ``streams``."""
    if not line.startswith(IS_FRAME):
        shown: Object = orjson.loads(line)
        return shown if streams is None or shown["stream"] in streams else None
    short = ShortFrame.parse(line)
    if streams is not None and short.stream not in streams:
        return None
    frame = Frame(
        short.stream, Side(short.side), short.type, short.flags, short.length, short.details
    )
    connection = _connection(origin, short.time_ns, None, origin["tls"])
    return _shown(lambda sink: sink.frame(connection, frame, short.time_ns, short.tid))


def _shown(write: Callable[[JsonSink], None]) -> Object:
    """Return the object that a sink writes."""
    written = io.BytesIO()
    write(JsonSink(written))
    shown: Object = orjson.loads(written.getvalue())
    return shown


def exchange_of(shown: Object, sni: str | None = None) -> Exchange:
    """Return the exchange of an ``exchange`` object; ``sni`` is that of its connection.

    Not there: when the request was complete, and what ``Connection`` has beside addresses.
    """
    started_ns = nanoseconds(shown["time"])
    request, response = shown["request"], shown["response"]
    # docs/json.md: a request without a scheme gets that of its connection in ``url``.
    is_tls = not ((request or {}).get("url") or "").startswith("http://")
    connection = _connection(shown, started_ns, sni, is_tls)
    exchange = Exchange(
        connection=connection,
        protocol=shown["protocol"],
        stream=shown["stream"],
        tid=shown["tid"] or 0,
        started_ns=started_ns,
        first_byte_ns=_after(started_ns, shown["first_byte_ms"]),
        ended_ns=_after(started_ns, shown["duration_ms"]),
        request=request and _request(request, connection.scheme),
        response=response and _response(response),
        informational=[_response(each) for each in shown["informational"]],
        error=shown["error"],
        warnings=shown.get("warnings", []),
        model_call=_model_call(shown["llm"]) if "llm" in shown else None,
        statement=statement_of(shown["db"]) if "db" in shown else None,
        rpc=rpc_of(shown["rpc"], shown["protocol"]) if "rpc" in shown else None,
        redacted=counts_of(shown["redacted"]) if "redacted" in shown else None,
    )
    carrier = exchange.response or exchange.request
    if carrier is not None:
        carrier.body.missing = shown["missing_bytes"]  # of which body is not said
    return exchange


def _connection(shown: Object, opened_ns: int, sni: str | None, is_tls: bool) -> Connection:
    client, server = map(_address, (shown["client"], shown["server"]))
    role = Side(shown["role"]) if shown["role"] else None
    ends = (server, client) if role is Side.SERVER else (client, server)
    container = shown["container"]
    process = Process(
        shown["pid"] or 0,
        shown["comm"] or "",
        container=Container(**container) if container else None,
        container_pid=shown["container_pid"],
    )
    return Connection(
        id=shown["connection"],
        process=process,
        library=shown["library"],
        role=role,
        from_start=True,
        opened_ns=opened_ns,
        local=ends[0],
        remote=ends[1],
        sni=sni or None,
        tls=is_tls,
    )


def _request(shown: Object, scheme: str) -> Request:
    return Request(
        method=shown["method"],
        target=shown["target"],
        scheme=shown["scheme"],
        authority=shown["authority"],
        headers=headers_of(shown["headers"]),
        body=_body(shown["body"]),
        trailers=_pairs(shown["trailers"]),
        default_scheme=scheme,
    )


def _response(shown: Object) -> Response:
    return Response(
        status=shown["status"],
        reason=shown["reason"],
        headers=headers_of(shown["headers"]),
        body=_body(shown["body"]),
        trailers=_pairs(shown["trailers"]),
    )


def _short_request(short: ShortRequest, data: bytes, scheme: str) -> Request:
    return Request(
        method=short.method,
        target=short.target,
        scheme=short.scheme,
        authority=short.authority,
        headers=headers_of(short.headers),
        body=Body(short.size, data, short.missing),
        trailers=_pairs(short.trailers),
        default_scheme=scheme,
    )


def _short_response(short: ShortResponse, data: bytes) -> Response:
    return Response(
        status=short.status,
        reason=short.reason,
        headers=headers_of(short.headers),
        body=Body(short.size, data, short.missing),
        trailers=_pairs(short.trailers),
    )


def _pairs(shown: Iterable[Iterable[str | None]]) -> list[Header]:
    return [(name, value) for name, value in shown]


def _body(shown: Object) -> Body:
    return Body(shown["size"], data_of(shown))


def _address(shown: Object | None) -> Address | None:
    return Address(shown["ip"], shown["port"]) if shown else None


def _after(started_ns: int, span_ms: float | None) -> int | None:
    return None if span_ms is None else started_ns + round(span_ms * 1_000) * 1_000


def _model_call(shown: Object) -> ModelCall:
    """Return a model call with what filters test."""
    call = ModelCall(
        shown["api"], shown["provider"], model=shown["model"], answered_by=shown["response_model"]
    )
    for each in shown["tool_calls"]:
        call.add_tool_call(None, each["id"], each["name"], each["arguments"])
    return call
