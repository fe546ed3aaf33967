"""The lines that people read: how they begin, and the one of an exchange."""

from collections.abc import Callable

from sslsniff.escaping import escape
from sslsniff.model import Connection, Exchange, Response
from sslsniff.sinks import text
from sslsniff.sinks.calls import call_of

Paint = Callable[[str, str], str]
"""Takes the name of a style and text, returns the text in it."""

STYLES = {
    "dim": "dim",
    "process": "cyan",
    "method": "bold",
    "ok": "green",
    "redirect": "yellow",
    "failure": "bold red",
    "loss": "bold magenta",
}
_STATUS_STYLES = {1: "dim", 2: "ok", 3: "redirect", 4: "failure", 5: "failure"}

_URL_CHARACTERS = 500
"""Of a longer URL only so much is shown in a line; ``-v`` shows it whole."""


def plain(_style: str, shown: str) -> str:
    """Return the text as it is: for pipes and files."""
    return shown


def prefix(connection: Connection, time_ns: int, paint: Paint) -> str:
    """Return what every line begins with: time, process and peer."""
    return "  ".join(
        (
            paint("dim", text.local_time(time_ns)),
            paint("process", text.near_end(connection)),
            text.address(connection.remote),
        )
    )


def exchange_line(exchange: Exchange, paint: Paint = plain, now_ns: int = 0) -> str:
    """Return the line of an exchange; ``now_ns`` counts for one that has not ended."""
    request, response = exchange.request, exchange.response
    is_open = exchange.ended_ns is None
    sent = response or request
    size = text.size(sent.body.size if sent and (response or is_open) else 0)
    fields = [
        prefix(exchange.connection, exchange.started_ns, paint),
        paint("dim", text.protocol(exchange)),
        paint("method", escape(request.method or "?")) if request else "?",
        _cut(text.url(request)) if request else "(request not seen)",
        _status(response, paint),
        *_outcome(exchange, paint),
        text.duration(max(0, (exchange.ended_ns or now_ns) - exchange.started_ns)),
        f"{size} so far" if is_open else size,
    ]
    if exchange.missing_bytes:
        fields.append(paint("loss", f"{exchange.missing_bytes} bytes missing"))
    fields += [paint("loss", f"warning: {warning}") for warning in exchange.warnings]
    if exchange.error:
        fields.append(paint("failure", escape(exchange.error)))
    return "  ".join(fields)


def _outcome(exchange: Exchange, paint: Paint) -> list[str]:
    """Return how a gRPC call ended: HTTP's status does not tell it."""
    call = call_of(exchange)
    if call is None or call.status is None:
        return []
    shown = f"{call.status.name} {call.status.message}".rstrip()
    return [paint("failure" if call.status.code else "ok", escape(shown))]


def _cut(url: str) -> str:
    return url if len(url) <= _URL_CHARACTERS else f"{url[:_URL_CHARACTERS]}... ({len(url)})"


def _status(response: Response | None, paint: Paint) -> str:
    if response is None:
        return "-"
    if response.status is None:
        return "?"
    style = _STATUS_STYLES.get(response.status // 100, "failure")
    return paint(style, str(response.status))
