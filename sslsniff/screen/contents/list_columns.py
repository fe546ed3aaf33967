"""The columns of the lists of exchanges and connections."""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from operator import attrgetter

from sslsniff.core.escaping import escape
from sslsniff.core.statements import PARAMETERS_BEGIN
from sslsniff.forms.text import pieces
from sslsniff.forms.text.cutting import cut_end
from sslsniff.forms.text.cutting import width as width_of
from sslsniff.screen.captured.capture_rows import UNKNOWN, ConnectionRow, ExchangeRow
from sslsniff.screen.captured.stall_rows import LONG_MS
from sslsniff.screen.widgets.row_table import Column

_LEAST_HOST = 8
"""Columns of a URL's host that stay."""
_STATUS_STYLES = {1: "dim", 2: "green", 3: "yellow"}


def exchange_columns(shown: Callable[[str], str]) -> list[Column]:
    """Return the columns of exchanges; ``shown`` returns a URL as it is to be seen: redacted."""
    by = attrgetter
    return [
        Column("Time", 8, lambda row: local_time(row.time), by("time"), 9),
        Column("Process", 12, _process, by("comm", "pid"), 5, style="cyan"),
        Column("Method", 6, _method, by("method"), 8, style="bold"),
        Column(
            "Status",
            6,
            by("shown_status"),
            by("status", "statement_status"),
            8,
            style=_status_style,
        ),
        Column("Duration", 8, _duration, by("duration"), 7, is_number=True),
        Column("First", 8, _first_byte, by("first_byte"), 1, is_number=True),
        Column("Size", 8, _size, by("response_bytes"), 6, is_number=True),
        Column("Protocol", 8, by("protocol"), by("protocol"), 2),
        Column("Conn#stream", 12, _stream, by("connection.id", "number"), 0),
        Column("Msgs", 4, _messages, lambda row: len(row.messages), 1, is_number=True),
        Column(
            "URL",
            0,
            lambda row: _url(row, shown),
            by("url"),
            style=_url_style,
            fit=lambda row, columns: _fitted(row, shown, columns),
        ),
    ]


def connection_columns() -> list[Column]:
    """Return the columns of connections."""
    by = attrgetter
    return [
        Column("Opened", 8, lambda row: local_time(row.time), by("time"), 9),
        Column("Connection", 12, by("id"), by("id"), 7),
        Column("Process", 15, lambda row: row.comm, by("comm", "pid"), 8, style="cyan"),
        Column("State", 6, lambda row: "closed" if row.closed else "open", by("closed"), 5),
        Column("Exch.", 6, lambda row: str(row.count), by("count"), 8, is_number=True),
        Column("Read", 8, lambda row: _bytes(row.bytes_read), by("bytes_read"), 3, is_number=True),
        Column("Written", 8, lambda row: _bytes(row.bytes_written), by("bytes_written"), 3, True),
        Column("Lost", 8, _lost, by("missing"), 6, is_number=True, style=_lost_style),
        Column("Stalled", 8, _stalled, by("stalled_ms"), 9, is_number=True, style=_stalled_style),
        Column("Protocol", 8, _protocol, _protocol, 6),
        Column("TLS", 7, by("tls_version"), by("tls_version"), 2),
        Column("Joined", 6, lambda row: "middle" if row.joined else "start", by("joined"), 1),
        Column("Client", 21, by("client"), by("client"), 0),
        Column("Server", 0, lambda row: f"{row.server or '?'} {row.sni}", by("server")),
    ]


@lru_cache(maxsize=64)
def _local_second(second: str) -> str:
    return f"{datetime.fromisoformat(second + '+00:00').astimezone():%H:%M:%S}"


def local_time(time: str) -> str:
    """Return the local time of day of an RFC 3339 time in UTC."""
    return _local_second(time[:19]) if time else ""


def _process(row: ExchangeRow) -> str:
    return row.comm if row.pid != UNKNOWN else "?"


def _method(row: ExchangeRow) -> str:
    return row.method or "?"


def _status_style(row: ExchangeRow) -> str:
    if row.is_failed:
        return "bold red"
    return "green" if row.statement_status else _STATUS_STYLES.get(row.status // 100, "dim")


def _url(row: ExchangeRow, shown: Callable[[str], str]) -> str:
    return f"{shown(row.url)}  {shown(row.remark)}" if row.remark else shown(row.url)


def _fitted(row: ExchangeRow, shown: Callable[[str], str], columns: int) -> str:
    """Return what fits of a row's URL and remark, escaped: where it is too wide, its end is cut.

    What is known goes first: the scheme, the first word of a statement, the host. A remark,
    such as an error, and the parameters of a statement, the values of its WHERE, stay at the end,
    if they leave half of the columns.
    """
    text = _url(row, shown)
    if width_of(text) <= columns:
        return escape(text)
    url, remark = shown(row.url), shown(row.remark)
    if row.is_statement:
        url = url.removeprefix(f"{row.method} ")
        url, mark, parameters = url.partition(PARAMETERS_BEGIN)
        remark = "  ".join(filter(None, (mark.lstrip() + parameters, remark)))
    end = "  " + cut_end(remark, columns // 2 - 2) if remark else ""
    room = columns - width_of(end)
    return (cut_end if row.is_statement else _cut_url)(url, room) + end


def _cut_url(url: str, columns: int) -> str:
    """Return as much of a URL as fits, escaped: its host gives way first, then its path's end."""
    host, slash, path = url.removeprefix("https://").partition("/")
    room = max(_LEAST_HOST, columns - width_of(escape(slash + path)))
    host = cut_end(host, min(room, columns))
    return host + cut_end(slash + path, columns - width_of(host))


def _url_style(row: ExchangeRow) -> str:
    return "magenta" if row.missing else "red" if row.error else ""


def _span(span_ms: float) -> str:
    return "" if span_ms < 0 else pieces.duration(round(span_ms * 1e6))


def _duration(row: ExchangeRow) -> str:
    return _span(row.duration)


def _first_byte(row: ExchangeRow) -> str:
    return _span(row.first_byte)


def _size(row: ExchangeRow) -> str:
    return _bytes(row.response_bytes)


def _bytes(count: int) -> str:
    return "" if count < 0 else pieces.size(count)


def _stream(row: ExchangeRow) -> str:
    return row.connection.id if row.stream is None else f"{row.connection.id}#{row.stream}"


def _messages(row: ExchangeRow) -> str:
    return str(len(row.messages) or "")


def _lost(row: ConnectionRow) -> str:
    return pieces.size(row.missing) if row.missing else ""


def _lost_style(row: ConnectionRow) -> str:
    return "bold magenta" if row.missing else ""


def _stalled(row: ConnectionRow) -> str:
    return _span(row.stalled_ms) if row.stalled_ms else ""


def _stalled_style(row: ConnectionRow) -> str:
    return "bold red" if row.stalled_ms >= LONG_MS else ""


def _protocol(row: ConnectionRow) -> str:
    return row.protocol or row.alpn
