"""Decodes WebSocket (RFC 6455), also over HTTP/2 (RFC 8441): the frames of each side to messages.

Only the rules that are needed to stay in sync are checked. If joined in the middle, or after a
loss, the next frame is where some frames follow one another.
"""

import re
from typing import NamedTuple

from sslsniff.decoders.chain import ChainRule, ChainSync, Proves, any_chain
from sslsniff.decoders.decoder import CLOSED
from sslsniff.decoders.inner.partial_messages import PartialMessage, Reservation, Room
from sslsniff.decoders.inner.permessage_deflate import Inflater, takeover
from sslsniff.decoders.messages import SIDES, Headers, Message, Side, WebSocketMessage
from sslsniff.decoders.undecoded_run import UndecodedRun

_CONTINUATION = 0
_OPCODES = {1: "text", 2: "binary", 8: "close", 9: "ping", 10: "pong"}
_CONTROL = 8
_PLAIN = frozenset((0, 1, 2, 0x80, 0x81, 0x82, 0x88, 0x89, 0x8A))
_LONGEST_CONTROL = 125  # section 5.5

_PIECE = 16 << 10
_SEARCH_PIECE = 64
_MOST_RESYNCS = 100
"""If sync is lost more often than this without lost bytes, the bytes are not WebSocket."""

HEADER_BYTES = 2
"""The least bytes of a header (section 5.2)."""

NOT_A_FRAME = "not the start of a WebSocket frame"


class FrameHeader(NamedTuple):
    """A frame's header (section 5.2): its ``size``, and the ``length`` of the payload."""

    size: int
    length: int
    opcode: int
    final: bool
    compressed: bool
    mask: bytes


def read_header(data: bytes | bytearray, at: int, stop: int) -> FrameHeader | int | None:
    """Parse a frame's header at ``at``; None if it is none, a number if it needs so many bytes."""
    if stop - at < 2:
        return 2
    first, second = data[at], data[at + 1]
    opcode, length = first & 15, second & 127
    size = 2 + (0, 2, 8)[max(0, length - 125)]
    masked = 4 if second & 128 else 0
    if first & 0x30 or (opcode and opcode not in _OPCODES):
        return None  # reserved, and not used by any common extension (section 5.2)
    if opcode >= _CONTROL and (length > _LONGEST_CONTROL or first & 0xC0 != 0x80):
        return None
    if stop - at < size + masked:
        return size + masked
    if size > 2:
        length = int.from_bytes(data[at + 2 : at + size], "big")
        if length >> 63:
            return None
    return FrameHeader(
        size + masked,
        length,
        opcode,
        bool(first & 0x80),
        bool(first & 0x40),
        bytes(data[at + size : at + size + masked]),
    )


def _unit(data: bytes | bytearray, at: int, stop: int, masked: bool, may_compress: bool) -> int:
    if stop - at > 1:
        first, second = data[at], data[at + 1]
        if (second > 127) is not masked:
            return 0
        if first in _PLAIN and 0 < second & 127 < 126:  # the fast way for nearly all
            return (second & 127) + (6 if masked else 2)
    header = read_header(data, at, stop)
    if isinstance(header, int):
        return -header
    if header is None or not header.length:
        return 0
    if header.compressed and not (may_compress and 0 < header.opcode < _CONTROL):
        return 0
    return header.size + header.length


def chain_rule(
    side: Side,
    *,
    compressed: bool = True,
    enough: int = 3,
    unit_bytes: int = 16 << 10,
    proves: Proves = any_chain,
    not_before: bytes = b"",
) -> ChainRule:
    """Return how to recognise frames of ``side``: only clients mask them (section 5.1).

    ``not_before``: a look-ahead of a pattern, after the first byte, for what begins no proof.
    """
    masked = side is Side.CLIENT
    first = rb"\x00-\x02\x80-\x82\x88-\x8a" + (rb"\x41\x42\xc1\xc2" if compressed else b"")
    second = rb"\x81-\xff" if masked else rb"\x01-\x7f"
    return ChainRule(
        re.compile(b"[" + first + b"](?=[" + second + b"])" + not_before),
        HEADER_BYTES,
        lambda data, at, stop: _unit(data, at, stop, masked, compressed),
        enough,
        unit_bytes,
        proves,
    )


def frames_sender(data: bytes) -> Side | None:
    """Return who sent these bytes, None if they are not whole frames: only clients mask (5.1)."""
    at, masked = 0, set()
    while at < len(data):
        header = read_header(data, at, len(data))
        if not isinstance(header, FrameHeader) or not header.length:
            return None
        masked.add(bool(header.mask))
        at += header.size + header.length
    if at != len(data) or len(masked) != 1 or not data[0] & 128:
        return None
    return Side.CLIENT if masked.pop() else Side.SERVER


def unmask(data: bytes, mask: bytes, phase: int) -> bytes:
    """Unmask a piece of a payload, at offset ``phase`` in the payload (section 5.3)."""
    if not mask or not data:
        return data
    rotated = mask[phase & 3 :] + mask[: phase & 3]
    key = (rotated * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(len(data), "big")


class WebSocketReader:
    """Reads the frames that ``side`` sends.

    ``takes_over`` is the result of ``permessage_deflate.takeover``. ``joined``: the first byte may
    be in the middle of a frame. Memory, out of ``room``: a message, or the search for a frame.
    """

    def __init__(
        self,
        stream: int,
        side: Side,
        room: Room,
        takes_over: bool | None,
        *,
        joined: bool = False,
    ) -> None:
        self._stream, self._side, self._room = stream, side, room
        self._inflater = None if takes_over is None else Inflater(room, takes_over)
        self._undecoded = UndecodedRun(side, NOT_A_FRAME)
        self._sync = self._search() if joined else None
        self._search_room = Reservation(room)
        self._partial = bytearray()
        self._header: FrameHeader | None = None
        self._remaining = 0
        self._message: PartialMessage | None = None
        self._opcode = _CONTINUATION
        self._compressed = False
        self._control = PartialMessage(room)
        self._resyncs = 0

    def feed(self, data: bytes, out: list[Message]) -> None:
        """Feed bytes; append complete messages to ``out``."""
        for start in range(0, len(data), _PIECE):
            self._feed(data[start : start + _PIECE], out)

    def gap(self, missing: int, out: list[Message]) -> None:
        """Skip lost bytes; unless all were inside a payload, search for the next frame."""
        if self._header is not None:
            inside = min(missing, self._remaining)
            self._payload(self._header).lose(inside)
            self._remaining -= inside
            missing -= inside
            if not self._remaining:
                self._end_frame(self._header, out)
        if missing:
            self.lose_sync(out)

    def lose_sync(self, out: list[Message]) -> None:
        """Note that bytes may be missing: search for the next frame."""
        self._resyncs = 0
        self._resynchronise("bytes lost", out)

    def end(self, out: list[Message], reason: str = CLOSED) -> None:
        """Handle the end of the direction: report an incomplete message."""
        self._finish(reason, out)
        self._drop_buffered(reason, out)

    def stop(self, reason: str, out: list[Message]) -> None:
        """See ``BodyReader``."""
        self.end(out, reason)

    def _feed(self, data: bytes, out: list[Message]) -> None:
        if self._partial:
            data = bytes(self._partial) + data
            self._partial.clear()
        pos = 0
        while pos < len(data):
            if self._resyncs > _MOST_RESYNCS:
                self._undecoded.append(data, pos, len(data))
                return
            if self._sync is None:
                pos = self._read(data, pos, out)
            else:
                # Small pieces, as hostile bytes may be out of sync again and again.
                piece = data[pos : pos + _SEARCH_PIECE]
                pos += len(piece)
                found = self._find_start(self._sync, piece, out)
                if found is not None:
                    data, pos = found + data[pos:], 0

    def _read(self, data: bytes, pos: int, out: list[Message]) -> int:
        """Read frames until the end, or until one must be searched; return the next position."""
        size = len(data)
        while pos < size:
            header = self._header
            if header is None:
                found = read_header(data, pos, size)
                if isinstance(found, int):
                    self._partial += data[pos:]
                    return size
                if found is None or (found.compressed and not self._may_compress(found)):
                    self._resynchronise(NOT_A_FRAME, out)
                    self._resyncs += 1
                    self._undecoded.append(data, pos, pos + 1)
                    return pos + 1
                pos += found.size
                header = self._header = found
                self._remaining = found.length
                self._begin_frame(found, out)
            stop = min(size, pos + self._remaining)
            piece = unmask(data[pos:stop], header.mask, header.length - self._remaining)
            self._payload(header).add(piece)
            self._remaining -= stop - pos
            pos = stop
            if not self._remaining:
                self._end_frame(header, out)
        return size

    def _may_compress(self, header: FrameHeader) -> bool:
        # RFC 7692 section 6.1: the bit is on a message's first frame.
        return self._inflater is not None and 0 < header.opcode < _CONTROL

    def _begin_frame(self, header: FrameHeader, out: list[Message]) -> None:
        if header.opcode >= _CONTROL:
            return
        if header.opcode != _CONTINUATION:
            self._finish("not finished by its sender", out)
        if self._message is None:
            self._message = PartialMessage(self._room)
            self._opcode, self._compressed = header.opcode, header.compressed

    def _payload(self, header: FrameHeader) -> PartialMessage:
        if header.opcode >= _CONTROL or self._message is None:
            return self._control
        return self._message

    def _end_frame(self, header: FrameHeader, out: list[Message]) -> None:
        self._header = None
        if header.opcode >= _CONTROL:
            self._report(self._control, header.opcode, None, out)
            self._control = PartialMessage(self._room)
        elif header.final:
            # After a loss, or joined in the middle, it may be the rest of a message.
            self._finish(None if self._opcode else "its beginning was not seen", out)

    def _finish(self, fault: str | None, out: list[Message]) -> None:
        message, self._message = self._message, None
        if message is not None:
            self._report(message, self._opcode, fault, out)

    def _report(
        self, message: PartialMessage, opcode: int, fault: str | None, out: list[Message]
    ) -> None:
        size, fault = message.size, message.fault or fault
        data = message.drain()
        compressed = self._compressed and opcode < _CONTROL
        if compressed and self._inflater is not None:
            data, fault = self._inflater.inflate(data, fault)
            size = max(size, len(data)) if fault else len(data)
        elif not opcode and self._inflater is not None:
            self._inflater.forget()  # it may have been compressed
        name = _OPCODES.get(opcode, "continuation")
        out.append(
            WebSocketMessage(
                self._stream, self._side, data, size, message.missing, fault, name, compressed
            )
        )

    def _find_start(self, sync: ChainSync, data: bytes, out: list[Message]) -> bytes | None:
        found = sync.feed(data)
        count = found[0] if found else sync.droppable()
        self._undecoded.append(sync.buffer, 0, count)
        if found is None:
            sync.drop(count)
            if not self._search_room.resize(sync.held_bytes + self._undecoded.held_bytes):
                self._drop_buffered("no room to find a frame", out)
                self._sync = None
                self._resyncs = _MOST_RESYNCS + 1
            return None
        self._undecoded.report(out)
        self._sync = None
        self._search_room.resize(0)
        return bytes(sync.buffer[count:])

    def _resynchronise(self, reason: str, out: list[Message]) -> None:
        """End the current message and drop buffered bytes; search for the next frame."""
        self._finish(reason, out)
        if self._inflater is not None:
            self._inflater.forget()  # lost messages may have been compressed
        self._drop_buffered(reason, out)
        self._undecoded.reason = NOT_A_FRAME
        self._sync = self._search()

    def _search(self) -> ChainSync:
        return ChainSync(chain_rule(self._side, compressed=self._inflater is not None))

    def _drop_buffered(self, reason: str, out: list[Message]) -> None:
        self._control.drain()
        self._control = PartialMessage(self._room)
        self._header = None
        buffered = self._partial if self._sync is None else self._sync.buffer
        if self._sync is None:
            self._undecoded.reason = reason
        self._undecoded.append(buffered, 0, len(buffered))
        buffered.clear()
        self._undecoded.report(out)
        self._search_room.resize(0)


class WebSocketDecoder:
    """Decodes a connection that switched to WebSocket, perhaps before the capture began.

    ``stream`` and ``headers`` are those of the response that switched (section 4.2.2). ``headers``
    is None if it was not seen.
    """

    protocol = "websocket"
    growth = 1100  # a byte of deflate may inflate to 1032 bytes

    def __init__(self, stream: int = 0, headers: Headers | None = None) -> None:
        room = self._room = Room()
        self._readers = {
            side: WebSocketReader(
                stream,
                side,
                room,
                # If unknown: each compressed message is marked as such.
                True if headers is None else takeover(headers, side),
                joined=headers is None,
            )
            for side in SIDES
        }

    def feed(self, side: Side, data: bytes) -> list[Message]:
        """Feed the next bytes that ``side`` sent."""
        out: list[Message] = []
        self._readers[side].feed(data, out)
        return out

    def gap(self, side: Side, missing: int) -> list[Message]:
        """Note lost bytes; a gap of no bytes is none."""
        out: list[Message] = []
        if missing > 0:
            self._readers[side].gap(missing, out)
        return out

    @property
    def held_bytes(self) -> int:
        """See ``Decoder``."""
        return self._room.used_bytes

    def end(self, side: Side, reason: str = CLOSED) -> list[Message]:
        """End a side."""
        out: list[Message] = []
        self._readers[side].end(out, reason)
        return out
