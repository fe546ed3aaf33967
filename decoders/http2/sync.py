"""Finds the start of an HTTP/2 frame in bytes that may start anywhere (RFC 9113 section 4.1).

A position is a start if there is a valid header, and if its length, and the next one's, lead to
more valid headers. A frame that is unlikely by chance needs fewer of them. The very first byte is
likely to be a start: it is tried first, and one whole frame of an unlikely type proves it.

Otherwise the proof that ends first wins: the same bytes give the same start however they are cut.
DATA frames longer than ``DEFAULT_MAX_FRAME`` are not buffered: the start is found after them.

Memory: the bytes since the oldest possible start, up to four frames of ``DEFAULT_MAX_FRAME``; and a
tuple for each possible start. Those before long frames are at least ``_LONG_APART`` bytes apart.
"""

import heapq
import re

from sslsniff.decoders.http2.frames import (
    DATA,
    DEFAULT_MAX_FRAME,
    END_HEADERS,
    GOAWAY,
    HEADER_SIZE,
    HEADERS,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    header_fault,
    strip,
    unpack_header,
)
from sslsniff.decoders.http2.hpack import HpackDecoder

_ON_STREAM = rb"(?!\x00{4})[\x00-\x7f][\x00-\xff]{3}"
_ON_NONE = rb"\x00{4}"
_AFTER_ZERO = (
    rb"[\x00-\x40][\x00-\xff](?:"
    rb"\x00[\x00\x01\x08\x09]" + _ON_STREAM +  # DATA
    rb"|\x01[\x00\x01\x04\x05\x08\x09\x0c\x0d\x20\x21\x24\x25\x28\x29\x2c\x2d]" + _ON_STREAM +
    rb"|[\x02\x03]\x00" + _ON_STREAM +  # PRIORITY, RST_STREAM
    rb"|[\x04\x06][\x00\x01]" + _ON_NONE +  # SETTINGS, PING
    rb"|\x05[\x00\x04\x08\x0c]" + _ON_STREAM +  # PUSH_PROMISE
    rb"|[\x07\x10]\x00" + _ON_NONE +  # GOAWAY, PRIORITY_UPDATE
    rb"|\x08\x00[\x00-\x7f][\x00-\xff]{3}"  # WINDOW_UPDATE
    rb"|\x09[\x00\x04]" + _ON_STREAM +  # CONTINUATION
    rb")"
)  # fmt: skip
_HEADER = re.compile(rb"\x00" + _AFTER_ZERO)

# DATA of up to LONGEST, without padding.
_LONG_RULE = rb"(?:[\x00-\x0f][\x00-\xff]{2}|\x10\x00\x00)\x00[\x00\x01]" + _ON_STREAM
_LONG_HEADER = re.compile(_LONG_RULE)

# No header is of zeros alone: a run of them is passed over at once, but for its last bytes.
_HEADER_OR_ZEROS = re.compile(rb"\x00(?:\x00{%d,}|%b)" % (HEADER_SIZE, _AFTER_ZERO))
_LONG_HEADER_OR_ZEROS = re.compile(rb"\x00{%d,}|%b" % (HEADER_SIZE + 1, _LONG_RULE))
LONGEST = 1 << 20
"""The longest frame by which a start is found: the most that Go's peers allow."""
_LONG_APART = 256

_STREAM_AT = 5  # in a header

_CERTAIN_TYPES = frozenset((PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE))

_ENOUGH = 3  # valid headers in a row
_MAX_BLOCK = 4096  # bytes of a header block that is decoded as a check
_START_BYTES = 200  # memory of a possible start
_LONG = 256  # bytes of DATA after which a valid header is unlikely by chance

_Start = tuple[int, int, int]
"""A possible start: where its proof ends, its position, and the headers of the proof so far.

0 headers: the proof is one whole frame at the first byte."""


def frame_length(data: bytes | bytearray, at: int) -> int:
    """Return the payload's length if a frame of a usual size may begin at ``at``, else -1."""
    if not _HEADER.match(data, at):
        return -1
    kind, flags, stream = unpack_header(data, at)
    length = kind >> 8
    if length > DEFAULT_MAX_FRAME or header_fault(kind & 0xFF, flags, stream, length):
        return -1
    return int(length)


class FrameSync:
    """Searches for the start of a frame.

    ``buffer`` has the bytes since the first possible start, ``dropped`` is the number of bytes
    before them. ``longest`` is the longest frame that the peer allows, as far as known.
    """

    __slots__ = (
        "_fed_bytes",
        "_first",
        "_long_next",
        "_longest",
        "_next",
        "_starts",
        "buffer",
        "dropped",
    )

    def __init__(self, longest: int = DEFAULT_MAX_FRAME) -> None:
        self.buffer = bytearray()
        self.dropped = 0
        self._longest = min(longest, LONGEST)
        self._long_next = 0  # offset up to which long frames were searched
        self._next = 0  # offset up to which possible starts were searched
        self._fed_bytes = 0  # since droppable computed its result
        self._first: list[_Start] = []
        self._starts: list[_Start] = []

    @property
    def held_bytes(self) -> int:
        """The memory of the buffer and the possible starts."""
        return len(self.buffer) + _START_BYTES * (len(self._starts) + len(self._first))

    def feed(self, data: bytes) -> tuple[int, int] | None:
        """Feed bytes; return where in ``buffer`` a frame or preface begins and its proof ends."""
        buffer = self.buffer
        buffer += data
        self._fed_bytes += len(data)
        base, size = self.dropped, len(buffer)
        if not self._next and size and PREFACE.startswith(buffer[: len(PREFACE)]):
            return (0, len(PREFACE)) if size >= len(PREFACE) else None
        self._find_starts(size)
        if self._longest > DEFAULT_MAX_FRAME:
            self._find_long_starts(size)
        for starts in (self._first, self._starts):
            while starts and starts[0][0] - base <= size:
                possible = heapq.heappop(starts)
                if self._is_proven(possible, starts):
                    return possible[1] - base, possible[0] - base
            if starts:
                return None
        return None

    def droppable(self) -> int:
        """Return how many bytes at the front of ``buffer`` are before any possible start.

        This visits all possible starts. So that single bytes stay cheap, it returns 0 until as many
        bytes were fed as there are possible starts.
        """
        if self._first or self._fed_bytes < len(self._starts):
            return 0
        self._fed_bytes = 0
        return min([self._next, *(possible[1] for possible in self._starts)]) - self.dropped

    def drop(self, count: int) -> None:
        """Drop bytes at the front of ``buffer``."""
        del self.buffer[:count]
        self.dropped += count

    def _find_starts(self, size: int) -> None:
        buffer, base = self.buffer, self.dropped
        pos = self._next - base
        while size - pos >= HEADER_SIZE:
            found = _HEADER_OR_ZEROS.search(buffer, pos)
            if found is None:
                pos = size - HEADER_SIZE + 1
                break
            pos = found.start()
            if found.end() - pos > HEADER_SIZE:
                pos = found.end() - HEADER_SIZE + 1
                continue
            length = frame_length(buffer, pos)
            if length >= 0:
                start = pos + base
                stop = start + HEADER_SIZE + length
                heapq.heappush(
                    self._starts if start else self._first, (stop + HEADER_SIZE, start, 1)
                )
                if not start:
                    heapq.heappush(self._first, (stop, start, 0))
            pos += 1
        self._next = max(self._next, pos + base)

    def _find_long_starts(self, size: int) -> None:
        pos = self._long_next - self.dropped
        while size - pos >= HEADER_SIZE:
            found = _LONG_HEADER_OR_ZEROS.search(self.buffer, pos)
            if found is None:
                pos = size - HEADER_SIZE + 1
                break
            if found.end() - found.start() > HEADER_SIZE:
                pos = found.end() - HEADER_SIZE + 1
                continue
            pos = found.start() + 1
            length = self._long_length(found.start())
            if length:
                self._push_after(found.start() + self.dropped + HEADER_SIZE + length)
                pos += _LONG_APART - 1
        self._long_next = max(self._long_next, pos + self.dropped)

    def _long_length(self, at: int) -> int:
        """Return the length of a long frame that may begin at ``at``, else 0."""
        if not _LONG_HEADER.match(self.buffer, at):
            return 0
        length = int.from_bytes(self.buffer[at : at + 3], "big")
        return length if DEFAULT_MAX_FRAME < length <= self._longest else 0

    def _push_after(self, stop: int) -> None:
        """Add the end of a long frame as a possible start: one valid header there proves it."""
        heapq.heappush(self._starts, (stop + HEADER_SIZE, stop, _ENOUGH - 1))

    def _is_proven(self, possible: _Start, starts: list[_Start]) -> bool:
        """Check a possible start when its proof is there; if it is too weak, add a longer proof."""
        proof, start, headers = possible
        at, end = start - self.dropped, proof - self.dropped
        if not headers:
            return self._is_certain_frame(at, end)
        if not self._have_near_streams(at, end - HEADER_SIZE):
            return False
        length = frame_length(self.buffer, end - HEADER_SIZE)
        is_long = length < 0
        if is_long:
            length = self._long_length(end - HEADER_SIZE)
            if not length:
                return False
        if headers + 1 >= _ENOUGH or self._is_unlikely_by_chance(at):
            return True
        if is_long:
            self._push_after(proof + length)
        else:
            heapq.heappush(starts, (proof + length + HEADER_SIZE, start, headers + 1))
        return False

    def _have_near_streams(self, at: int, other: int) -> bool:
        """Return whether the streams of two frames have the same first octet, or one has none.

        Streams that are open at a time are near: without this, chance would prove too much.
        """
        first, second = (self.buffer[each + _STREAM_AT :][:4] for each in (at, other))
        return first[0] == second[0] or not any(first) or not any(second)

    def _is_certain_frame(self, at: int, stop: int) -> bool:
        kind = self.buffer[at + 3]
        is_early = not self.buffer[at + _STREAM_AT]
        return (kind in _CERTAIN_TYPES and is_early) or self._has_fields(at, stop)

    def _is_unlikely_by_chance(self, at: int) -> bool:
        """Return whether a frame is unlikely by chance: a long one, or one with header fields."""
        length = frame_length(self.buffer, at)
        if self.buffer[at + 3] == DATA:
            return length >= _LONG
        return self._has_fields(at, at + HEADER_SIZE + length)

    def _has_fields(self, at: int, stop: int) -> bool:
        kind, flags = self.buffer[at + 3], self.buffer[at + 4]
        if kind not in (HEADERS, PUSH_PROMISE) or not flags & END_HEADERS:
            return False
        if stop - at > _MAX_BLOCK:
            return False
        block = strip(kind, flags, bytes(self.buffer[at + HEADER_SIZE : stop]))
        return block is not None and looks_like_headers(block)


def looks_like_headers(block: bytes) -> bool:
    """Return whether a header block decodes to its end, with the names of heads or trailers."""
    fields, error = HpackDecoder().decode(block)
    if error or not fields:
        return False
    return all(name is None or (name and name.isprintable()) for name, _ in fields)
