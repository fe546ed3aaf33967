"""The columns of a table of exchanges: a stable form (docs/parquet.md), flat where it can be."""

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from sslsniff.core.escaping import encodable
from sslsniff.core.model import Address, Exchange, Request, Response
from sslsniff.decoders.messages import Header, Headers, cached_in_headers
from sslsniff.forms.endings import failure
from sslsniff.forms.grpc_calls import call_of
from sslsniff.forms.model_calls import amount_of
from sslsniff.forms.text import pieces

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


class ColumnKind(Enum):
    """What the values of a column are. TIME: microseconds since the epoch, UTC."""

    TIME = "time"
    TEXT = "text"
    INTEGER = "integer of 64 bits"
    NUMBER = "number of 64 bits"
    FLAG = "true or false"
    TEXTS = "texts"
    HEADERS = "the values of each name"
    BYTES = "bytes"


_TEXT, _INTEGER, _NUMBER = ColumnKind.TEXT, ColumnKind.INTEGER, ColumnKind.NUMBER
_HEADERS = ColumnKind.HEADERS


class TableColumn(NamedTuple):
    """A column: its name, its kind, and what it has of an exchange; None if that is not known."""

    name: str
    kind: ColumnKind
    value: Callable[[Exchange], Any]


def exchange_columns(body_bytes: int) -> list[TableColumn]:
    """Return all columns, in order; of a body ``body_bytes`` are stored at most, 0: null."""
    return [
        TableColumn("time", ColumnKind.TIME, lambda shown: shown.started_ns // 1000 or None),
        TableColumn("duration_ms", _NUMBER, lambda shown: _since_start(shown, shown.ended_ns)),
        TableColumn(
            "first_byte_ms", _NUMBER, lambda shown: _since_start(shown, shown.first_byte_ns)
        ),
        TableColumn("pid", _INTEGER, lambda shown: shown.connection.process.pid or None),
        TableColumn("tid", _INTEGER, lambda shown: shown.tid or None),
        TableColumn("comm", _TEXT, lambda shown: _text(shown.connection.process.comm or None)),
        TableColumn("container", _TEXT, _container),
        TableColumn("unit", _TEXT, _unit),
        TableColumn("library", _TEXT, lambda shown: shown.connection.library),
        TableColumn("connection", _TEXT, lambda shown: shown.connection.id),
        TableColumn("role", _TEXT, _role),
        TableColumn("client_ip", _TEXT, lambda shown: _ip(shown.connection.client)),
        TableColumn("client_port", _INTEGER, lambda shown: _port(shown.connection.client)),
        TableColumn("server_ip", _TEXT, lambda shown: _ip(shown.connection.server)),
        TableColumn("server_port", _INTEGER, lambda shown: _port(shown.connection.server)),
        TableColumn("sni", _TEXT, lambda shown: _text(shown.connection.sni)),
        TableColumn("tls_version", _TEXT, lambda shown: shown.connection.tls_version),
        TableColumn("cipher", _TEXT, lambda shown: shown.connection.cipher),
        TableColumn("protocol", _TEXT, lambda shown: shown.protocol),
        TableColumn("stream", _INTEGER, lambda shown: shown.stream),
        TableColumn("method", _TEXT, _of_request(lambda request: _text(request.method))),
        TableColumn("host", _TEXT, _of_request(lambda request: _text(request.host))),
        TableColumn("path", _TEXT, _of_request(lambda request: _text(_path(request.target)))),
        TableColumn("url", _TEXT, _of_request(lambda request: _text(request.url))),
        TableColumn("status", _INTEGER, _of_response(lambda response: _integer(response.status))),
        TableColumn("request_bytes", _INTEGER, _of_request(lambda request: request.body.size)),
        TableColumn("response_bytes", _INTEGER, _of_response(lambda response: response.body.size)),
        TableColumn("missing_bytes", _INTEGER, lambda shown: shown.missing_bytes),
        TableColumn("error", _TEXT, lambda shown: _text(shown.error)),
        TableColumn("warnings", ColumnKind.TEXTS, lambda shown: [*map(_text, shown.warnings)]),
        TableColumn("truncated", ColumnKind.FLAG, lambda shown: shown.omitted is not None),
        TableColumn(
            "request_headers", _HEADERS, _of_request(lambda request: _headers(request.headers))
        ),
        TableColumn(
            "response_headers", _HEADERS, _of_response(lambda response: _headers(response.headers))
        ),
        TableColumn("response_trailers", _HEADERS, _of_response(lambda each: _map(each.trailers))),
        TableColumn("request_body", ColumnKind.BYTES, _body(_of_request, body_bytes)),
        TableColumn("response_body", ColumnKind.BYTES, _body(_of_response, body_bytes)),
        TableColumn("grpc_service", _TEXT, lambda shown: _of_call(shown, "service")),
        TableColumn("grpc_method", _TEXT, lambda shown: _of_call(shown, "method")),
        TableColumn("grpc_status", _INTEGER, _grpc_status),
        *(
            TableColumn(f"db_{name}", kind, _of_statement(name))
            for name, kind in (
                ("system", _TEXT),
                ("operation", _TEXT),
                ("text", _TEXT),
                ("rows", _INTEGER),
                ("affected", _INTEGER),
                ("code", _TEXT),
                ("database", _TEXT),
                ("user", _TEXT),
            )
        ),
        *(
            TableColumn(f"llm_{name}", _TEXT, _of_model_call(attribute))
            for name, attribute in (
                ("api", "api"),
                ("model", "model"),
                ("response_model", "answered_by"),
                ("finish_reason", "finish"),
            )
        ),
        TableColumn("llm_input_tokens", _INTEGER, _tokens("input")),
        TableColumn("llm_output_tokens", _INTEGER, _tokens("output")),
        TableColumn("machine", _TEXT, lambda shown: shown.connection.process.machine_name),
        TableColumn("place", _TEXT, lambda shown: shown.place),
        TableColumn("llm_cached_tokens", _INTEGER, _tokens("cached")),
        TableColumn("llm_cache_written_tokens", _INTEGER, _tokens("written")),
        TableColumn("llm_cost", _NUMBER, _cost),
        TableColumn("llm_currency", _TEXT, _currency),
        TableColumn("llm_run", _INTEGER, _of_run("run")),
        TableColumn("llm_run_position", _INTEGER, _of_run("position")),
        TableColumn("ending", _TEXT, _ending),
        TableColumn("db_prepared", _TEXT, _of_statement("prepared")),
        TableColumn("db_idle_ms", _NUMBER, _span_of_statement("idle_ns")),
        TableColumn("db_transaction_ms", _NUMBER, _span_of_statement("transaction_ns")),
        TableColumn("rpc_method", _TEXT, _of_rpc("method")),
        TableColumn("rpc_name", _TEXT, _of_rpc("name")),
        TableColumn("rpc_error", _TEXT, _of_rpc("error")),
        TableColumn("rpc_code", _INTEGER, _of_rpc("code")),
        TableColumn("redacted", ColumnKind.TEXTS, _redacted),
    ]


def _text(text: str | None) -> str | None:
    return None if text is None else encodable(text)


def _integer(number: int | None) -> int | None:
    """Return a number from the wire; None if it is too large for a column, such as MySQL's -1."""
    return number if number is not None and _LEAST <= number <= _MOST else None


def _since_start(shown: Exchange, end_ns: int | None) -> float | None:
    return pieces.milliseconds_between(shown.started_ns, end_ns)


def _container(shown: Exchange) -> str | None:
    container = shown.connection.process.container
    return _text(container.label) if container else None


def _unit(shown: Exchange) -> str | None:
    container = shown.connection.process.container
    return _text(container.unit) if container else None


def _role(shown: Exchange) -> str | None:
    role = shown.connection.role
    return role.value if role else None


def _ip(address: Address | None) -> str | None:
    return address.ip if address else None


def _port(address: Address | None) -> int | None:
    return address.port if address else None


def _path(target: str | None) -> str | None:
    return target.partition("?")[0] if target is not None else None


def _of_request(value: Callable[[Request], Any]) -> Callable[[Exchange], Any]:
    return lambda shown: value(shown.request) if shown.request is not None else None


def _of_response(value: Callable[[Response], Any]) -> Callable[[Exchange], Any]:
    return lambda shown: value(shown.response) if shown.response is not None else None


def _map(headers: list[Header]) -> list[tuple[str, list[str | None]]]:
    """Return the values of each name, in lower case: case has no meaning (RFC 9110 section 5.1)."""
    values: dict[str, list[str | None]] = {}
    for name, value in headers:
        values.setdefault(_text(name and name.lower()) or "?", []).append(_text(value))
    return [*values.items()]


@cached_in_headers
def _headers(headers: Headers) -> list[tuple[str, list[str | None]]]:
    return _map(headers)


def _body(
    of: Callable[[Callable[[Any], Any]], Callable[[Exchange], Any]], most: int
) -> Callable[[Exchange], Any]:
    return of(lambda message: message.body.data[:most]) if most else lambda shown: None


def _of_call(shown: Exchange, name: str) -> str | None:
    call = call_of(shown)
    return _text(getattr(call, name)) if call else None


def _grpc_status(shown: Exchange) -> int | None:
    call = call_of(shown)
    return call.status.code if call and call.status else None


def _of_statement(name: str) -> Callable[[Exchange], Any]:
    def value(shown: Exchange) -> Any:
        found = getattr(shown.statement, name, None)
        return _text(found) if isinstance(found, str) else _integer(found)

    return value


def _span_of_statement(name: str) -> Callable[[Exchange], Any]:
    def value(shown: Exchange) -> float | None:
        span_ns = getattr(shown.statement, name, None)
        return None if span_ns is None else pieces.milliseconds(span_ns)

    return value


def _of_rpc(name: str) -> Callable[[Exchange], Any]:
    def value(shown: Exchange) -> Any:
        found = getattr(shown.rpc, name, None)
        return _text(found) if isinstance(found, str) else _integer(found)

    return value


def _ending(shown: Exchange) -> str | None:
    return _text(failure(shown)) if shown.ending is not None else None


def _redacted(shown: Exchange) -> list[str | None]:
    return [_text(label) for label in dict.fromkeys(each.label for each in shown.redacted or ())]


def _of_model_call(name: str) -> Callable[[Exchange], Any]:
    return lambda shown: _text(getattr(shown.model_call, name, None))


def _cost(shown: Exchange) -> float | None:
    return amount_of(shown.model_call) if shown.model_call else None


def _currency(shown: Exchange) -> str | None:
    cost = shown.model_call.cost if shown.model_call else None
    return cost.currency if cost else None


def _of_run(name: str) -> Callable[[Exchange], Any]:
    return lambda shown: getattr(shown.model_call and shown.model_call.run, name, None)


def _tokens(name: str) -> Callable[[Exchange], Any]:
    def value(shown: Exchange) -> int | None:
        call = shown.model_call
        return _integer(getattr(call.usage, name)) if call else None

    return value
