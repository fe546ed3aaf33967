"""The attributes of an exchange in OpenTelemetry's semantic conventions 1.44, a row for each.

Names of others are from the packages of the conventions (docs/otlp.md); ours begin with
``sslsniff.``.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from sslsniff.core.escaping import encodable
from sslsniff.core.model import Address, Exchange, Request, Response
from sslsniff.core.process import Process
from sslsniff.core.statements import without_literals
from sslsniff.decoders.messages import Side
from sslsniff.forms.endings import failure
from sslsniff.forms.grpc_calls import call_of
from sslsniff.statistics.path_patterns import path_pattern

Value = str | int | bool | list[str]
_Of = Callable[[Exchange], Value | None]

# Other methods are "_OTHER": the name of a span or a metric must not be up to who asks.
_METHODS = frozenset(
    ("CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE")
)
_VERSIONS = {"http/1.0": "1.0", "http/1.1": "1.1", "http/2": "2"}
_PORTS = {"https": 443, "http": 80}
_INTEGERS = range(-(1 << 63), 1 << 63)
"""What a number may be: others from the wire, such as MySQL's 2^64 - 1, are left out."""
_MOST_CHARACTERS = 4096
_MOST_STATEMENT_CHARACTERS = 2000


class Attribute(NamedTuple):
    """``value`` returns the value for an exchange; None: it has none."""

    name: str
    value: _Of


def attributes_of(exchange: Exchange) -> dict[str, Value]:
    """Return the attributes of the span of an exchange."""
    rows: tuple[Attribute, ...] = _COMMON
    if exchange.statement is not None:
        rows += _STATEMENT
    else:
        rows += _CALL + (_HTTP if exchange.rpc is None else _JSON_RPC)
    if exchange.model_call is not None:
        rows += _MODEL_CALL
    return _sendable((row.name, row.value(exchange)) for row in rows)


def resource_attributes(process: Process) -> dict[str, Value]:
    """Return the attributes of a watched process as a resource."""
    container = process.container
    found: dict[str, Value | None] = {
        "service.name": process.comm or "unknown_service",
        "process.pid": process.pid or None,
        "process.executable.name": process.comm or None,
        "container.id": container.id if container else None,
        "container.name": container.name if container else None,
        "container.runtime.name": container.runtime if container else None,
        "k8s.namespace.name": container.namespace if container else None,
        "k8s.pod.name": container.pod if container else None,
        "k8s.pod.uid": container.pod_uid if container else None,
        "sslsniff.unit": container.unit if container else None,
    }
    return _sendable(found.items())


def span_name(exchange: Exchange) -> str:
    """Return a name of few different ones, as the conventions ask for."""
    return sendable_text(_name(exchange))


def sendable_text(text: str) -> str:
    """Return ``text`` as Protobuf can have it, cut if it is long.

    One text that cannot be encoded would keep the whole batch of its span from being sent.
    """
    return encodable(text)[:_MOST_CHARACTERS]


def _name(exchange: Exchange) -> str:
    statement, model_call, rpc = exchange.statement, exchange.model_call, exchange.rpc
    if rpc is not None:
        return " ".join(filter(None, (rpc.method, _called_tool(exchange))))
    if statement is not None:
        return " ".join(filter(None, (statement.operation, statement.database))) or statement.system
    if model_call is not None and model_call.method is None:
        return f"chat {model_call.model}" if model_call.model else "chat"
    call = call_of(exchange)
    if call is not None and call.service:
        return f"{call.service}/{call.method}"
    method = _method(exchange)
    return "HTTP" if method in {None, "_OTHER"} else str(method)


def error_type(exchange: Exchange) -> str | None:
    """Return the class of an error; None if there is none.

    For a server, 4xx is none: the client is to blame ("Status" in the conventions for HTTP spans).
    """
    statement, call, response = exchange.statement, call_of(exchange), exchange.response
    if exchange.error is not None:
        return exchange.error.partition(":")[0]
    if statement is not None and statement.error is not None:
        return statement.code or "error"
    if exchange.rpc is not None and exchange.rpc.error is not None:
        return "tool_error" if exchange.rpc.code is None else str(exchange.rpc.code)
    if call is not None and call.status is not None and call.status.code:
        return call.status.name
    least = 500 if exchange.connection.role is Side.SERVER else 400
    if response is not None and response.status is not None and response.status >= least:
        return str(response.status)
    return None


def _method(exchange: Exchange) -> str | None:
    method = exchange.request.method if exchange.request else None
    return method if method is None or method in _METHODS else "_OTHER"


def _original_method(exchange: Exchange) -> str | None:
    method = exchange.request.method if exchange.request else None
    return None if method in _METHODS else method


def _status(exchange: Exchange) -> int | None:
    return exchange.response.status if exchange.response is not None else None


def _body_size(message: Request | Response | None) -> int | None:
    return message.body.size if message is not None else None


def _scheme(exchange: Exchange) -> str | None:
    request = exchange.request
    return (request.scheme or request.default_scheme) if request is not None else None


def _full_url(exchange: Exchange) -> str | None:
    """Return the URL; none of a request of a server as a whole, or of CONNECT: see its target."""
    if exchange.request is None or exchange.connection.role is Side.SERVER:
        return None
    url = exchange.request.url
    return url if "://" in url else None


def _path(exchange: Exchange) -> str | None:
    target = exchange.request.target if exchange.request else None
    return target.partition("?")[0] if target and target.startswith("/") else None


def _query(exchange: Exchange) -> str | None:
    target = exchange.request.target if exchange.request else None
    return (target.partition("?")[2] or None) if target and target.startswith("/") else None


def _template(exchange: Exchange) -> str | None:
    return path_pattern(exchange.request.target) if exchange.request else None


def _server_address(exchange: Exchange) -> str | None:
    host = exchange.request.host if exchange.request else None
    return host or exchange.connection.sni or _ip(exchange.connection.server)


def _server_port(exchange: Exchange) -> int | None:
    sent = exchange.request.host_and_port if exchange.request else None
    port = sent.rpartition("]")[2].rpartition(":")[2] if sent and ":" in sent else ""
    if port.isdecimal() and len(port) <= 5:
        return int(port)
    if sent:
        return _PORTS.get(_scheme(exchange) or "")
    return _port(exchange.connection.server)


def _ip(address: Address | None) -> str | None:
    return address.ip if address else None


def _port(address: Address | None) -> int | None:
    return address.port if address else None


def _network_type(exchange: Exchange) -> str | None:
    ip = _ip(exchange.connection.local)
    return None if ip is None else "ipv6" if ":" in ip else "ipv4"


def _protocol_name(exchange: Exchange) -> str | None:
    return "http" if exchange.protocol in _VERSIONS else exchange.protocol


def _tls_version(exchange: Exchange) -> str | None:
    version = exchange.connection.tls_version
    return version.removeprefix("TLS").lstrip(" v") if version else None


def _user_agent(exchange: Exchange) -> str | None:
    return exchange.request.headers.first("user-agent") if exchange.request else None


def _rpc_system(exchange: Exchange) -> str | None:
    if exchange.rpc is not None:
        return "jsonrpc"
    return "grpc" if call_of(exchange) else None


def _rpc_method(exchange: Exchange) -> str | None:
    if exchange.rpc is not None:
        return exchange.rpc.method
    call = call_of(exchange)
    return f"{call.service}/{call.method}" if call and call.service else None


def _rpc_status(exchange: Exchange) -> str | None:
    if exchange.rpc is not None:
        return _text(exchange.rpc.code)
    call = call_of(exchange)
    return call.status.name if call and call.status else None


def _query_text(exchange: Exchange) -> str | None:
    statement = exchange.statement
    if statement is None or statement.text is None:
        return None
    return without_literals(statement)[:_MOST_STATEMENT_CHARACTERS]


def _of_statement(name: str) -> _Of:
    return lambda exchange: getattr(exchange.statement, name)


def _microseconds_of_statement(name: str) -> _Of:
    def value(exchange: Exchange) -> int | None:
        span_ns: int | None = getattr(exchange.statement, name)
        return None if span_ns is None else span_ns // 1000

    return value


def _redacted(exchange: Exchange) -> list[str] | None:
    return [*dict.fromkeys(each.label for each in exchange.redacted or ())] or None


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _request_id(exchange: Exchange) -> str | None:
    return _text(exchange.rpc.id) if exchange.rpc is not None else None


def _called_tool(exchange: Exchange) -> str | None:
    rpc = exchange.rpc
    return rpc.name if rpc is not None and rpc.method == "tools/call" else None


def _of_model_call(name: str) -> _Of:
    return lambda exchange: getattr(exchange.model_call, name)


def _operation(exchange: Exchange) -> str | None:
    call = exchange.model_call
    return "chat" if call is not None and call.method is None else None


def _finish_reasons(exchange: Exchange) -> list[str] | None:
    call = exchange.model_call
    return [call.finish] if call is not None and call.finish else None


def _tokens(name: str) -> _Of:
    def value(exchange: Exchange) -> int | None:
        call = exchange.model_call
        found: int | None = getattr(call.usage, name) if call else None
        return found

    return value


def _sendable(values: Iterable[tuple[str, Value | None]]) -> dict[str, Value]:
    """Return the values that are known and can be sent: see ``sendable_text``."""
    found: dict[str, Value] = {}
    for name, value in values:
        if isinstance(value, str):
            found[name] = sendable_text(value)
        elif isinstance(value, list):
            found[name] = [sendable_text(each) for each in value]
        elif value is not None and value in _INTEGERS:
            found[name] = value
    return found


_COMMON = (
    Attribute("network.protocol.name", _protocol_name),
    Attribute("network.protocol.version", lambda shown: _VERSIONS.get(shown.protocol)),
    Attribute(
        "network.transport", lambda shown: "tcp" if shown.connection.peer is None else "pipe"
    ),
    Attribute("network.type", _network_type),
    Attribute("network.local.address", lambda shown: _ip(shown.connection.local)),
    Attribute("network.local.port", lambda shown: _port(shown.connection.local)),
    Attribute("network.peer.address", lambda shown: _ip(shown.connection.remote)),
    Attribute("network.peer.port", lambda shown: _port(shown.connection.remote)),
    Attribute("server.address", _server_address),
    Attribute("server.port", _server_port),
    Attribute("client.address", lambda shown: _ip(shown.connection.client)),
    Attribute("client.port", lambda shown: _port(shown.connection.client)),
    Attribute("tls.established", lambda shown: shown.connection.tls or None),
    Attribute("tls.protocol.name", lambda shown: "tls" if shown.connection.tls else None),
    Attribute("tls.protocol.version", _tls_version),
    Attribute("tls.cipher", lambda shown: shown.connection.cipher),
    Attribute("tls.next_protocol", lambda shown: shown.connection.alpn),
    Attribute("error.type", error_type),
    Attribute("thread.id", lambda shown: shown.tid or None),
    Attribute("sslsniff.library", lambda shown: shown.connection.library),
    Attribute("sslsniff.connection", lambda shown: shown.connection.id),
    Attribute("sslsniff.stream", lambda shown: shown.stream),
    Attribute("sslsniff.place", lambda shown: shown.place),
    Attribute("sslsniff.missing_bytes", lambda shown: shown.missing_bytes or None),
    Attribute("sslsniff.warnings", lambda shown: shown.warnings or None),
    Attribute("sslsniff.ending", lambda shown: failure(shown) if shown.ending else None),
    Attribute("sslsniff.redacted", _redacted),
)
_HTTP = (
    Attribute("http.request.method", _method),
    Attribute("http.request.method_original", _original_method),
    Attribute("http.response.status_code", _status),
    Attribute("http.request.body.size", lambda shown: _body_size(shown.request)),
    Attribute("http.response.body.size", lambda shown: _body_size(shown.response)),
    Attribute("url.full", _full_url),
    Attribute("url.scheme", _scheme),
    Attribute("url.path", _path),
    Attribute("url.query", _query),
    Attribute("url.template", _template),
    Attribute("user_agent.original", _user_agent),
)
_CALL = (
    Attribute("rpc.system.name", _rpc_system),
    Attribute("rpc.method", _rpc_method),
    Attribute("rpc.response.status_code", _rpc_status),
)
_JSON_RPC = (
    Attribute("jsonrpc.request.id", _request_id),
    Attribute("gen_ai.tool.name", _called_tool),
)
_STATEMENT = (
    Attribute("db.system.name", _of_statement("system")),
    Attribute("db.namespace", _of_statement("database")),
    Attribute("db.operation.name", _of_statement("operation")),
    Attribute("db.query.text", _query_text),
    Attribute("db.response.status_code", _of_statement("code")),
    Attribute("db.response.returned_rows", _of_statement("rows")),
    Attribute("sslsniff.transaction_idle_us", _microseconds_of_statement("idle_ns")),
    Attribute("sslsniff.transaction_us", _microseconds_of_statement("transaction_ns")),
)
_MODEL_CALL = (
    Attribute("gen_ai.operation.name", _operation),
    Attribute("gen_ai.provider.name", _of_model_call("provider")),
    Attribute("gen_ai.request.model", _of_model_call("model")),
    Attribute("gen_ai.response.model", _of_model_call("answered_by")),
    Attribute("gen_ai.response.finish_reasons", _finish_reasons),
    Attribute("gen_ai.usage.input_tokens", _tokens("input")),
    Attribute("gen_ai.usage.output_tokens", _tokens("output")),
    Attribute("gen_ai.usage.cache_read.input_tokens", _tokens("cached")),
    Attribute("gen_ai.usage.cache_creation.input_tokens", _tokens("written")),
    Attribute("mcp.method.name", _of_model_call("method")),
)
NAMES = tuple(
    row.name for rows in (_COMMON, _CALL, _HTTP, _JSON_RPC, _STATEMENT, _MODEL_CALL) for row in rows
)
"""All names, for tests."""
