"""Rebuilds exchanges from the objects of ``--json``, for filters, HAR and others that take them."""

import base64
from datetime import datetime
from typing import Any

from sslsniff.decoders.inner.models.model_call import ModelCall
from sslsniff.decoders.messages import Header, Headers, Side
from sslsniff.model import (
    Address,
    Body,
    Connection,
    Container,
    Exchange,
    Process,
    Request,
    Response,
)
from sslsniff.sinks.statements import statement_of

Object = dict[str, Any]

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def nanoseconds(time: str) -> int:
    """Return nanoseconds since the epoch of an RFC 3339 time in UTC with microseconds."""
    since = datetime.fromisoformat(time) - _EPOCH
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1_000


def data_of(shown: Object) -> bytes:
    """Return the bytes of an object for bytes, as far as they are present."""
    if "base64" in shown:
        return base64.b64decode(shown["base64"])
    text: str = shown["text"]
    return text.encode("utf-8", "surrogatepass")


def headers_of(pairs: list[list[str | None]]) -> Headers:
    """Return headers as decoders have them."""
    return Headers((name, value) for name, value in pairs)


def exchange_of(shown: Object, sni: str | None = None) -> Exchange:
    """Return the exchange of an ``exchange`` object; ``sni`` is that of its connection.

    Not there: when the request was complete, and what ``Connection`` has beside addresses.
    """
    started_ns = nanoseconds(shown["time"])
    request, response = shown["request"], shown["response"]
    connection = _connection(shown, started_ns, sni)
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
    )
    carrier = exchange.response or exchange.request
    if carrier is not None:
        carrier.body.missing = shown["missing_bytes"]  # of which body is not said
    return exchange


def _connection(shown: Object, opened_ns: int, sni: str | None) -> Connection:
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
        # docs/json.md: a request without a scheme gets that of its connection in ``url``.
        tls=not ((shown["request"] or {}).get("url") or "").startswith("http://"),
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


def _pairs(shown: list[list[str | None]]) -> list[Header]:
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
