"""The figures of one exchange, from the exchange itself or from its JSON line."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from sslsniff.core import rpc_calls
from sslsniff.core.model import TLS_PROTOCOL, Address, Connection, Exchange, Peer
from sslsniff.core.redacted import Counts, counts_of, labels
from sslsniff.core.sink import CAPTURE_ENDED
from sslsniff.core.statements import (
    method_of,
    operation_of,
    shown_statement,
    statement_of,
    status_of,
    without_literals,
)
from sslsniff.decoders.databases.statement import Statement
from sslsniff.decoders.json_rpc.rpc_call import RpcCall
from sslsniff.decoders.messages import Side
from sslsniff.forms.grpc_calls import call_of
from sslsniff.forms.text import pieces
from sslsniff.statistics.model_totals import CallFigures
from sslsniff.statistics.path_patterns import path_pattern, raw_path, shortened

if TYPE_CHECKING:
    from sslsniff.forms.json.short_lines import ShortExchange

_MOST_CHARACTERS = 100
"""The length to which texts from the wire are cut; a host has 253 at most (RFC 1035)."""
_MOST_HOST_CHARACTERS = 260
_MOST_SECRETS = 3

_END_NOT_SEEN = (CAPTURE_ENDED, "evicted: ", "over ")
"""How the errors of exchanges begin whose end was not seen: they lasted longer than is known."""

NO_STATUS = "none"
"""The class of exchanges without a status: without a response, or with one that was not seen."""

_ROLES: dict[Side | None, str | None] = {None: None, **{side: side.value for side in Side}}
"""Looking up the value of a member of an enum takes time."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Outcome(NamedTuple):
    """The figures of one exchange. None: not known, or there is none. Texts are not escaped.

    Times are nanoseconds, in whole microseconds, as JSON lines have them.

    ``time_ns``: when it began, since the epoch.
    ``duration_ns``, ``first_byte_ns``: time to its end, and to the response's beginning. None
    if the request was not seen, the end was not seen, or the clock went back.
    ``host``: host and port as sent, in lower case; if no host was sent, the server's address and
    port. ``path``: see ``path_pattern``. ``comm``, ``pid``: the watched process.
    ``status``: of the response; of a statement to a database see ``status_of``.
    ``request_bytes``, ``response_bytes``: bodies as sent. ``missing_bytes``: those not captured.
    ``error``: why it ended early, else the status of a failed gRPC call, or a model's error.
    ``is_open``: it had not ended when the capture did. That is no error.
    ``run``: the number of the run of an agent that a model call is part of.
    ``model``: the one that answered, else the one that was asked for. ``call``: the figures of
    a model call; None of others, also of those by MCP.
    ``role``: the side of the watched process. ``server``: the server's address and port. ``sni``:
    the server's name in the handshake. ``raw_path``: the path without the query, ids in it, or a
    statement with its parameters.
    the server's name in the handshake.
    ``secret``: the secrets in it that were blanked, by name and fingerprint: those that the user's
    own patterns found, else all.
    """

    time_ns: int
    duration_ns: int | None
    first_byte_ns: int | None
    host: str | None
    path: str
    method: str | None
    status: int | str | None
    protocol: str
    comm: str | None
    pid: int | None
    request_bytes: int
    response_bytes: int
    missing_bytes: int
    error: str | None
    is_open: bool = False
    model: str | None = None
    call: CallFigures | None = None
    run: int | None = None
    role: str | None = None
    server: str | None = None
    sni: str | None = None
    raw_path: str | None = None
    secret: str | None = None

    @property
    def is_failed(self) -> bool:
        """Whether it counts as an error: it has one, or a status of 400 or more."""
        return self.error is not None or (isinstance(self.status, int) and self.status >= 400)

    @property
    def status_class(self) -> str:
        """The class of its status, such as ``2xx``; a statement's status; ``NO_STATUS``."""
        if isinstance(self.status, int):
            return f"{self.status // 100}xx"
        return self.status or NO_STATUS

    @classmethod
    def of(cls, exchange: Exchange) -> Self:
        """Return the figures of an exchange that ended."""
        request, response = exchange.request, exchange.response
        connection = exchange.connection
        process, server = connection.process, _server(connection)
        comm = process.comm if process.is_known else None
        target = request.target if request is not None else None
        error, call, grpc = exchange.error, exchange.model_call, call_of(exchange)
        statement, rpc = exchange.statement, exchange.rpc
        is_begun = request is not None or statement is not None or rpc is not None
        start_ns = exchange.started_ns if is_begun else None
        end_ns = None if _is_unfinished(error) else exchange.ended_ns
        grpc_status = grpc.status if grpc else None
        status: int | str | None = response.status if response else None
        if statement is not None:
            is_answered = exchange.first_byte_ns is not None
            status = status_of(statement, error, is_answered=is_answered)
        if rpc is not None:
            is_answered = exchange.first_byte_ns is not None
            status = rpc_calls.status_of(rpc, error, is_answered=is_answered)
        return cls(
            time_ns=exchange.started_ns // 1000 * 1000,
            duration_ns=pieces.rounded_span_ns(start_ns, end_ns),
            first_byte_ns=pieces.rounded_span_ns(start_ns, exchange.first_byte_ns),
            host=_host(request.host_and_port if request else None) or server,
            path=_pattern(statement, rpc, comm, server) or _path(target, exchange.protocol),
            method=_cut(method_of(exchange)),
            status=status,
            protocol=exchange.protocol[:_MOST_CHARACTERS],
            comm=comm,
            pid=process.pid if process.is_known else None,
            request_bytes=request.body.size if request else _asked_bytes(rpc),
            response_bytes=response.body.size if response else _answered_bytes(rpc),
            missing_bytes=exchange.missing_bytes,
            error=_error(
                error,
                grpc_status.name if grpc_status and grpc_status.code else None,
                (rpc and rpc_calls.failure(rpc))
                or (call and call.error)
                or (statement and statement.error)
                or None,
            ),
            is_open=error == CAPTURE_ENDED,
            model=_cut((call.answered_by or call.model) if call else None),
            call=CallFigures.of(call) if call and call.method is None else None,
            run=call.run.run if call and call.run else None,
            role=_ROLES[connection.role],
            server=server,
            sni=_cut_host(connection.sni),
            raw_path=_raw_path(target, statement),
            secret=_secrets(exchange.redacted) if exchange.redacted else None,
        )

    @classmethod
    def of_short(
        cls, line: "ShortExchange", origin: dict[str, Any], sni: str | None = None
    ) -> Self:
        """Return the same from a short line; ``origin``: an object of its connection."""
        request, response, error = line.request, line.response, line.error
        server = _shown_object(origin["server"])
        start_ns = line.started_ns if request is not None else None
        return cls(
            time_ns=line.started_ns // 1000 * 1000,
            duration_ns=pieces.rounded_span_ns(
                start_ns, None if _is_unfinished(error) else line.ended_ns
            ),
            first_byte_ns=pieces.rounded_span_ns(start_ns, line.first_byte_ns),
            host=_host(request.host if request else None) or server,
            path=_path(request.target if request else None, line.protocol),
            method=_cut(request.method if request else None),
            status=response.status if response else None,
            protocol=line.protocol[:_MOST_CHARACTERS],
            comm=origin["comm"],
            pid=origin["pid"],
            request_bytes=request.size if request else 0,
            response_bytes=response.size if response else 0,
            missing_bytes=line.missing_bytes,
            error=_error(error, None, None),
            is_open=error == CAPTURE_ENDED,
            role=origin["role"],
            server=server,
            sni=_cut_host(sni),
            raw_path=_raw_path(request.target if request else None, None),
        )

    @classmethod
    def of_json(cls, line: dict[str, Any], sni: str | None = None) -> Self:
        """Return the same from an ``exchange`` object of docs/json.md, which has no ``sni``.

        Raises ``KeyError``, ``TypeError`` or ``ValueError`` if it is none.
        """
        request, response = line["request"], line["response"]
        server = _shown_object(line["server"], line.get("peer"))
        error, call, grpc = line["error"], line.get("llm"), line.get("grpc")
        db, run = line.get("db"), call.get("run") if call else None
        statement = statement_of(db) if db else None
        rpc = rpc_calls.rpc_of(line["rpc"], line["protocol"]) if line.get("rpc") else None
        status: int | str | None = response["status"] if response else None
        is_answered = line["first_byte_ms"] is not None
        if statement is not None:
            status = status_of(statement, error, is_answered=is_answered)
        if rpc is not None:
            status = rpc_calls.status_of(rpc, error, is_answered=is_answered)
        is_begun = request or db or rpc
        spans = (line["duration_ms"], line["first_byte_ms"]) if is_begun else (None, None)
        if _is_unfinished(error):
            spans = None, spans[1]
        return cls(
            time_ns=_time_ns(line["time"]),
            duration_ns=_from_milliseconds(spans[0]),
            first_byte_ns=_from_milliseconds(spans[1]),
            host=_host(
                (request["authority"] or _first_host(request["headers"])) if request else None
            )
            or server,
            path=_pattern(statement, rpc, line["comm"], server)
            or path_pattern(request["target"] if request else None),
            method=_cut(
                operation_of(statement)
                if statement
                else rpc.method
                if rpc
                else request["method"]
                if request
                else None
            ),
            status=status,
            protocol=line["protocol"][:_MOST_CHARACTERS],
            comm=line["comm"],
            pid=line["pid"],
            request_bytes=request["body"]["size"] if request else _asked_bytes(rpc),
            response_bytes=response["body"]["size"] if response else _answered_bytes(rpc),
            missing_bytes=line["missing_bytes"],
            error=_error(
                error,
                grpc["status_name"] if grpc and grpc["status"] else None,
                (rpc and rpc_calls.failure(rpc))
                or (call and call["error"])
                or (db and db["error"])
                or None,
            ),
            is_open=error == CAPTURE_ENDED,
            model=_cut((call["response_model"] or call["model"]) if call else None),
            call=CallFigures.of_json(call) if call and call["method"] is None else None,
            run=run["id"] if run else None,
            role=line["role"],
            server=server,
            sni=_cut_host(sni),
            raw_path=_raw_path(request["target"] if request else None, statement),
            secret=_secrets(counts_of(line["redacted"])) if "redacted" in line else None,
        )


def _path(target: str | None, protocol: str) -> str:
    """Return what paths alike have in common; for a handshake, that it is one."""
    return "TLS handshake" if protocol == TLS_PROTOCOL else path_pattern(target)


def statement_pattern(statement: Statement, comm: str | None, server: str | None) -> str:
    """Return what statements alike have in common, as a path pattern is of paths.

    Programs give prepared statements the same names, so if the text of one was not seen, its
    process and its server belong to it.
    """
    pattern = without_literals(statement)
    if statement.prepared is not None and statement.text is None:
        pattern += f" ({comm or '?'}, {server or '?'})"
    return pattern[:_MOST_CHARACTERS]


def _raw_path(target: str | None, statement: Statement | None) -> str | None:
    return raw_path(target) if statement is None else shortened(shown_statement(statement))


def _pattern(
    statement: Statement | None, rpc: RpcCall | None, comm: str | None, server: str | None
) -> str | None:
    """Return what calls alike have in common; None of what has a path."""
    if statement is not None:
        return statement_pattern(statement, comm, server)
    return None if rpc is None else (rpc.name or rpc.method)[:_MOST_CHARACTERS]


def _asked_bytes(rpc: RpcCall | None) -> int:
    return 0 if rpc is None else rpc.request_bytes


def _answered_bytes(rpc: RpcCall | None) -> int:
    return 0 if rpc is None else rpc.response_bytes


def _secrets(counts: Counts) -> str | None:
    """Return the secrets of an exchange in an order of their own, not in that of the message."""
    asked = [secret for secret in counts if secret.pattern is not None]
    shown = sorted(labels(asked or counts))
    more = [f"{len(shown) - _MOST_SECRETS} more"] if len(shown) > _MOST_SECRETS else []
    return _cut(", ".join(shown[:_MOST_SECRETS] + more))


def _is_unfinished(error: str | None) -> bool:
    return error is not None and error.startswith(_END_NOT_SEEN)


def _error(error: str | None, grpc_status: str | None, of_model: str | None) -> str | None:
    """Return the first error there is; ``error`` is the exchange's own."""
    if error is not None and error != CAPTURE_ENDED:
        return _cut(error)
    return _cut(f"grpc: {grpc_status}" if grpc_status else of_model)


def _time_ns(shown: str | None) -> int:
    """Return an RFC 3339 time in nanoseconds since the epoch; 0: it is not known."""
    if shown is None:
        return 0
    return (datetime.fromisoformat(shown) - _EPOCH) // _MICROSECOND * 1000


def _from_milliseconds(span_ms: float | None) -> int | None:
    if span_ms is None or span_ms < 0:
        return None
    return round(span_ms * 1000) * 1000


def _host(sent: str | None) -> str | None:
    return sent[:_MOST_HOST_CHARACTERS].lower() if sent else None


def _cut_host(sni: str | None) -> str | None:
    return sni[:_MOST_HOST_CHARACTERS] if sni else None


def _server(connection: Connection) -> str | None:
    """Return the server's address, or the program that serves by standard input and output."""
    if connection.peer is not None:
        return _cut(connection.peer.label)
    return None if connection.server is None else str(connection.server)


def _shown_object(address: dict[str, Any] | None, peer: dict[str, Any] | None = None) -> str | None:
    if peer is not None:
        return _cut(Peer(peer["pid"], peer["comm"], tuple(peer["command"])).label)
    return None if address is None else str(Address(address["ip"], address["port"]))


def _first_host(headers: list[list[str | None]]) -> str | None:
    return next((value for name, value in headers if name and name.lower() == "host"), None)


def _cut(text: str | None) -> str | None:
    return text and text[:_MOST_CHARACTERS]
