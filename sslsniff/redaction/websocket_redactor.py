"""Redacts a connection that became a WebSocket (RFC 6455)."""

from sslsniff.decoders.inner.websocket import FrameHeader, read_header, unmask
from sslsniff.decoders.messages import SIDES, Side
from sslsniff.redaction.pending_bytes import PendingBytes
from sslsniff.redaction.rules import Rules
from sslsniff.redaction.text_run import TextRun

_CONTROL = 8


class _WebSocketSide:
    def __init__(self, side: Side, buffer: PendingBytes) -> None:
        self.where = f"{side.value} message"
        self.buffer = buffer
        self.partial = bytearray()
        self.header: FrameHeader | None = None
        self.left_bytes = 0
        self.message: TextRun | None = None
        self.run: TextRun | None = None  # of the current frame
        self.is_lost = False


class WebSocketRedactor:
    """Blanks secrets in the buffers of both sides; all bytes of a side that is out of sync."""

    def __init__(self, buffers: dict[Side, PendingBytes], rules: Rules) -> None:
        self._rules = rules
        self._sides = {side: _WebSocketSide(side, buffers[side]) for side in SIDES}

    def feed(self, side: Side, data: bytes, at: int) -> None:
        """Feed the next bytes that ``side`` sent, which are at ``at`` in its buffer."""
        sender = self._sides[side]
        pos = 0
        while pos < len(data):
            if sender.is_lost:
                sender.buffer.blank(at + pos, at + len(data))
                self._rules.blanked.unread_bytes += len(data) - pos
                return
            if sender.header is None:
                sender.partial.append(data[pos])  # a header has at most 14 bytes
                pos += 1
                self._header(sender)
            else:
                piece = data[pos : pos + sender.left_bytes]
                mask, phase = sender.header.mask, sender.header.length - sender.left_bytes
                assert sender.run is not None
                sender.run.feed(unmask(piece, mask, phase), at + pos, mask, phase)
                pos += len(piece)
                sender.left_bytes -= len(piece)
                self._frame_done(sender)

    def gap(self, side: Side, missing: int) -> None:
        """Note lost bytes: everything after them is blanked."""
        sender = self._sides[side]
        sender.is_lost = True
        for run in (sender.message, sender.run):
            if run is not None:
                run.blank_undecided()

    def end(self, side: Side) -> None:
        """End a direction: decide on the bytes that wait."""
        sender = self._sides[side]
        for run in (sender.message, sender.run):
            if run is not None:
                run.end(is_whole=False)

    def _header(self, sender: _WebSocketSide) -> None:
        found = read_header(sender.partial, 0, len(sender.partial))
        if isinstance(found, int):
            return
        sender.partial.clear()
        sender.header = found
        if found is None:
            sender.is_lost = True
            return
        sender.left_bytes = found.length
        if found.opcode >= _CONTROL:
            sender.run = TextRun(sender.buffer, self._rules, where=sender.where)
        else:
            if found.opcode or sender.message is None:
                if sender.message is not None:
                    sender.message.end(is_whole=False)
                sender.message = TextRun(
                    sender.buffer, self._rules, where=sender.where, blanks_all=found.compressed
                )
            sender.run = sender.message
        self._frame_done(sender)

    def _frame_done(self, sender: _WebSocketSide) -> None:
        if sender.left_bytes or sender.header is None or sender.run is None:
            return
        if sender.header.opcode >= _CONTROL or sender.header.final:
            sender.run.end(is_whole=True)
            if sender.run is sender.message:
                sender.message = None
        sender.header = sender.run = None
