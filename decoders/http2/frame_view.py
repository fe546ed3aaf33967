"""Makes the messages that show HTTP/2 frames: their content, windows, stalls, and totals.

Memory: the start of one DATA frame for each side, and that of ``FlowControl``.
"""

from typing import Any

from sslsniff.decoders.http2 import frames
from sslsniff.decoders.http2.flow_control import FlowControl
from sslsniff.decoders.messages import SIDES, Frame, Http2Totals, Message, Side


class FrameView:
    """Makes the ``Frame`` messages of one connection."""

    def __init__(self) -> None:
        self._flow = FlowControl()
        self._previews = {side: bytearray() for side in SIDES}
        self._streams = {side: 0 for side in SIDES}
        self._last_stream = 0
        self._resets = {side: 0 for side in SIDES}
        self._header_table = {side: 0 for side in SIDES}

    def forget(self) -> None:
        """Note that frames were lost."""
        self._flow.forget()
        for preview in self._previews.values():
            preview.clear()

    def note_table(self, side: Side, size: int) -> None:
        """Note the size of the dynamic table for what ``side`` sends, in bytes."""
        self._header_table[side] = max(self._header_table[side], size)

    def data(self, side: Side, data: bytes) -> None:
        """Append a piece of a DATA frame to its preview."""
        preview = self._previews[side]
        preview += data[: frames.PREVIEW - len(preview)]

    def data_end(
        self, side: Side, flags: int, stream: int, length: int, out: list[Message]
    ) -> None:
        """Report a DATA frame that is complete."""
        preview = self._previews[side]
        self.frame(side, frames.DATA, flags, stream, length, {"data": bytes(preview)}, out)
        preview.clear()

    def frame(
        self,
        side: Side,
        kind: int,
        flags: int,
        stream: int,
        length: int,
        details: dict[str, Any],
        out: list[Message],
    ) -> None:
        """Report a frame; ``details`` is its content, see :func:`frames.describe`."""
        if kind == frames.HEADERS and side is Side.CLIENT and stream > self._last_stream:
            self._last_stream = stream
            self._streams[side] += 1
        elif kind == frames.PUSH_PROMISE:
            self._streams[side] += 1
        elif kind == frames.RST_STREAM:
            self._resets[side] += 1
        stalls = self._flow.handle(side, kind, flags, stream, length, details)
        names = frames.flag_names(kind, flags)
        out.append(Frame(stream, side, frames.type_name(kind), names, length, details))
        out += stalls

    def totals(self) -> Http2Totals:
        """Return the figures of all frames so far."""
        windows = {side: self._flow.window(side) for side in SIDES}
        return Http2Totals(self._streams, self._resets, self._header_table, windows)
