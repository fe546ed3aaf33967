"""Redaction of an HTTP/2 connection (RFC 9113): header blocks, and the bodies of its streams."""

from dataclasses import dataclass, field

from sslsniff.decoders.http2.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADER_SIZE,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PRIORITY_FLAG,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    header_fault,
    unpack_header,
)
from sslsniff.decoders.http2.sync import LONGEST, FrameSync
from sslsniff.decoders.messages import Headers, Side
from sslsniff.redaction.header_block import HeaderBlocks
from sslsniff.redaction.pending_bytes import PendingBytes
from sslsniff.redaction.rules import Rules
from sslsniff.redaction.text_run import Run, is_opaque

_MOST_BLOCK_BYTES = 256 << 10
_MOST_BLOCK_PIECES = 4096  # a frame is one at least
_PIECE_BYTES = 4 << 10
_SEARCHED_BYTES = 256
"""So many bytes are read, and searched for a frame, at once: little of that is done again where
hostile ones are often out of sync."""
_MOST_STREAMS = 4096
_NUMBERS = {PRIORITY: 5, RST_STREAM: 4, SETTINGS: LONGEST, PING: 8, GOAWAY: 8, WINDOW_UPDATE: 4}
"""The bytes of a frame that are numbers; text after them is blanked."""
_OF_BLOCK = (HEADERS, PUSH_PROMISE, CONTINUATION)


@dataclass(slots=True, eq=False)
class _Http2Side:
    """How far one side's frames were read: ``left`` bytes of the payload at hand are to come."""

    buffer: PendingBytes
    blocks: HeaderBlocks
    sync: FrameSync | None = field(default_factory=lambda: FrameSync(LONGEST))
    partial: bytearray = field(default_factory=bytearray)
    kind: int = -1
    flags: int = 0
    stream: int = 0
    length: int = 0
    left: int = 0
    padding: int = 0
    is_in_block: bool = False  # of which all was seen: from its middle on none can be read
    block: list[tuple[int, bytearray]] = field(default_factory=list)  # where a piece is, and itself
    block_bytes: int = 0
    runs: dict[int, Run] = field(default_factory=dict)

    def add_to_block(self, at: int, piece: bytes) -> None:
        """Keep bytes of a header block back."""
        if self.block and self.block[-1][0] + len(self.block[-1][1]) == at:
            self.block[-1][1].extend(piece)
        else:
            self.block.append((at, bytearray(piece)))
        self.block_bytes += len(piece)
        self.buffer.holds.setdefault(self, at)
        if self.block_bytes > _MOST_BLOCK_BYTES or len(self.block) > _MOST_BLOCK_PIECES:
            self.give_up()

    def end_block(self) -> None:
        """Note that what is kept of a block is done with."""
        self.block.clear()
        self.block_bytes = 0
        self.is_in_block = False

    def give_up(self) -> None:
        """See ``pending_bytes.PendingReader``: blank an unfinished block, or frame."""
        held = self.buffer.holds.pop(self, None)
        if held is not None:
            places = [(held, len(self.sync.buffer))] if self.sync else []
            for at, size in places or [(at, len(piece)) for at, piece in self.block]:
                self.buffer.blank(at, at + size)
        self.end_block()
        self.blocks.forget()


class Http2Redactor:
    """Blanks in both sides' buffers. Memory: for each side a header block, and its streams."""

    def __init__(self, buffers: dict[Side, PendingBytes], rules: Rules) -> None:
        self._rules = rules
        self._sides = {side: _Http2Side(buffers[side], HeaderBlocks(rules)) for side in Side}
        self._tunnels: set[int] = set()

    def feed(self, side: Side, data: bytes, at: int) -> None:
        """Feed the next bytes that ``side`` sent, which are at ``at`` on its buffer."""
        for start in range(0, len(data), _PIECE_BYTES):
            self._feed(self._sides[side], data[start : start + _PIECE_BYTES], at + start)

    def _feed(self, one: _Http2Side, data: bytes, at: int) -> None:
        pos = 0
        while pos < len(data):
            if one.sync is not None:
                piece = data[pos : pos + _SEARCHED_BYTES]
                pos += len(piece)
                found, start = self._find_step(one, one.sync, piece, at + pos - len(piece))
                if found:
                    data, at, pos = found + data[pos:], start, 0
            elif one.kind < 0:
                pos += self._header(one, data, pos)
            else:
                piece = data[pos : pos + one.left]
                self._payload(one, piece, at + pos)
                pos += len(piece)

    def gap(self, side: Side, missing: int) -> None:
        """Note lost bytes: only inside a body it is known where frames continue."""
        one = self._sides[side]
        if one.kind == DATA and missing < one.left:
            one.left -= missing
            self._body(one).give_up()
        else:
            self._lose_step(one)

    def end(self, side: Side) -> None:
        """Take the end of a direction."""
        one = self._sides[side]
        one.give_up()
        for run in one.runs.values():
            run.end()

    def _lose_step(self, one: _Http2Side) -> None:
        one.give_up()
        for run in one.runs.values():
            run.give_up()
        one.partial.clear()
        one.kind = -1
        one.sync = FrameSync(LONGEST)

    def _find_step(
        self, one: _Http2Side, sync: FrameSync, data: bytes, at: int
    ) -> tuple[bytes, int]:
        """Look for a frame, and blank the bytes before it; return it and what follows, and where.

        While there is none, these are no bytes.
        """
        start = at - len(sync.buffer)
        found = sync.feed(data)
        count = found[0] if found else sync.droppable()
        one.buffer.blank(start, start + count)
        self._rules.blanked.unread_bytes += count
        start += count
        if found is None:
            sync.drop(count)
            one.buffer.holds[one] = start
            return b"", start
        one.buffer.holds.pop(one, None)
        one.sync = None
        held = bytes(sync.buffer[count:])
        preface = len(PREFACE) if held.startswith(PREFACE) else 0
        return held[preface:], start + preface

    def _header(self, one: _Http2Side, data: bytes, pos: int) -> int:
        """Take bytes of a frame's header; return how many."""
        taken = data[pos : pos + HEADER_SIZE - len(one.partial)]
        one.partial += taken
        if len(one.partial) == HEADER_SIZE:
            kind, one.flags, stream = unpack_header(one.partial, 0)
            one.partial.clear()
            one.kind, one.length, one.stream = kind & 0xFF, kind >> 8, stream & 0x7FFFFFFF
            one.left, one.padding = one.length, 0
            one.is_in_block |= one.kind in (HEADERS, PUSH_PROMISE)
            if header_fault(one.kind, one.flags, one.stream, one.length):
                self._lose_step(one)
            elif not one.left:
                self._frame_done(one)
        return len(taken)

    def _payload(self, one: _Http2Side, piece: bytes, at: int) -> None:
        """Take bytes of the payload at hand."""
        done = one.length - one.left
        one.left -= len(piece)
        if one.kind in _OF_BLOCK and one.is_in_block:
            one.add_to_block(at, piece)
        elif one.kind == DATA:
            self._data(one, piece, at, done)
        else:
            text = max(0, _NUMBERS.get(one.kind, 0) - done)
            if text < len(piece):
                one.buffer.blank(at + text, at + len(piece))
                self._rules.blanked.unread_bytes += len(piece) - text
        if not one.left:
            self._frame_done(one)

    def _data(self, one: _Http2Side, piece: bytes, at: int, done: int) -> None:
        if one.flags & PADDED and not done:
            one.padding = piece[0]
            piece, at = piece[1:], at + 1
        padded = max(0, min(len(piece), one.padding - one.left))
        body = piece[: len(piece) - padded]
        one.buffer.blank(at + len(body), at + len(piece))
        self._body(one).feed(body, at)

    def _frame_done(self, one: _Http2Side) -> None:
        kind, one.kind = one.kind, -1
        if kind in (HEADERS, PUSH_PROMISE):
            _strip(one, kind)
        if kind in _OF_BLOCK and one.is_in_block and one.flags & END_HEADERS:
            self._block_done(one)
        if (kind in (DATA, HEADERS) and one.flags & END_STREAM) or kind == RST_STREAM:
            run = one.runs.pop(one.stream, None)
            if run is not None:
                run.end()

    def _block_done(self, one: _Http2Side) -> None:
        block, fields = one.blocks.redact(b"".join(piece for _, piece in one.block))
        done = 0
        for at, piece in one.block:
            one.buffer.write(at, block[done : done + len(piece)])
            done += len(piece)
        one.end_block()
        one.buffer.holds.pop(one, None)
        if (":method", "CONNECT") in fields:
            if len(self._tunnels) >= _MOST_STREAMS:
                self._tunnels.clear()
            self._tunnels.add(one.stream)
        if any(name and name[0] == ":" for name, _ in fields):  # no trailers
            self._begin(one, is_blind=one.stream in self._tunnels or is_opaque(Headers(fields)))

    def _body(self, one: _Http2Side) -> Run:
        """Return the run of a body; where its head was not seen, it is blind."""
        run = one.runs.get(one.stream)
        if run is None:
            run = self._begin(one, is_blind=True)
        return run

    def _begin(self, one: _Http2Side, *, is_blind: bool) -> Run:
        if len(one.runs) >= _MOST_STREAMS:
            one.runs.pop(next(iter(one.runs))).end()
        run = one.runs[one.stream] = Run(one.buffer, self._rules, is_blind=is_blind)
        return run


def _strip(one: _Http2Side, kind: int) -> None:
    """Take what is no fragment of a block off a frame's payload: padding and prefix fields.

    Padding is blanked (RFC 9113 section 6.1: it should be zeros, but may say anything).
    """
    padded = one.flags & PADDED and one.block
    back = one.block[0][1][0] if padded else 0
    front = bool(padded) + (4 if kind == PUSH_PROMISE else 5 * bool(one.flags & PRIORITY_FLAG))
    pieces = one.block
    while front and pieces:
        at, piece = pieces.pop(0)
        if len(piece) > front:
            pieces.insert(0, (at + front, piece[front:]))
        front -= min(front, len(piece))
    while back and pieces:
        at, piece = pieces.pop()
        cut = max(0, len(piece) - back)
        one.buffer.blank(at + cut, at + len(piece))
        if cut:
            pieces.append((at, piece[:cut]))
        back -= len(piece) - cut
