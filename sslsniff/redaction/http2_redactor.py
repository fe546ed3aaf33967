"""Redacts an HTTP/2 connection (RFC 9113): header blocks, and the bodies of its streams."""

from dataclasses import dataclass, field

from sslsniff.core.redacted import NO_MESSAGE
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
from sslsniff.redaction.text_run import TextRun

_MOST_BLOCK_BYTES = 256 << 10
_MOST_BLOCK_PIECES = 4096  # each frame has at least sender
_PIECE_BYTES = 4 << 10
_SEARCHED_BYTES = 256
"""How many bytes are searched for a frame at once.

Bytes after the frame are read again: a peer that is often out of sync must not make that costly.
"""
_MOST_STREAMS = 4096
_NUMBERS = {PRIORITY: 5, RST_STREAM: 4, SETTINGS: LONGEST, PING: 8, GOAWAY: 8, WINDOW_UPDATE: 4}
"""How many bytes of a frame are numbers; text after them is blanked."""
_BLOCK_FRAMES = (HEADERS, PUSH_PROMISE, CONTINUATION)
_MESSAGES = {Side.CLIENT: "request", Side.SERVER: "response"}


@dataclass(slots=True, eq=False)
class _Http2Side:
    """How far sender side's frames were read."""

    message: str
    buffer: PendingBytes
    blocks: HeaderBlocks
    sync: FrameSync | None = field(default_factory=lambda: FrameSync(LONGEST))
    partial: bytearray = field(default_factory=bytearray)
    kind: int = -1
    flags: int = 0
    stream: int = 0
    length: int = 0
    left_bytes: int = 0  # of the payload
    padding: int = 0
    is_promise: bool = False  # the last block with a beginning is of a PUSH_PROMISE
    is_in_block: bool = False  # a block seen from its start: the rest of sender cannot be read
    block: list[tuple[int, bytearray]] = field(
        default_factory=list
    )  # position and bytes of a piece
    block_bytes: int = 0
    runs: dict[int, TextRun] = field(default_factory=dict)

    def add_to_block(self, at: int, piece: bytes) -> None:
        """Add bytes of a header block, which wait for its end."""
        if self.block and self.block[-1][0] + len(self.block[-1][1]) == at:
            self.block[-1][1].extend(piece)
        else:
            self.block.append((at, bytearray(piece)))
        self.block_bytes += len(piece)
        self.buffer.undecided.setdefault(self, at)
        if self.block_bytes > _MOST_BLOCK_BYTES or len(self.block) > _MOST_BLOCK_PIECES:
            self.blank_undecided()

    def end_block(self) -> None:
        """Forget the bytes of a block: they are decided."""
        self.block.clear()
        self.block_bytes = 0
        self.is_in_block = False

    def blank_undecided(self) -> None:
        """See ``pending_bytes.PendingReader``: blanks an unfinished block, or frame."""
        start = self.buffer.undecided.pop(self, None)
        if start is not None:
            places = [(start, len(self.sync.buffer))] if self.sync else []
            for at, size in places or [(at, len(piece)) for at, piece in self.block]:
                self.buffer.blank(at, at + size)
        self.end_block()
        self.blocks.forget()


class Http2Redactor:
    """Blanks secrets in both sides' buffers. Memory: each side's header block, and its streams."""

    def __init__(self, buffers: dict[Side, PendingBytes], rules: Rules) -> None:
        self._rules = rules
        self._sides = {
            side: _Http2Side(each, buffers[side], HeaderBlocks(each, rules))
            for side, each in _MESSAGES.items()
        }
        self._tunnels: set[int] = set()

    def feed(self, side: Side, data: bytes, at: int) -> None:
        """Feed the next bytes that ``side`` sent, which are at ``at`` in its buffer."""
        for start in range(0, len(data), _PIECE_BYTES):
            self._feed(self._sides[side], data[start : start + _PIECE_BYTES], at + start)

    def _feed(self, sender: _Http2Side, data: bytes, at: int) -> None:
        pos = 0
        while pos < len(data):
            if sender.sync is not None:
                piece = data[pos : pos + _SEARCHED_BYTES]
                pos += len(piece)
                found, start = self._search_frame(sender, sender.sync, piece, at + pos - len(piece))
                if found:
                    data, at, pos = found + data[pos:], start, 0
            elif sender.kind < 0:
                pos += self._header(sender, data, pos)
            else:
                piece = data[pos : pos + sender.left_bytes]
                self._payload(sender, piece, at + pos)
                pos += len(piece)

    def gap(self, side: Side, missing: int) -> None:
        """Note lost bytes. Only inside a body it is known where the frames continue."""
        sender = self._sides[side]
        if sender.kind == DATA and missing < sender.left_bytes:
            sender.left_bytes -= missing
            self._body(sender).blank_undecided()
        else:
            self._resynchronise(sender)

    def end(self, side: Side) -> None:
        """End a direction: decide on the bytes that wait."""
        sender = self._sides[side]
        sender.blank_undecided()
        for run in sender.runs.values():
            run.end(is_whole=False)

    def _resynchronise(self, sender: _Http2Side) -> None:
        """Blank what waits, and all bytes up to the next frame that is found."""
        sender.blank_undecided()
        for run in sender.runs.values():
            run.blank_undecided()
        sender.partial.clear()
        sender.kind = -1
        sender.sync = FrameSync(LONGEST)

    def _search_frame(
        self, sender: _Http2Side, sync: FrameSync, data: bytes, at: int
    ) -> tuple[bytes, int]:
        """Search for a frame, and blank the bytes before it.

        Return the bytes from the frame on, and their position: no bytes if none is found yet.
        """
        start = at - len(sync.buffer)
        found = sync.feed(data)
        count = found[0] if found else sync.droppable()
        sender.buffer.blank(start, start + count)
        self._rules.blanked.unread_bytes += count
        start += count
        if found is None:
            sync.drop(count)
            sender.buffer.undecided[sender] = start
            return b"", start
        sender.buffer.undecided.pop(sender, None)
        sender.sync = None
        frame = bytes(sync.buffer[count:])
        preface = len(PREFACE) if frame.startswith(PREFACE) else 0
        return frame[preface:], start + preface

    def _header(self, sender: _Http2Side, data: bytes, pos: int) -> int:
        """Read bytes of a frame's header; return how many."""
        piece = data[pos : pos + HEADER_SIZE - len(sender.partial)]
        sender.partial += piece
        if len(sender.partial) == HEADER_SIZE:
            kind, sender.flags, stream = unpack_header(sender.partial, 0)
            sender.partial.clear()
            sender.kind, sender.length, sender.stream = kind & 0xFF, kind >> 8, stream & 0x7FFFFFFF
            sender.left_bytes, sender.padding = sender.length, 0
            sender.is_in_block |= sender.kind in (HEADERS, PUSH_PROMISE)
            if header_fault(sender.kind, sender.flags, sender.stream, sender.length):
                self._resynchronise(sender)
            elif not sender.left_bytes:
                self._frame_done(sender)
        return len(piece)

    def _payload(self, sender: _Http2Side, piece: bytes, at: int) -> None:
        """Redact bytes of the current frame's payload."""
        done = sender.length - sender.left_bytes
        sender.left_bytes -= len(piece)
        if sender.kind in _BLOCK_FRAMES and sender.is_in_block:
            sender.add_to_block(at, piece)
        elif sender.kind == DATA:
            self._data(sender, piece, at, done)
        else:
            numbers = max(0, _NUMBERS.get(sender.kind, 0) - done)
            if numbers < len(piece):
                sender.buffer.blank(at + numbers, at + len(piece))
                self._rules.blanked.unread_bytes += len(piece) - numbers
        if not sender.left_bytes:
            self._frame_done(sender)

    def _data(self, sender: _Http2Side, piece: bytes, at: int, done: int) -> None:
        if sender.flags & PADDED and not done:
            sender.padding = piece[0]
            piece, at = piece[1:], at + 1
        padded = max(0, min(len(piece), sender.padding - sender.left_bytes))
        body = piece[: len(piece) - padded]
        sender.buffer.blank(at + len(body), at + len(piece))
        self._body(sender).feed(body, at)

    def _frame_done(self, sender: _Http2Side) -> None:
        kind, sender.kind = sender.kind, -1
        if kind in (HEADERS, PUSH_PROMISE):
            _strip(sender, kind)
            sender.is_promise = kind == PUSH_PROMISE
        if kind in _BLOCK_FRAMES and sender.is_in_block and sender.flags & END_HEADERS:
            self._block_done(sender)
        if (kind in (DATA, HEADERS) and sender.flags & END_STREAM) or kind == RST_STREAM:
            run = sender.runs.pop(sender.stream, None)
            if run is not None:
                run.end(is_whole=kind != RST_STREAM)

    def _block_done(self, sender: _Http2Side) -> None:
        block, fields, found = sender.blocks.redact(b"".join(piece for _, piece in sender.block))
        # A pushed request is no message of its stream.
        if found:
            message = NO_MESSAGE if sender.is_promise else (sender.stream, None)
            sender.buffer.mark(sender.block[0][0], message, found)
        done = 0
        for at, piece in sender.block:
            sender.buffer.write(at, block[done : done + len(piece)])
            done += len(piece)
        sender.end_block()
        sender.buffer.undecided.pop(sender, None)
        if (":method", "CONNECT") in fields:
            if len(self._tunnels) >= _MOST_STREAMS:
                self._tunnels.clear()
            self._tunnels.add(sender.stream)
        if any(name and name[0] == ":" for name, _ in fields):  # no trailers
            self._begin_body(sender, Headers(fields), blanks_all=sender.stream in self._tunnels)

    def _body(self, sender: _Http2Side) -> TextRun:
        """Return the run of the current body; it blanks all if the head was not seen."""
        run = sender.runs.get(sender.stream)
        if run is None:
            run = self._begin_body(sender, blanks_all=True)
        return run

    def _begin_body(
        self, sender: _Http2Side, headers: Headers | None = None, *, blanks_all: bool
    ) -> TextRun:
        if len(sender.runs) >= _MOST_STREAMS:
            sender.runs.pop(next(iter(sender.runs))).end(is_whole=False)
        run = sender.runs[sender.stream] = TextRun(
            sender.buffer,
            self._rules,
            headers,
            where=f"{sender.message} body",
            message=(sender.stream, None),
            blanks_all=blanks_all,
        )
        return run


def _strip(sender: _Http2Side, kind: int) -> None:
    """Remove padding and prefix fields, so that the payload is a fragment of a header block.

    Padding is blanked: it should be zeros, but may be anything (RFC 9113 section 6.1).
    """
    padded = sender.flags & PADDED and sender.block
    back = sender.block[0][1][0] if padded else 0
    front = bool(padded) + (4 if kind == PUSH_PROMISE else 5 * bool(sender.flags & PRIORITY_FLAG))
    pieces = sender.block
    while front and pieces:
        at, piece = pieces.pop(0)
        if len(piece) > front:
            pieces.insert(0, (at + front, piece[front:]))
        front -= min(front, len(piece))
    while back and pieces:
        at, piece = pieces.pop()
        cut = max(0, len(piece) - back)
        sender.buffer.blank(at + cut, at + len(piece))
        if cut:
            pieces.append((at, piece[:cut]))
        back -= len(piece) - cut
