"""Diagrams: the frames of an HTTP/2 stream with its windows, and a connection's exchanges in time.

A window is what flow control lets its sender still send (RFC 9113 section 5.2).
"""

from collections.abc import Callable, Iterable
from typing import Any

from sslsniff.core.errors import grouped
from sslsniff.core.escaping import escape
from sslsniff.forms.text import pieces
from sslsniff.forms.text.cutting import cut_end, padded
from sslsniff.screen.captured.capture_rows import ConnectionRow, ExchangeRow
from sslsniff.screen.captured.rebuilt_exchanges import frame_objects, nanoseconds
from sslsniff.screen.widgets.shown_line import DIM, FAULT, ShownLine, named_line, styled_line, title

Object = dict[str, Any]
Lines = list[ShownLine]

_MOST_FRAMES = 4_000
"""The last frames of a connection that are looked through: some milliseconds."""
_MOST_EXCHANGES = 2_000
_BAR_COLUMNS = 16
_LABEL_COLUMNS = 34
_DETAILS = ("error_code", "increment", "last_stream", "priority", "promised_stream")
_LEAST_WINDOW = 65_535
"""The window that all begin with (RFC 9113 section 6.9.2): a full bar shows at least this."""


def frame_lines(connection: ConnectionRow, lines: list[bytes], stream: int | None) -> Lines:
    """Return the frames of a stream and of its connection (stream 0), with windows as bars.

    ``lines``: those of frames of the connection. ``stream``: None for those of all.
    """
    shown = frame_objects(lines[-_MOST_FRAMES:], connection.origin, stream)
    if not shown:
        return [styled_line("there are no frames: HTTP/2 has them, while they are stored", DIM)]
    most = max([_LEAST_WINDOW, *(each.get("stream_window") or 0 for each in shown)])
    began_ns = nanoseconds(shown[0]["time"])
    explained = "frames from client (->) and server (<-); bar: what the sender may still send"
    result = [styled_line(explained, DIM)]
    result += [_frame(each, connection.role, began_ns, most) for each in shown]
    for each in connection.totals:
        window = each["connection_window"]
        left = "not known" if window is None else grouped(window, "byte")
        side = (
            "client"
            if (each["direction"] == "write") == (connection.role == "client")
            else ("server")
        )
        streams, resets = grouped(each["streams"], "stream"), grouped(each["resets"], "reset")
        said = f"{streams}, {resets}, window at the end {left}"
        result.append(named_line(side, said))
    return result


def _frame(frame: Object, role: str, began_ns: int, most: int) -> ShownLine:
    by_client = (frame["direction"] == "write") == (role == "client")
    arrow = "->" if by_client else "<-"
    after = pieces.duration_between(began_ns, nanoseconds(frame["time"]))
    head = f"{after:>9} {arrow} {frame['stream']:>5} {frame['frame']:<13} {frame['length']:>6}"
    flags = " ".join(frame["flags"])
    details = [f"{name} {frame[name]}" for name in _DETAILS if frame.get(name) is not None]
    details += [f"{name} {value}" for name, value in (frame.get("settings") or {}).items()]
    text = f"{head} {_window(frame, most)} {flags} {' '.join(details)}".rstrip()
    style = (
        FAULT if frame["frame"] in {"RST_STREAM", "GOAWAY"} else "cyan" if by_client else "green"
    )
    shown = escape(text)
    return ShownLine(shown, ((9, len(head), style),))


def _window(frame: Object, most: int) -> str:
    """Return the window of the stream, or of the connection, as a bar and a number."""
    window = frame.get("stream_window")
    if window is None:
        window = frame.get("connection_window")
    if window is None:
        return " " * (_BAR_COLUMNS + 9)
    full = round(_BAR_COLUMNS * max(0, min(window, most)) / most)
    return f"{'█' * full}{'░' * (_BAR_COLUMNS - full)} {window:>8}"


def waterfall_lines(
    connection: ConnectionRow,
    rows: Iterable[ExchangeRow],
    columns: int,
    current: ExchangeRow | None = None,
    redacted: Callable[[str], str] = str,
) -> Lines:
    """Return the exchanges of a connection in time: a bar from the request to the last byte.

    ``░`` is the time before the first byte of the response, ``█`` the time after it. An exchange
    whose time is not known has no bar. ``redacted`` returns text as it may be seen.
    """
    shown = [*rows][-_MOST_EXCHANGES:]
    if not shown:
        return [styled_line("no exchange of this connection is stored", DIM)]
    begins = [nanoseconds(row.time) / 1e6 for row in shown]
    first = min(filter(None, begins), default=0)
    last = max(begin + max(row.duration, 0) for row, begin in zip(shown, begins, strict=True))
    whole = max(last - first, 0.001)
    room = max(10, columns - _LABEL_COLUMNS - 12)
    lines = [
        *list(title(escape(f"connection {connection.id}, {connection.comm}")))[1:],
        styled_line(
            f"{'stream':>6}  {grouped(len(shown), 'exchange')} in"
            f" {pieces.duration(round(whole * 1e6))};"
            " ░ until the first byte, █ until the last",
            DIM,
        ),
    ]
    for row, begin in sorted(zip(shown, begins, strict=True), key=lambda each: each[1]):
        url = redacted(row.url)
        path = "/" + url.partition("://")[2].partition("/")[2] if "://" in url else url
        at = begin - first if begin else None
        lines.append(_bar(row, path, at, whole, room, is_current=row is current))
    return lines


def _bar(
    row: ExchangeRow, path: str, begin: float | None, whole: float, room: int, *, is_current: bool
) -> ShownLine:
    """Return the line of an exchange; ``begin``: milliseconds, None if they are not known."""
    stream = "" if row.stream is None else str(row.stream)
    name = f"{stream:>6}{'>' if is_current else ' '} {row.shown_status:>3} {row.title(path)}"
    label = padded(cut_end(name, _LABEL_COLUMNS), _LABEL_COLUMNS)
    marked = [(0, len(label), "bold")] if is_current else []
    if begin is None:
        return ShownLine(f"{label} ?", tuple(marked))
    scale = room / whole
    start = min(room - 1, int(begin * scale))
    duration = max(row.duration, 0)
    waited = row.first_byte if row.first_byte >= 0 else duration
    middle = min(room, max(start, round((begin + waited) * scale)))
    stop = min(room, max(middle, start + 1, round((begin + duration) * scale)))
    bar = " " * start + "░" * (middle - start) + "█" * (stop - middle)
    took = "?" if row.duration < 0 else pieces.duration(round(duration * 1e6))
    span = "" if row.is_open else f" {took}"
    at = len(label) + 1
    color = "red" if row.is_failed else "green"
    return ShownLine(f"{label} {bar}{span}", ((at, at + len(bar), color), *marked))
