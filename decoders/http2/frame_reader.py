"""Reads the frames of one direction of an HTTP/2 connection (RFC 9113 section 4.1).

DATA is passed on in pieces, other frames when they are whole. After a gap, or if joined in the
middle, :class:`~sslsniff.decoders.http2.sync.FrameSync` finds the next frame.

Memory: one frame other than DATA (``MAX_PAYLOAD``), or that of ``FrameSync``.
"""

from enum import Enum, auto
from typing import Protocol

from sslsniff.decoders.decoder import CLOSED
from sslsniff.decoders.http2.frames import (
    DATA,
    DEFAULT_MAX_FRAME,
    END_STREAM,
    HEADER_SIZE,
    HEADERS,
    PADDED,
    PREFACE,
    header_fault,
    type_name,
    unpack_header,
)
from sslsniff.decoders.http2.sync import LONGEST, FrameSync
from sslsniff.decoders.messages import Message, Side
from sslsniff.decoders.undecoded_run import UndecodedRun

MAX_PAYLOAD = 256 * 1024
"""The largest frame other than DATA that is read; a larger one is skipped."""

NOT_A_FRAME = "not the start of a frame"
BYTES_LOST = "bytes lost"
_MAX_FAULTS = 3  # so many invalid frames in a row mean that the bytes are no frames
_PIECE = 64 * 1024


class Mode(Enum):
    """What the next byte belongs to."""

    SYNC = auto()
    HEADER = auto()
    PAYLOAD = auto()
    PAD_LENGTH = auto()
    BODY = auto()
    SKIP = auto()


class FrameHandler(Protocol):
    """Handles the frames of a reader."""

    def frame(
        self, side: Side, kind: int, flags: int, stream: int, payload: bytes, out: list[Message]
    ) -> None:
        """Handle a whole frame other than DATA."""

    def data(self, side: Side, stream: int, data: bytes, missing: int, out: list[Message]) -> None:
        """Handle a piece of a DATA frame; ``missing`` bytes were lost just before it."""

    def data_end(
        self, side: Side, flags: int, stream: int, length: int, out: list[Message]
    ) -> None:
        """Handle the end of a DATA frame of ``length`` bytes, with its padding."""

    def frame_lost(
        self, side: Side, kind: int, flags: int, stream: int, length: int, out: list[Message]
    ) -> None:
        """Note that a frame could not be read; the start of the next one is known."""

    def frames_lost(self, side: Side, missing: int, out: list[Message]) -> None:
        """Note that frames of about ``missing`` bytes were lost."""

    def joined(self, side: Side) -> None:
        """Note that the first frame to be read is not the first of the connection."""


class FrameReader:
    """Reads the frames that ``side`` sends, and passes them to ``handler``."""

    __slots__ = (
        "_faults",
        "_flags",
        "_handler",
        "_kind",
        "_length",
        "_mode",
        "_pad",
        "_partial",
        "_payload",
        "_remaining",
        "_stream",
        "_sync",
        "_undecoded",
        "max_frame",
        "side",
    )

    def __init__(self, side: Side, handler: FrameHandler) -> None:
        self.max_frame = DEFAULT_MAX_FRAME
        self.side = side
        self._handler = handler
        self._mode = Mode.SYNC
        self._sync: FrameSync | None = FrameSync(LONGEST)
        self._undecoded = UndecodedRun(side, NOT_A_FRAME)
        self._partial = bytearray()
        self._payload = bytearray()
        self._kind = self._flags = self._stream = self._length = 0
        self._remaining = self._pad = self._faults = 0

    @property
    def is_between(self) -> bool:
        """Whether the next byte begins a frame."""
        return self._mode is Mode.HEADER and not self._partial

    @property
    def held_bytes(self) -> int:
        """The memory that it uses."""
        sync = self._sync.held_bytes if self._sync is not None else 0
        return len(self._payload) + sync + self._undecoded.held_bytes

    def feed(self, data: bytes, out: list[Message]) -> None:
        """Feed bytes; call the handler with what they complete."""
        if len(data) > _PIECE:
            # Limits the work if hostile bytes lose sync again and again.
            for start in range(0, len(data), _PIECE):
                self.feed(data[start : start + _PIECE], out)
            return
        rest: bytes | None = data
        while rest:
            if self._sync is not None:
                rest = self._find_start(rest, out)
            if rest:
                rest = self._read(rest, out)

    def _read(self, data: bytes, out: list[Message]) -> bytes | None:
        """Read frames; return the rest of the bytes if the next frame must be searched there."""
        pos, size = 0, len(data)
        while pos < size:
            mode = self._mode
            if mode is Mode.HEADER:
                if self._partial:
                    needed = HEADER_SIZE - len(self._partial)
                    self._partial += data[pos : pos + needed]
                    pos += needed
                    if len(self._partial) < HEADER_SIZE:
                        return None
                    kind, self._flags, stream = unpack_header(self._partial, 0)
                    self._partial.clear()
                elif size - pos < HEADER_SIZE:
                    self._partial += data[pos:]
                    return None
                else:
                    kind, self._flags, stream = unpack_header(data, pos)
                    pos += HEADER_SIZE
                self._length = length = kind >> 8
                self._kind = kind & 0xFF
                self._stream = stream & 0x7FFFFFFF
                if size - pos >= length and self._pass_whole(data, pos, length, out):
                    pos += length
                    continue
                if length > self.max_frame and not self._is_long_data(length):
                    self._resynchronise(NOT_A_FRAME, 0, out)
                    header = kind.to_bytes(4, "big") + bytes((self._flags,))
                    rest: bytes = header + stream.to_bytes(4, "big") + data[pos:]
                    return rest
                self._begin(length, out)
                mode = self._mode
                if mode is Mode.SYNC:
                    return data[pos:]
                if mode is Mode.PAYLOAD and size - pos >= length:
                    payload = data[pos : pos + length]
                    pos += length
                    self._mode = Mode.HEADER
                    self._handler.frame(
                        self.side, self._kind, self._flags, self._stream, payload, out
                    )
            elif mode is Mode.BODY:
                stop = min(size, pos + self._remaining)
                self._remaining -= stop - pos
                self._handler.data(self.side, self._stream, data[pos:stop], 0, out)
                pos = stop
                if not self._remaining:
                    self._body_done(out)
            elif mode is Mode.PAYLOAD:
                stop = min(size, pos + self._remaining)
                self._remaining -= stop - pos
                self._payload += data[pos:stop]
                pos = stop
                if not self._remaining:
                    self._payload_done(out)
            elif mode is Mode.PAD_LENGTH:
                self._set_padding(data[pos], out)
                pos += 1
            else:  # SKIP
                stop = min(size, pos + self._remaining)
                self._remaining -= stop - pos
                self._undecoded.append(data, pos, stop)
                pos = stop
                if not self._remaining:
                    self._skip_done(out)
        return None

    def _pass_whole(self, data: bytes, pos: int, length: int, out: list[Message]) -> bool:
        """Pass on a whole frame of the two usual types without a change of mode; return if so."""
        kind, flags, stream = self._kind, self._flags, self._stream
        if not stream or length > DEFAULT_MAX_FRAME:
            return False
        if kind == HEADERS:
            payload = data[pos : pos + length]
            self._handler.frame(self.side, kind, flags, stream, payload, out)
        elif kind == DATA and not flags & PADDED:
            if length:
                self._handler.data(self.side, stream, data[pos : pos + length], 0, out)
            self._handler.data_end(self.side, flags, stream, length, out)
        else:
            return False
        self._faults = 0
        return True

    def gap(self, missing: int, out: list[Message]) -> None:
        """Skip lost bytes; unless all were inside a frame, search for the next frame."""
        mode = self._mode
        if mode is Mode.PAD_LENGTH:
            self._set_padding(0, out)
            mode = self._mode
        if mode is Mode.BODY:
            inside = min(missing, self._remaining)
            self._handler.data(self.side, self._stream, b"", inside, out)
            self._remaining -= inside
            missing -= inside
            if not self._remaining:
                self._body_done(out)
        elif mode is Mode.PAYLOAD:
            self._undecoded.reason = BYTES_LOST
            self._drop_header()
            self._undecoded.append(self._payload, 0, len(self._payload))
            self._payload.clear()
            self._mode = Mode.SKIP
            kind, flags, stream = self._kind, self._flags, self._stream
            self._handler.frame_lost(self.side, kind, flags, stream, self._length, out)
        if missing and self._mode is Mode.SKIP:
            inside = min(missing, self._remaining)
            self._remaining -= inside
            missing -= inside
            if not self._remaining:
                self._skip_done(out)
        if missing:
            self._resynchronise(BYTES_LOST, missing, out)

    def end(self, out: list[Message], reason: str = CLOSED) -> None:
        """Handle the end of the direction; an incomplete frame is undecoded."""
        if self._sync is None:
            self._undecoded.reason = reason
        mode, is_begun = self._mode, self._remaining < self._length
        if mode in (Mode.PAYLOAD, Mode.PAD_LENGTH) or (mode is Mode.BODY and not is_begun):
            self._drop_header()
        self._drop_buffers()
        self._undecoded.report(out)

    def expect_start(self) -> None:
        """Read the next byte as a frame's first, without a search."""
        self._sync = None
        self._mode = Mode.HEADER

    def _find_start(self, data: bytes, out: list[Message]) -> bytes | None:
        sync = self._sync
        assert sync is not None
        found = sync.feed(data)
        if found is None:
            count = sync.droppable()
            if count:
                self._undecoded.append(sync.buffer, 0, count)
                sync.drop(count)
            return None
        start, _ = found
        data = bytes(sync.buffer)
        self._undecoded.append(data, 0, start)
        self._undecoded.report(out)
        self.expect_start()
        self._faults = 0
        if data.startswith(PREFACE, start):
            return data[start + len(PREFACE) :]
        # A server begins with SETTINGS that are no acknowledgement (section 3.4).
        first_settings = sync.dropped + start == 0 and data[3:5] == b"\x04\x00"
        if not (first_settings and self.side is Side.SERVER):
            # The peer's SETTINGS_MAX_FRAME_SIZE is not known.
            self.max_frame = max(self.max_frame, LONGEST)
            self._handler.joined(self.side)
        return data[start:]

    def _begin(self, length: int, out: list[Message]) -> None:
        """Set the mode for the rest of a frame, by its header."""
        kind, flags, stream = self._kind, self._flags, self._stream
        self._remaining = length
        fault = header_fault(kind, flags, stream, length)
        if fault is None and length > (self.max_frame if kind == DATA else MAX_PAYLOAD):
            fault = f"{type_name(kind)} frame of {length} bytes"
        if fault is not None:
            self._faults += 1
            if self._faults >= _MAX_FAULTS:
                fault = NOT_A_FRAME
            self._skip_frame(fault, out)
            if self._faults >= _MAX_FAULTS:
                self._resynchronise(NOT_A_FRAME, 0, out)
            return
        self._faults = 0
        if kind != DATA:
            self._mode = Mode.PAYLOAD
            if not length:
                self._mode = Mode.HEADER
                self._handler.frame(self.side, kind, flags, stream, b"", out)
        elif flags & PADDED:
            self._pad = 0
            self._mode = Mode.PAD_LENGTH
            if not length:
                self._skip_frame("DATA frame without its padding", out)
        else:
            self._pad = 0
            self._mode = Mode.BODY
            if not length:
                self._body_done(out)

    def _is_long_data(self, length: int) -> bool:
        """Return whether a frame that is too long is DATA whose length may be right all the same.

        The peer then ends the stream or the connection (RFC 9113 section 4.2), not always at once.
        """
        is_data = self._kind == DATA and self._stream and not self._flags & ~(PADDED | END_STREAM)
        return bool(is_data) and length <= LONGEST

    def _skip_frame(self, fault: str, out: list[Message]) -> None:
        """Skip the rest of an invalid frame, on the assumption that its length is right."""
        self._undecoded.report(out)
        self._undecoded.reason = fault
        self._drop_header()
        self._mode = Mode.SKIP
        self._handler.frame_lost(
            self.side, self._kind, self._flags, self._stream, self._length, out
        )
        if not self._remaining:
            self._skip_done(out)

    def _set_padding(self, pad: int, out: list[Message]) -> None:
        self._remaining -= 1 + pad
        if self._remaining < 0:  # section 6.1: padding as long as the payload or longer
            self._remaining += pad
            self._skip_frame("DATA frame with too much padding", out)
            return
        self._pad = pad
        self._mode = Mode.BODY
        if not self._remaining:
            self._body_done(out)

    def _body_done(self, out: list[Message]) -> None:
        self._mode = Mode.HEADER
        self._handler.data_end(self.side, self._flags, self._stream, self._length, out)
        if self._pad:
            self._remaining, self._pad = self._pad, 0
            self._mode = Mode.SKIP
            self._undecoded.reason = ""  # padding is no loss, see _skip_done

    def _payload_done(self, out: list[Message]) -> None:
        payload = bytes(self._payload)
        self._payload.clear()
        self._mode = Mode.HEADER
        self._handler.frame(self.side, self._kind, self._flags, self._stream, payload, out)

    def _skip_done(self, out: list[Message]) -> None:
        self._mode = Mode.HEADER
        if self._undecoded.reason:
            self._undecoded.report(out)
        else:
            self._undecoded.discard()

    def _drop_header(self) -> None:
        header = (self._length << 8 | self._kind).to_bytes(4, "big") + bytes((self._flags,))
        self._undecoded.append(header + self._stream.to_bytes(4, "big"), 0, HEADER_SIZE)

    def _drop_buffers(self) -> None:
        searched = self._sync.buffer if self._sync else bytearray()
        for buffer in (self._partial, self._payload, searched):
            self._undecoded.append(buffer, 0, len(buffer))
            buffer.clear()

    def _resynchronise(self, reason: str, missing: int, out: list[Message]) -> None:
        """Drop the buffered bytes, and search for the next frame."""
        if self._sync is None:
            self._undecoded.reason = reason
        self._drop_buffers()
        self._undecoded.report(out)
        self._undecoded.reason = reason
        self._handler.frames_lost(self.side, missing, out)
        self._mode = Mode.SYNC
        self._sync = FrameSync(self.max_frame)
