"""The rows of the lists: exchanges and connections, as far as lists show them."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from sslsniff.core import rpc_calls, statements
from sslsniff.core.errors import counted
from sslsniff.core.model import Peer
from sslsniff.forms.json.short_lines import SENT_MS, ShortExchange
from sslsniff.forms.model_calls import shown_cost, token_counts
from sslsniff.forms.text import pieces
from sslsniff.forms.text.transactions import transaction_remarks
from sslsniff.screen.captured.stall_rows import StallRow

Object = dict[str, Any]

UNKNOWN = -1
"""A number that is not known: it sorts before those that are."""


class ConnectionRow:
    """A connection. ``rows``: its exchanges. ``origin``: its last object of that type.

    ``stalled_ms``: how long its longest flow-control stall lasted so far.
    """

    __slots__ = (
        *("alpn", "bytes_read", "bytes_written", "cipher", "client", "closed", "comm", "count"),
        *("id", "joined", "library", "missing", "origin", "pid", "protocol", "role", "rows"),
        *("server", "sni", "stalled_ms", "stalls", "time", "tls_version", "totals"),
    )

    def __init__(self, shown: Object) -> None:
        self.id: str = shown["connection"]
        self.origin: Object = {}
        self.time: str = shown["time"] or ""
        self.pid: int = shown["pid"] or UNKNOWN
        self.comm: str = shown["comm"] or ""
        self.library: str = shown["library"]
        self.role: str = shown["role"] or ""
        self.client = self.server = self.sni = self.alpn = self.tls_version = self.cipher = ""
        self.protocol = ""
        self.joined = False
        self.closed = False
        self.bytes_read = self.bytes_written = UNKNOWN
        self.missing = self.count = 0
        self.rows: deque[ExchangeRow] = deque()
        self.totals: list[Object] = []
        self.stalls: deque[StallRow] = deque()
        self.stalled_ms = 0.0

    def update(self, shown: Object) -> None:
        """Set what a line about the connection, or about anything on it, says."""
        self.role = shown["role"] or self.role
        self.client = _address(shown["client"]) or self.client
        self.server = _address(shown["server"]) or _program(shown.get("peer")) or self.server

    def update_event(self, shown: Object) -> None:
        """Set what a line of type ``connection`` says."""
        self.joined = shown["joined"]
        for name in ("sni", "alpn", "tls_version", "cipher"):
            setattr(self, name, shown[name] or "")
        if shown["event"] == "closed":
            self.closed = True
            self.bytes_read, self.bytes_written = shown["bytes_read"], shown["bytes_written"]
            self.missing = shown["missing_bytes"]


class ExchangeRow:
    """An exchange. ``line``: its line, JSON or short; None while it is open.

    ``messages``: JSON lines of what was sent inside it. ``is_whole``: whether its bodies and
    messages are still stored. ``size``: the memory of the lines. Durations are in milliseconds,
    ``sent`` until the request was complete.
    ``status``: of the response; ``statement_status``: of a statement, see ``statements.status_of``.
    """

    __slots__ = (
        *("comm", "connection", "duration", "error", "first_byte", "is_statement", "is_whole"),
        *("line", "messages", "method", "missing", "number", "pid", "protocol", "remark"),
        *("response_bytes", "sent", "size", "statement_status", "status", "stream", "time", "url"),
    )

    def __init__(self, number: int, connection: ConnectionRow) -> None:
        self.number = number
        self.connection = connection
        self.pid = connection.pid
        self.comm = connection.comm
        self.time = self.protocol = ""
        self.stream: int | None = None
        self.url = "?"
        self.method = ""
        self.status = self.response_bytes = UNKNOWN
        self.duration = self.first_byte = self.sent = float(UNKNOWN)
        self.missing = 0
        self.error = self.remark = self.statement_status = ""
        self.is_statement = False
        self.line: bytes | None = None
        self.messages: list[bytes] | tuple[()] = ()
        self.is_whole = True
        self.size = 0

    def begin(self, shown: Object) -> None:
        """Set what the line of its first message says."""
        self.time, self.protocol = shown["time"] or "", shown["protocol"]
        self.stream = shown["stream"]
        self.url = shown.get("target") or "?"

    def finish_short(self, line: bytes, short: ShortExchange) -> None:
        """Set what the short line of the exchange says."""
        request, response, started_ns = short.request, short.response, short.started_ns
        self.line = line
        self.time = pieces.utc_time(started_ns) if started_ns else ""
        self.stream, self.protocol = short.stream, short.protocol
        self.duration = _since(started_ns, short.ended_ns)
        self.first_byte = _since(started_ns, short.first_byte_ns)
        self.sent = _since(started_ns, short.sent_ns)
        if request is not None:
            self.method = request.method or "?"
            self.url = request.url
        if response is not None:
            self.status = UNKNOWN if response.status is None else response.status
            self.response_bytes = response.size
        self.missing = short.missing_bytes
        self.error = short.error or ""
        if self.missing or self.error:
            self.remark = ", ".join(_faults(self.missing, self.error))

    def finish(self, line: bytes, shown: Object) -> None:
        """Set what the JSON line of the exchange says."""
        request, response = shown["request"], shown["response"]
        self.line = line
        self.stream = shown["stream"]
        self.time = shown["time"] or ""
        self.protocol = shown["protocol"]
        self.duration = _or_unknown(shown["duration_ms"])
        self.first_byte = _or_unknown(shown["first_byte_ms"])
        self.sent = _or_unknown(shown.get(SENT_MS))
        self.missing = shown["missing_bytes"]
        self.error = shown["error"] or ""
        if request is not None:
            self.method = request["method"] or "?"
            self.url = request["url"]
        if response is not None:
            self.status = _or_unknown(response["status"])
            self.response_bytes = response["body"]["size"]
        if "db" in shown:
            self.is_statement = True
            statement = statements.statement_of(shown["db"])
            self.method = statements.operation_of(statement) or "?"
            self.url = statements.shown_statement(statement)
            is_answered = shown["first_byte_ms"] is not None
            status = statements.status_of(statement, shown["error"], is_answered=is_answered)
            self.statement_status = status or ""
        if "rpc" in shown:
            call = rpc_calls.rpc_of(shown["rpc"], shown["protocol"])
            self.method, self.url = call.method, rpc_calls.shown_call(call)
            is_answered = shown["first_byte_ms"] is not None
            status = rpc_calls.status_of(call, shown["error"], is_answered=is_answered)
            self.statement_status = status or ""
            self.response_bytes = call.response_bytes
        self.remark = _remark(shown)

    @property
    def is_open(self) -> bool:
        """Whether the exchange has not ended yet."""
        return self.line is None

    @property
    def is_failed(self) -> bool:
        """Whether it ended early, or failed by its status."""
        failed = self.status >= 400 or self.statement_status == statements.FAILED
        return failed or bool(self.error)

    @property
    def shown_status(self) -> str:
        """Its status for people: a dash if it has none, dots while it is open."""
        if self.is_open:
            return "..."
        return self.statement_status or ("-" if self.status == UNKNOWN else str(self.status))

    def title(self, target: str) -> str:
        """Return the method and ``target``; the text of a statement already has its method."""
        return target if self.is_statement and target else f"{self.method or '?'} {target}"


def _or_unknown(number: Any) -> Any:
    return UNKNOWN if number is None else number


def _since(start_ns: int, end_ns: int | None) -> float:
    span_ms = pieces.milliseconds_between(start_ns, end_ns)
    return UNKNOWN if span_ms is None else span_ms


def _address(shown: Object | None) -> str:
    if shown is None:
        return ""
    ip = f"[{shown['ip']}]" if ":" in shown["ip"] else shown["ip"]
    return f"{ip}:{shown['port']}"


def _program(peer: Object | None) -> str:
    if peer is None:
        return ""
    return f"{Peer(peer['pid'], peer['comm'], tuple(peer['command'])).label}[{peer['pid']}]"


def _remark(shown: Object) -> str:
    """Return what the list says after the URL: of model calls, of gRPC, and errors; not escaped."""
    remarks: list[str] = []
    model, call = shown.get("llm"), shown.get("grpc")
    if "rpc" in shown:
        rpc = rpc_calls.rpc_of(shown["rpc"], shown["protocol"])
        remarks += filter(None, (*rpc_calls.remarks(rpc), rpc_calls.failure(rpc)))
    elif model is not None:
        remarks.append(model["method"] or model["response_model"] or model["model"] or model["api"])
        remarks += token_counts(model["usage"])
        remarks += shown_cost(model["cost"], model["currency"])
    if call is not None and call["status_name"]:
        remarks.append(f"gRPC {call['status_name']}")
    if "db" in shown:
        statement = statements.statement_of(shown["db"])
        remarks += filter(None, (statements.counts(statement), *statements.remarks(statement)))
        remarks += transaction_remarks(statement)
    return ", ".join([*remarks, *_faults(shown["missing_bytes"], shown["error"])])


def _faults(missing: int, error: str | None) -> Iterator[str]:
    if missing:
        yield f"{counted(missing, 'byte')} missing"
    if error:
        yield error
