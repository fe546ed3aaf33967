"""Blanks secrets in JSON-RPC: each line is a text, as the body of a request over HTTP is."""

from sslsniff.decoders.messages import SIDES, Side
from sslsniff.redaction.pending_bytes import PendingBytes
from sslsniff.redaction.rules import Rules
from sslsniff.redaction.text_run import TextRun


class JsonRpcRedactor:
    """Redacts both directions of a connection. See ``redactor._ProtocolRedactor``.

    No secret goes on in the next line: JSON escapes line ends. Of messages after a header with
    their length, two may be in one line; that does no harm.
    """

    def __init__(self, buffers: dict[Side, PendingBytes], rules: Rules) -> None:
        self._buffers = buffers
        self._rules = rules
        self._lines = {side: self._new_line(side) for side in SIDES}

    def feed(self, side: Side, data: bytes, at: int) -> None:
        """Feed the next bytes that ``side`` sent, which are at ``at`` in its buffer."""
        *lines, rest = data.split(b"\n")
        for line in lines:  # their ends stay, also where all of a line is blanked
            self._lines[side].feed(line, at)
            self._end_line(side, is_whole=True)
            at += len(line) + 1
        self._lines[side].feed(rest, at)

    def gap(self, side: Side, missing: int) -> None:
        """Note lost bytes: what waits is blanked, and the rest of the line."""
        self._lines[side].blank_undecided()

    def end(self, side: Side) -> None:
        """End a direction: decide on the bytes that wait."""
        self._end_line(side, is_whole=False)

    def _end_line(self, side: Side, *, is_whole: bool) -> None:
        self._lines[side].end(is_whole=is_whole)
        self._lines[side] = self._new_line(side)

    def _new_line(self, side: Side) -> TextRun:
        return TextRun(self._buffers[side], self._rules, where=f"{side.value} message")
