"""Shows the frames of an HTTP/2 stream and of its connection, with windows and stalls.

A window is what flow control lets its sender still send (RFC 9113 section 5.2).
"""

from collections.abc import Iterator
from typing import Any

from sslsniff.core.errors import grouped
from sslsniff.core.escaping import escape
from sslsniff.forms.text import pieces
from sslsniff.screen.captured.capture_rows import ConnectionRow
from sslsniff.screen.captured.rebuilt_exchanges import frame_objects, nanoseconds
from sslsniff.screen.captured.stall_rows import StallRow
from sslsniff.screen.widgets.shown_line import DIM, FAULT, ShownLine, named_line, styled_line

Object = dict[str, Any]
Lines = list[ShownLine]

_MOST_FRAMES = 4_000
"""The last frames of a connection that are looked through: some milliseconds."""
_BAR_COLUMNS = 16
_DETAILS = ("error_code", "increment", "last_stream", "priority", "promised_stream", "stream_bytes")
_STREAM_SETTING = "INITIAL_WINDOW_SIZE"
"""The setting that says how large the window of a stream is."""


def frame_lines(connection: ConnectionRow, lines: list[bytes], stream: int | None) -> Lines:
    """Return the frames of a stream and of its connection (stream 0), with windows as bars.

    ``lines``: those of frames of the connection. ``stream``: None for those of all.
    """
    shown = frame_objects(lines[-_MOST_FRAMES:], connection.origin, stream)
    if not shown:
        return [styled_line("there are no frames: HTTP/2 has them, while they are stored", DIM)]
    windows = _Windows(shown, connection.role)
    began_ns = nanoseconds(shown[0]["time"])
    explained = "frames from client (->) and server (<-); bar: what the sender may still send"
    result = [styled_line(explained, DIM)]
    stalls = sorted(
        # A copy: another thread may add to them.
        (each for each in [*connection.stalls] if stream is None or each.stream in (0, stream)),
        key=lambda each: each.until_ns,
    )
    for each in shown:
        while stalls and stalls[0].until_ns < nanoseconds(each["time"]):
            result.append(_stall(stalls.pop(0), began_ns))
        result.append(_frame(each, connection.role, began_ns, windows, stream))
    result += [_stall(each, began_ns) for each in stalls]
    for each in connection.totals:
        window = each["connection_window"]
        left = "not known" if window is None else grouped(window, "byte")
        side = "client" if _is_by_client(each, connection.role) else "server"
        streams, resets = grouped(each["streams"], "stream"), grouped(each["resets"], "reset")
        said = f"{streams}, {resets}, window at the end {left}"
        result.append(named_line(side, said))
    return result


def _is_by_client(shown: Object, role: str) -> bool:
    return bool((shown["direction"] == "write") == (role == "client"))


def _stall(stall: StallRow, began_ns: int) -> ShownLine:
    after = pieces.duration_between(began_ns, stall.until_ns)
    arrow = "->" if stall.by_client else "<-"
    waited = "waited" if stall.is_over else "has waited"
    lasted = pieces.duration(stall.until_ns - stall.since_ns)
    return styled_line(
        f"{after:>9} {arrow} {stall.stream:>5} {waited} {lasted}: {stall.text}", FAULT
    )


def _frame(
    frame: Object, role: str, began_ns: int, windows: "_Windows", stream: int | None
) -> ShownLine:
    by_client = _is_by_client(frame, role)
    arrow = "->" if by_client else "<-"
    after = pieces.duration_between(began_ns, nanoseconds(frame["time"]))
    head = f"{after:>9} {arrow} {frame['stream']:>5} {frame['frame']:<13} {frame['length']:>6}"
    details = [*frame["flags"]]
    connection_window = frame.get("connection_window")
    is_of_stream = frame.get("stream_window") is not None
    if is_of_stream and connection_window is not None and connection_window <= 0:
        details.append("connection's window 0")
    details += [f"{name} {frame[name]}" for name in _DETAILS if frame.get(name) is not None]
    settings = frame.get("settings") or {}
    named = [name for name in settings if stream is None or name == _STREAM_SETTING]
    details += [f"{name} {settings[name]}" for name in named]
    if len(named) < len(settings):
        details.append(f"{len(settings) - len(named)} more settings")
    text = f"{head} {windows.bar(frame)} {', '.join(details)}".rstrip()
    style = (
        FAULT if frame["frame"] in {"RST_STREAM", "GOAWAY"} else "cyan" if by_client else "green"
    )
    shown = escape(text)
    return ShownLine(shown, ((9, len(head), style),))


class _Windows:
    """Draws windows as bars: a full one is the largest of its sender, and of its kind.

    The windows of streams and that of the connection are of two kinds.
    """

    def __init__(self, frames: list[Object], role: str) -> None:
        self._role = role
        self._largest: dict[tuple[bool, bool], int] = {}
        for frame in frames:
            for is_stream, window in self._windows(frame):
                key = self._sender(frame), is_stream
                # What a frame of DATA takes was there before it.
                whole = window + frame["length"] * (frame["frame"] == "DATA")
                self._largest[key] = max(self._largest.get(key, 1), whole)

    def bar(self, frame: Object) -> str:
        """Return the window of the stream, or of the connection, as a bar and a number."""
        for is_stream, window in self._windows(frame):
            most = self._largest[self._sender(frame), is_stream]
            full = round(_BAR_COLUMNS * max(0, min(window, most)) / most)
            return f"{'█' * full}{'░' * (_BAR_COLUMNS - full)} {window:>8}"
        return " " * (_BAR_COLUMNS + 9)

    def _sender(self, frame: Object) -> bool:
        """Return whether the client is who may send so much: WINDOW_UPDATE is for the other."""
        is_data: bool = frame["frame"] == "DATA"
        return _is_by_client(frame, self._role) == is_data

    def _windows(self, frame: Object) -> Iterator[tuple[bool, int]]:
        """Yield the windows of a frame, that of its stream first, and whether it is that."""
        for name, is_stream in (("stream_window", True), ("connection_window", False)):
            if frame.get(name) is not None:
                yield is_stream, frame[name]
