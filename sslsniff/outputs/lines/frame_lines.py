"""Writes HTTP/2 frames, one line for each."""

from typing import TextIO

from sslsniff.core.errors import counted
from sslsniff.core.escaping import escape
from sslsniff.core.model import Connection, InnerMessage
from sslsniff.core.sink import FlowControlStall, Sink
from sslsniff.decoders.messages import Frame, Http2Totals, Side
from sslsniff.forms.proto_fields import Schema, no_schema
from sslsniff.forms.text import pieces
from sslsniff.forms.text.lines import Lines
from sslsniff.forms.text.message_lines import message_line
from sslsniff.forms.text.stall_text import stall_text

_PREVIEW_BYTES = 48


class FrameLines(Sink):
    """Writes a line to ``stream`` for each frame, and for each message that a frame completes."""

    def __init__(self, stream: TextIO, schema: Schema = no_schema) -> None:
        self._stream = stream
        self._schema = schema
        self._lines = Lines()

    def frame(self, connection: Connection, frame: Frame, time_ns: int, tid: int) -> None:
        """See ``Sink``."""
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
        self._line(connection, stall.side, stall.stream, shown, time_ns)

    def frame_totals(self, connection: Connection, totals: Http2Totals, time_ns: int) -> None:
        """See ``Sink``."""
        for side in Side:
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
        shown = message_line(inner, self._lines, self._schema)
        self._stream.write(shown + "\n")

    def _line(
        self, connection: Connection, side: Side, stream: int, shown: str, time_ns: int
    ) -> None:
        arrow = "->" if side is Side.CLIENT else "<-"
        start = self._lines.start(connection, time_ns)
        line = self._lines.fit(start, (None, f"{arrow} #{stream} {shown}".rstrip()))
        self._stream.write(line + "\n")

    def flush(self) -> None:
        """See ``Sink``."""
        self._stream.flush()


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
