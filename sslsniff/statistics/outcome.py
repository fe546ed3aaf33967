"""The figures of one exchange, from the exchange itself or from its JSON line."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from sslsniff.core.model import TLS_PROTOCOL, Address, Exchange
from sslsniff.core.redacted import Counts, counts_of, labels
from sslsniff.core.sink import CAPTURE_ENDED
from sslsniff.core.statements import method_of, statement_of, status_of, without_literals
from sslsniff.decoders.databases.statement import Statement
from sslsniff.forms.grpc_calls import call_of
from sslsniff.forms.text import pieces
from sslsniff.statistics.model_totals import CallFigures
from sslsniff.statistics.path_patterns import path_pattern

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
        process, server = connection.process, _shown(connection.server)
        error, call, grpc = exchange.error, exchange.model_call, call_of(exchange)
        statement = exchange.statement
        start_ns = exchange.started_ns if request is not None or statement is not None else None
        end_ns = None if _is_unfinished(error) else exchange.ended_ns
        grpc_status = grpc.status if grpc else None
        status: int | str | None = response.status if response else None
        if statement is not None:
            is_answered = exchange.first_byte_ns is not None
            status = status_of(statement, error, is_answered=is_answered)
        return cls(
            time_ns=exchange.started_ns // 1000 * 1000,
            duration_ns=pieces.rounded_span_ns(start_ns, end_ns),
            first_byte_ns=pieces.rounded_span_ns(start_ns, exchange.first_byte_ns),
            host=_host(request.host_and_port if request else None) or server,
            path=statement_pattern(statement)
            if statement
            else _path(request.target if request else None, exchange.protocol),
            method=_cut(method_of(exchange)),
            status=status,
            protocol=exchange.protocol[:_MOST_CHARACTERS],
            comm=process.comm if process.is_known else None,
            pid=process.pid if process.is_known else None,
            request_bytes=request.body.size if request else 0,
            response_bytes=response.body.size if response else 0,
            missing_bytes=exchange.missing_bytes,
            error=_error(
                error,
                grpc_status.name if grpc_status and grpc_status.code else None,
                call.error if call else statement.error if statement else None,
            ),
            is_open=error == CAPTURE_ENDED,
            model=_cut((call.answered_by or call.model) if call else None),
            call=CallFigures.of(call) if call and call.method is None else None,
            run=call.run.run if call and call.run else None,
            role=connection.role and connection.role.value,
            server=server,
            sni=_cut_host(connection.sni),
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
        )

    @classmethod
    def of_json(cls, line: dict[str, Any], sni: str | None = None) -> Self:
        """Return the same from an ``exchange`` object of docs/json.md, which has no ``sni``.

        Raises ``KeyError``, ``TypeError`` or ``ValueError`` if it is none.
        """
        request, response, server = line["request"], line["response"], _shown_object(line["server"])
        error, call, grpc = line["error"], line.get("llm"), line.get("grpc")
        db, run = line.get("db"), call.get("run") if call else None
        statement = statement_of(db) if db else None
        status: int | str | None = response["status"] if response else None
        if statement is not None:
            is_answered = line["first_byte_ms"] is not None
            status = status_of(statement, error, is_answered=is_answered)
        spans = (line["duration_ms"], line["first_byte_ms"]) if request or db else (None, None)
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
            path=statement_pattern(statement)
            if statement
            else path_pattern(request["target"] if request else None),
            method=_cut(db["operation"] if db else request["method"] if request else None),
            status=status,
            protocol=line["protocol"][:_MOST_CHARACTERS],
            comm=line["comm"],
            pid=line["pid"],
            request_bytes=request["body"]["size"] if request else 0,
            response_bytes=response["body"]["size"] if response else 0,
            missing_bytes=line["missing_bytes"],
            error=_error(
                error,
                grpc["status_name"] if grpc and grpc["status"] else None,
                call["error"] if call else db["error"] if db else None,
            ),
            is_open=error == CAPTURE_ENDED,
            model=_cut((call["response_model"] or call["model"]) if call else None),
            call=CallFigures.of_json(call) if call and call["method"] is None else None,
            run=run["id"] if run else None,
            role=line["role"],
            server=server,
            sni=_cut_host(sni),
            secret=_secrets(counts_of(line["redacted"])) if "redacted" in line else None,
        )


def _path(target: str | None, protocol: str) -> str:
    """Return what paths alike have in common; for a handshake, that it is one."""
    return "TLS handshake" if protocol == TLS_PROTOCOL else path_pattern(target)


def statement_pattern(statement: Statement) -> str:
    """Return what statements alike have in common, as a path pattern is of paths."""
    return without_literals(statement)[:_MOST_CHARACTERS]


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


def _shown(address: Address | None) -> str | None:
    return None if address is None else str(address)


def _shown_object(address: dict[str, Any] | None) -> str | None:
    return None if address is None else str(Address(address["ip"], address["port"]))


def _first_host(headers: list[list[str | None]]) -> str | None:
    return next((value for name, value in headers if name and name.lower() == "host"), None)


def _cut(text: str | None) -> str | None:
    return text and text[:_MOST_CHARACTERS]
