"""Writes HTTP/2 frames, one line for each."""

from collections.abc import Callable
from typing import TextIO

from sslsniff.core.errors import counted
from sslsniff.core.escaping import escape
from sslsniff.core.model import Connection, InnerMessage
from sslsniff.core.sink import FlowControlStall, Sink, Summary
from sslsniff.decoders.messages import SIDES, Frame, Http2Totals, Side
from sslsniff.forms.proto_fields import Schema, no_schema
from sslsniff.forms.text import pieces
from sslsniff.forms.text.lines import Lines, endless
from sslsniff.forms.text.message_lines import message_line
from sslsniff.forms.text.stall_text import stall_text
from sslsniff.outputs.lines.peer_wait import Line, PeerWait

_PREVIEW_BYTES = 48
_NO_WINDOWS = (
    "waits are not seen: the connection was joined in the middle, so its windows are not known; a"
    " new connection shows them"
)


class FrameLines(Sink):
    """Writes a line to ``stream`` for each frame, and for each message that a frame completes.

    ``columns`` returns the width of the terminal, None if there is none: frames are cut to it,
    words about stalls are not. ``is_live``: an address may become known just after a frame.
    """

    def __init__(
        self,
        stream: TextIO,
        schema: Schema = no_schema,
        columns: Callable[[], int | None] = endless,
        *,
        is_live: bool = False,
    ) -> None:
        self._stream = stream
        self._schema = schema
        self._lines = Lines(columns=columns)
        self._wait = PeerWait(self._write)
        self._is_live = is_live
        self._without_windows: set[str] = set()
        """The ids of open connections of which it was said that their windows are not known."""

    def frame(self, connection: Connection, frame: Frame, time_ns: int, tid: int) -> None:
        """See ``Sink``."""
        if not connection.from_start and connection.id not in self._without_windows:
            self._without_windows.add(connection.id)
            self._line(connection, frame.side, 0, _NO_WINDOWS, time_ns, is_whole=True)
        flags = f" [{' '.join(frame.flags)}]" if frame.flags else ""
        details = sorted(frame.details.items(), key=lambda item: isinstance(item[1], bytes))
        text = " ".join(f"{name}={_shown(value)}" for name, value in details)
        shown = f"{frame.type}{flags} {frame.length} B  {escape(text)}"
        self._line(connection, frame.side, frame.stream, shown, time_ns)

    def stall(self, connection: Connection, stall: FlowControlStall, time_ns: int) -> None:
        """See ``Sink``."""
        waited = "waited" if stall.is_over else "has waited"
        lasted = pieces.duration_between(stall.since_ns, time_ns)
        shown = f"{waited} {lasted}: {stall_text(stall, time_ns)}"
        self._line(connection, stall.side, stall.stream, shown, time_ns, is_whole=True)

    def frame_totals(self, connection: Connection, totals: Http2Totals, time_ns: int) -> None:
        """See ``Sink``."""
        for side in SIDES:
            window = totals.window[side]
            shown = (
                f"in all {counted(totals.streams[side], 'stream')}"
                f", {counted(totals.resets[side], 'reset')}"
                f", largest header table {totals.header_table[side]} B"
                f", window left {'unknown' if window is None else f'{window} B'}"
            )
            self._line(connection, side, 0, shown, time_ns)

    def message(self, inner: InnerMessage) -> None:
        """See ``Sink``."""
        self._wait.release(inner.connection)
        shown = message_line(inner, self._lines, self._schema)
        self._stream.write(shown + "\n")

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._wait.close(connection)
        self._without_windows.discard(connection.id)

    def summary(self, summary: Summary) -> None:
        """See ``Sink``."""
        self._wait.release_all()

    def tick(self, now_ns: int) -> None:
        """See ``Sink``."""
        self._lines.resize()
        self._wait.tick(now_ns)

    def flush(self) -> None:
        """See ``Sink``."""
        self._wait.settle()
        self._stream.flush()

    def _line(
        self,
        connection: Connection,
        side: Side,
        stream: int,
        shown: str,
        time_ns: int,
        *,
        is_whole: bool = False,
    ) -> None:
        arrow = "->" if side is Side.CLIENT else "<-"
        line = Line(connection, time_ns, f"{arrow} #{stream} {shown}".rstrip(), is_whole)
        if self._is_live:
            self._wait.add(line)
        else:
            self._write(line)

    def _write(self, line: Line) -> None:
        start = self._lines.start(line.connection, line.time_ns)
        if line.is_whole:
            shown = f"{self._lines.fit(start)}  {escape(line.text)}"
        else:
            shown = self._lines.fit(start, (None, line.text))
        self._stream.write(shown + "\n")


def _shown(value: object) -> str:
    """Return one detail of a frame: bytes as the start of their text, lists as ``name: value``."""
    if isinstance(value, bytes):
        cut = "..." if len(value) > _PREVIEW_BYTES else ""
        return repr(value[:_PREVIEW_BYTES])[1:] + cut
    if isinstance(value, list):
        return "{" + ", ".join(f"{name}: {item}" for name, item in value) + "}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {item}" for name, item in value.items()) + "}"
    return str(value)
