"""Makes lines for people: how they begin, how they fit a terminal, and the line of an exchange."""

import functools
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple, TextIO

from sslsniff.core import rpc_calls, statements
from sslsniff.core.errors import counted
from sslsniff.core.escaping import escape
from sslsniff.core.model import TLS_PROTOCOL, Connection, Exchange, Handshake, Response
from sslsniff.core.redacted import Counts, RedactedSecret, labels
from sslsniff.core.tree_place import TreePlace
from sslsniff.decoders.json_rpc.rpc_call import RpcCall
from sslsniff.decoders.messages import Omitted
from sslsniff.forms import model_calls
from sslsniff.forms.endings import failure
from sslsniff.forms.grpc_calls import call_of
from sslsniff.forms.text import pieces
from sslsniff.forms.text.cutting import cut_end, cut_middle, padded, width
from sslsniff.forms.text.transactions import transaction_remarks

Paint = Callable[[str, str], str]
"""Returns text in a style: called with the name of the style and the text."""

Field = tuple[str | None, str]
"""The name of a style, if any, and text."""

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

_GAP = "  "
_URL_CHARACTERS = 500
"""The length to which a URL is cut where there is no terminal; ``-v`` shows all of it."""
_ENDLESS = 1 << 16
"""The room for a field, in columns, where lines are not cut."""
_UNKNOWN_COLUMNS = 80
"""The width of a terminal whose size is not known."""

_WIDTHS = {
    "method": 7,
    "status": 3,
    "duration": 8,
    "time": 8,
    "process": 14,
    "size": 8,
    "protocol": 10,
    "peer": 15,
}
"""The width in columns of each field beside the URL; the most important field comes first."""
_MILLISECONDS = 4
"""The columns that milliseconds add to the time: the least important of all."""
_LONGEST = {"method": 10, "process": 20, "peer": 21}
"""The width to which a field may grow on a terminal, at the expense of the URL."""
_BRANCH, _LEAF = "   ", "└─ "
"""Stand before what belongs to the exchange above."""
_SECRETS_IN_LINE = 2
_EIGHTHS_OF_URL = 3
"""The share of a terminal's width that is the URL's: a field that would reduce it is left out."""


class _Layout(NamedTuple):
    """Which fields lines have. ``columns`` is their greatest width, None if they are not cut."""

    columns: int | None
    names: frozenset[str]


def plain(_style: str, shown: str) -> str:
    """Return the text as it is: for pipes and files."""
    return shown


def endless() -> None:
    """Return that there is no terminal, so that lines are not cut."""


def terminal_columns(stream: TextIO) -> int | None:
    """Return how wide the terminal is that ``stream`` writes to; None where it is none."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _UNKNOWN_COLUMNS
    except (OSError, ValueError):  # no terminal, or no file at all
        return None


class Lines:
    """Makes lines, in the styles of ``paint``.

    ``columns`` returns the width of the terminal, None if there is none. If ``is_whole``, lines are
    neither cut nor have fields left out.
    """

    def __init__(
        self,
        paint: Paint = plain,
        columns: Callable[[], int | None] = endless,
        *,
        is_whole: bool = False,
    ) -> None:
        self._paint = paint
        self._columns = endless if is_whole else columns
        self.is_whole = is_whole
        self._layout = _layout(self._columns())
        self._may_have_changed = False

    def resize(self) -> None:
        """Ask for the terminal's width before the next line: it may have changed."""
        self._may_have_changed = True

    def start(self, connection: Connection, time_ns: int) -> list[Field]:
        """Return what lines begin with: time, process and peer, as far as there is room."""
        if self._may_have_changed:
            self._layout = _layout(self._columns())
            self._may_have_changed = False
        names = self._layout.names
        fields: list[Field] = []
        if "time" in names:
            shown = pieces.local_time(time_ns)
            fields.append(("dim", shown if "milliseconds" in names else shown[:-4]))
        if "process" in names:
            fields.append(("process", self._field("process", _process_or_address(connection))))
        if "peer" in names:
            fields.append((None, self._field("peer", pieces.far_end(connection))))
        return fields

    def exchange(self, exchange: Exchange, now_ns: int = 0) -> str:
        """Return the line of an exchange; if it is open, it has lasted until ``now_ns``."""
        fields = self.start(exchange.connection, exchange.started_ns)
        names = self._layout.names
        if "protocol" in names:
            fields.append(("dim", pieces.protocol(exchange).ljust(_WIDTHS["protocol"])))
        if "method" in names:
            method = statements.method_of(exchange) or "?"
            fields.append(("method", self._field("method", method)))
        if "status" in names:
            fields.append(_outcome(exchange))
        if "duration" in names:
            shown = pieces.duration_between(exchange.started_ns, exchange.ended_ns or now_ns)
            fields.append((None, shown.rjust(_WIDTHS["duration"])))
        if "size" in names:
            fields.append((None, _size(exchange).rjust(_WIDTHS["size"])))
        rest = [*_remarks(exchange)]
        if url := self._url(exchange, fields, rest):
            fields.append((None, url))
        return self.fit(fields, *rest) if rest else self._joined(fields)

    def handshake(self, handshake: Handshake) -> str:
        """Return the line of a TLS handshake after which no data passed."""
        end, name = handshake.end, handshake.connection.sni
        fields = self.start(handshake.connection, handshake.began_ns)
        names = self._layout.names
        if "protocol" in names:
            fields.append(("dim", TLS_PROTOCOL.ljust(_WIDTHS["protocol"])))
        if "duration" in names:
            shown = pieces.duration_between(handshake.began_ns, handshake.ended_ns)
            fields.append((None, shown.rjust(_WIDTHS["duration"])))
        what = "handshake failed" if end.is_failure else "handshake"
        style = "failure" if end.is_failure else None
        return self.fit(fields, (style, f"{what}, {name or 'no server name'}: {end.text}"))

    def _url(self, exchange: Exchange, fields: list[Field], rest: list[Field]) -> str:
        if exchange.statement is not None:
            url = statements.shown_statement(exchange.statement)
        elif exchange.rpc is not None:
            url = rpc_calls.shown_call(exchange.rpc, is_whole=self.is_whole)
        else:
            url = exchange.request.url if exchange.request else _unseen(exchange)
        if exchange.tree is not None and exchange.tree.depth:
            url = f"{_BRANCH * (exchange.tree.depth - 1)}{_LEAF}{url}"
        if self.is_whole:
            return escape(url)
        if self._layout.columns is None:
            return escape(url) if len(url) <= _URL_CHARACTERS else cut_middle(url, _URL_CHARACTERS)
        room = self.room(fields)
        if rest:  # at least a third of it stays the URL's
            room = max(room // 3, self.room([*fields, *rest]))
        return cut_middle(url, room)

    def room(self, fields: list[Field]) -> int:
        """Return how many columns are left for one more field after these."""
        columns = self._layout.columns
        if columns is None:
            return _ENDLESS
        return columns - (
            width(_GAP.join([shown for _, shown in fields])) + len(_GAP) if fields else 0
        )

    def fit(self, fields: list[Field], *rest: Field) -> str:
        """Return a line with as many as fit of ``fields``, escaped, and ``rest``, not escaped."""
        line = [*fields]
        while len(line) > 1 and self.room(line) < -len(_GAP):
            line.pop()
        for style, raw in rest:
            shown = escape(raw) if self._layout.columns is None else cut_end(raw, self.room(line))
            if shown:
                line.append((style, shown))
        return self._joined(line)

    def _joined(self, fields: list[Field]) -> str:
        paint = self._paint
        if paint is plain:
            return _GAP.join([shown for _, shown in fields])
        return _GAP.join([paint(style, shown) if style else shown for style, shown in fields])

    def _field(self, name: str, raw: str) -> str:
        """Return a field escaped and padded, and on a terminal cut where it is too long."""
        columns = _WIDTHS[name]
        if len(raw) <= columns and raw.isascii() and raw.isprintable():
            return raw.ljust(columns)  # as in nearly all lines
        is_cut = self._layout.columns is not None
        return padded(cut_middle(raw, _LONGEST[name]) if is_cut else escape(raw), columns)


@functools.lru_cache(maxsize=16)
def _layout(columns: int | None) -> _Layout:
    """Return which fields lines have on a terminal of this width."""
    sizes = {name: size + len(_GAP) for name, size in _WIDTHS.items()}
    sizes["milliseconds"] = _MILLISECONDS
    if columns is None:
        return _Layout(None, frozenset(sizes))
    room = columns - columns * _EIGHTHS_OF_URL // 8
    names = set()
    for name, size in sizes.items():
        if size <= room and (name != "milliseconds" or "time" in names):
            names.add(name)
            room -= size
    return _Layout(columns, frozenset(names))


def _process_or_address(connection: Connection) -> str:
    process = connection.process
    return str(process) if process.is_known else pieces.address(connection.local)


def _unseen(exchange: Exchange) -> str:
    """Return what stands in place of a URL."""
    if exchange.protocol == TLS_PROTOCOL:
        return f"(TLS handshake, {exchange.connection.sni or 'no server name'})"
    return "(request not seen)"


def _status(response: Response | None) -> Field:
    if response is None:
        return None, "-  "
    if response.status is None:
        return None, "?  "
    return _STATUS_STYLES.get(response.status // 100, "failure"), str(response.status)


def _outcome(exchange: Exchange) -> Field:
    statement, rpc = exchange.statement, exchange.rpc
    is_answered = exchange.first_byte_ns is not None and exchange.ended_ns is not None
    if statement is not None:
        status = statements.status_of(statement, exchange.error, is_answered=is_answered)
    elif rpc is not None:
        status = rpc_calls.status_of(rpc, exchange.error, is_answered=is_answered)
    else:
        return _status(exchange.response)
    style = {statements.OK: "ok", statements.FAILED: "failure"}.get(status or "")
    return style, (status or "-").ljust(_WIDTHS["status"])


def _size(exchange: Exchange) -> str:
    if exchange.statement is not None:
        return statements.counts(exchange.statement)
    if exchange.rpc is not None:
        return pieces.size(exchange.rpc.response_bytes)
    is_open = exchange.ended_ns is None
    sent = exchange.response or exchange.request
    size = pieces.size(sent.body.size if sent and (exchange.response or is_open) else 0)
    return f"{size} so far" if is_open else size


def _remarks(exchange: Exchange) -> Iterator[Field]:
    """Yield the remarks on an exchange that follow its URL, not escaped."""
    if exchange.tree is not None:
        yield from _tree_remarks(exchange.tree)
    call = call_of(exchange)
    if call is not None and call.status is not None:  # HTTP's status is 200 also for failed calls
        shown = f"{call.status.name} {call.status.message}".rstrip()
        yield "failure" if call.status.code else "ok", shown
    if exchange.rpc is not None:
        yield from _rpc_remarks(exchange.rpc)
    elif exchange.model_call is not None:
        yield None, model_calls.summary(exchange, exchange.model_call)
        if exchange.model_call.error:
            yield "failure", model_calls.short(exchange.model_call.error)
        if exchange.model_call.fault:
            yield "loss", exchange.model_call.fault
    if exchange.statement is not None:
        yield from (("failure", each) for each in statements.remarks(exchange.statement))
        yield from (("loss", each) for each in transaction_remarks(exchange.statement))
    if exchange.redacted is not None and (found := pattern_labels(exchange.redacted)):
        yield None, found
    if exchange.missing_bytes:
        yield "loss", f"{counted(exchange.missing_bytes, 'byte')} missing"
    for warning in exchange.warnings:
        yield "loss", f"warning: {warning}"
    if exchange.omitted is not None:
        yield "loss", _truncated(exchange.omitted)
    if exchange.error:
        yield "failure", failure(exchange)


def _tree_remarks(place: TreePlace) -> Iterator[Field]:
    """Yield the view of the server at the other end, and what is not in the lines above."""
    served = place.other_end
    if served is not None:
        lasted = pieces.duration_between(served.started_ns, served.ended_ns)
        yield None, f"= {_process_or_address(served.connection)} {lasted}"
    if place.parent is not None and not place.depth:
        yield "dim", f"(part of {place.parent}, shown apart)"


def _rpc_remarks(call: RpcCall) -> Iterator[Field]:
    yield from ((None, each) for each in rpc_calls.remarks(call))
    if (failure := rpc_calls.failure(call)) is not None:
        yield "failure", model_calls.short(failure)
    if call.fault:
        yield "loss", call.fault


def redacted_text(secret: RedactedSecret, count: int) -> str:
    """Return what is said of a secret that was blanked, not escaped."""
    is_named = secret.pattern is not None and secret.pattern != secret.name
    pattern = f" ({secret.pattern})" if is_named else ""
    times = f", {count} times" if count > 1 else ""
    return f"{secret.where}: {secret.label}{pattern}{times}"


def pattern_labels(counts: Counts) -> str:
    """Return the secrets that the user's own patterns found, which were asked for."""
    asked = [secret for secret in counts if secret.pattern is not None]
    shown = labels(asked)
    more = [f"{len(shown) - _SECRETS_IN_LINE} more"] if len(shown) > _SECRETS_IN_LINE else []
    count = counted(sum(counts[secret] for secret in asked), "secret")
    return f"{count}: {', '.join(shown[:_SECRETS_IN_LINE] + more)}" if shown else ""


def _truncated(omitted: Omitted) -> str:
    """Return what of an exchange's heads is not shown."""
    what = [f"{counted(omitted.fields, 'header field')} ({pieces.size(omitted.bytes)})"]
    if omitted.responses:
        what.append(counted(omitted.responses, "informational response"))
    return f"truncated: {', '.join(what)} not shown"
