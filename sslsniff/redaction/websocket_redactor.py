"""Redaction of a connection that became a WebSocket (RFC 6455)."""

from sslsniff.decoders.inner.websocket import FrameHeader, read_header, unmask
from sslsniff.decoders.messages import Side
from sslsniff.redaction.pending_bytes import PendingBytes
from sslsniff.redaction.rules import Rules
from sslsniff.redaction.text_run import Run

_CONTROL = 8


class _WebSocketSide:
    def __init__(self, buffer: PendingBytes) -> None:
        self.buffer = buffer
        self.partial = bytearray()
        self.header: FrameHeader | None = None
        self.left = 0
        self.message: Run | None = None
        self.run: Run | None = None  # of the frame at hand
        self.is_lost = False


class WebSocketRedactor:
    """Blanks on the buffers of both sides; all, once a side is out of sync."""

    def __init__(self, buffers: dict[Side, PendingBytes], rules: Rules) -> None:
        self._rules = rules
        self._sides = {side: _WebSocketSide(buffers[side]) for side in Side}

    def feed(self, side: Side, data: bytes, at: int) -> None:
        """Feed the next bytes that ``side`` sent, which are at ``at`` on its buffer."""
        one = self._sides[side]
        pos = 0
        while pos < len(data):
            if one.is_lost:
                one.buffer.blank(at + pos, at + len(data))
                self._rules.blanked.unread_bytes += len(data) - pos
                return
            if one.header is None:
                one.partial.append(data[pos])  # headers are of 14 bytes at most
                pos += 1
                self._header(one)
            else:
                piece = data[pos : pos + one.left]
                mask, phase = one.header.mask, one.header.length - one.left
                assert one.run is not None
                one.run.feed(unmask(piece, mask, phase), at + pos, mask, phase)
                pos += len(piece)
                one.left -= len(piece)
                self._frame_done(one)

    def gap(self, side: Side, missing: int) -> None:
        """Note lost bytes: everything after them is blanked."""
        one = self._sides[side]
        one.is_lost = True
        for run in (one.message, one.run):
            if run is not None:
                run.give_up()

    def end(self, side: Side) -> None:
        """Take the end of a direction."""
        one = self._sides[side]
        for run in (one.message, one.run):
            if run is not None:
                run.end()

    def _header(self, one: _WebSocketSide) -> None:
        found = read_header(one.partial, 0, len(one.partial))
        if isinstance(found, int):
            return
        one.partial.clear()
        one.header = found
        if found is None:
            one.is_lost = True
            return
        one.left = found.length
        if found.opcode >= _CONTROL:
            one.run = Run(one.buffer, self._rules)
        else:
            if found.opcode or one.message is None:
                if one.message is not None:
                    one.message.end()
                one.message = Run(one.buffer, self._rules, is_blind=found.compressed)
            one.run = one.message
        self._frame_done(one)

    def _frame_done(self, one: _WebSocketSide) -> None:
        if one.left or one.header is None or one.run is None:
            return
        if one.header.opcode >= _CONTROL or one.header.final:
            one.run.end()
            if one.run is one.message:
                one.message = None
        one.header = one.run = None
