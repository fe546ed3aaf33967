"""Find where an HTTP/2 frame begins in bytes that may start anywhere (RFC 9113 section 4.1).

A place counts as a frame's start when its header obeys the rules and so do those to which its
length, and the next one's, lead. A frame that is hard to mistake needs fewer such
headers. The very first byte, where a frame is likely to begin, is tried before all others
and needs but one whole frame if its type leaves little room for chance.

Otherwise the earliest proof wins, so the same bytes give the same place however they are cut.
DATA frames that are longer than ``DEFAULT_MAX_FRAME`` are not held: a start is found after them.

Memory: the bytes of the oldest place in question, up to four frames of ``DEFAULT_MAX_FRAME``; a
tuple for each place, of which those before long frames are at least ``_LONG_APART`` bytes apart.
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

# No onlooker meets more than 2^24 streams on a connection; that spares false alarms.
_ON_STREAM = rb"(?!\x00{4})\x00[\x00-\xff]{3}"
_ON_NONE = rb"\x00{4}"
_HEADER = re.compile(
    rb"\x00[\x00-\x40][\x00-\xff](?:"
    rb"\x00[\x00\x01\x08\x09]" + _ON_STREAM +  # DATA
    rb"|\x01[\x00\x01\x04\x05\x08\x09\x0c\x0d\x20\x21\x24\x25\x28\x29\x2c\x2d]" + _ON_STREAM +
    rb"|[\x02\x03]\x00" + _ON_STREAM +  # PRIORITY, RST_STREAM
    rb"|[\x04\x06][\x00\x01]" + _ON_NONE +  # SETTINGS, PING
    rb"|\x05[\x00\x04\x08\x0c]" + _ON_STREAM +  # PUSH_PROMISE
    rb"|[\x07\x10]\x00" + _ON_NONE +  # GOAWAY, PRIORITY_UPDATE
    rb"|\x08\x00\x00[\x00-\xff]{3}"  # WINDOW_UPDATE
    rb"|\x09[\x00\x04]" + _ON_STREAM +  # CONTINUATION
    rb")"
)  # fmt: skip

# DATA of up to LONGEST, without padding.
_LONG_HEADER = re.compile(rb"(?:[\x00-\x0f][\x00-\xff]{2}|\x10\x00\x00)\x00[\x00\x01]" + _ON_STREAM)
LONGEST = 1 << 20
"""The longest frame by which a start is found: the most that Go's peers allow."""
_LONG_APART = 256

_SURE = frozenset((PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE))

_ENOUGH = 3  # headers in a row
_MAX_BLOCK = 4096  # bytes of a header block that are worth a trial
_PLACE_BYTES = 200  # memory of a place in question
_LONG = 256  # bytes of DATA: the next header is not just around the corner

_Place = tuple[int, int, int]  # where its proof ends, where it is, headers seen; 0: one frame


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
    """Takes bytes until the start of a frame is known.

    ``held`` are those in question; ``dropped`` counts those before them, which are not.
    ``longest`` is the length of the longest frame that the peer allows, as far as known.
    """

    __slots__ = (
        "_fed_bytes",
        "_first",
        "_long_next",
        "_longest",
        "_next",
        "_places",
        "dropped",
        "held",
    )

    def __init__(self, longest: int = DEFAULT_MAX_FRAME) -> None:
        self.held = bytearray()
        self.dropped = 0
        self._longest = min(longest, LONGEST)
        self._long_next = 0  # up to where long frames were looked for
        self._next = 0  # up to where places were looked for
        self._fed_bytes = 0  # since it was asked what may be dropped
        self._first: list[_Place] = []
        self._places: list[_Place] = []

    @property
    def held_bytes(self) -> int:
        """The memory that the bytes and places in question take."""
        return len(self.held) + _PLACE_BYTES * (len(self._places) + len(self._first))

    def feed(self, data: bytes) -> tuple[int, int] | None:
        """Return where in ``held`` a frame (or the preface) begins and where its proof ends."""
        held = self.held
        held += data
        self._fed_bytes += len(data)
        base, size = self.dropped, len(held)
        if not self._next and size and PREFACE.startswith(held[: len(PREFACE)]):
            return (0, len(PREFACE)) if size >= len(PREFACE) else None
        self._find_places(size)
        if self._longest > DEFAULT_MAX_FRAME:
            self._find_long_places(size)
        for places in (self._first, self._places):
            while places and places[0][0] - base <= size:
                place = heapq.heappop(places)
                if self._proves(place, places):
                    return place[1] - base, place[0] - base
            if places:
                return None
        return None

    def droppable(self) -> int:
        """Return how many bytes at the front of ``held`` are in question no more.

        All places are looked at, so not for each byte that may come alone: 0 until more did.
        """
        if self._first or self._fed_bytes < len(self._places):
            return 0
        self._fed_bytes = 0
        return min([self._next, *(place[1] for place in self._places)]) - self.dropped

    def drop(self, count: int) -> None:
        """Forget bytes at the front of ``held``."""
        del self.held[:count]
        self.dropped += count

    def _find_places(self, size: int) -> None:
        held, base = self.held, self.dropped
        pos = self._next - base
        while size - pos >= HEADER_SIZE:
            found = _HEADER.search(held, pos)
            if found is None:
                pos = size - HEADER_SIZE + 1
                break
            pos = found.start()
            length = frame_length(held, pos)
            if length >= 0:
                start = pos + base
                stop = start + HEADER_SIZE + length
                heapq.heappush(
                    self._places if start else self._first, (stop + HEADER_SIZE, start, 1)
                )
                if not start:
                    heapq.heappush(self._first, (stop, start, 0))
            pos += 1
        self._next = max(self._next, pos + base)

    def _find_long_places(self, size: int) -> None:
        pos = self._long_next - self.dropped
        while size - pos >= HEADER_SIZE:
            found = _LONG_HEADER.search(self.held, pos)
            if found is None:
                pos = size - HEADER_SIZE + 1
                break
            pos = found.start() + 1
            length = self._long_length(found.start())
            if length:
                self._push_after(found.start() + self.dropped + HEADER_SIZE + length)
                pos += _LONG_APART - 1
        self._long_next = max(self._long_next, pos + self.dropped)

    def _long_length(self, at: int) -> int:
        """Return the length of a long frame that may begin at ``at``, else 0."""
        if not _LONG_HEADER.match(self.held, at):
            return 0
        length = int.from_bytes(self.held[at : at + 3], "big")
        return length if DEFAULT_MAX_FRAME < length <= self._longest else 0

    def _push_after(self, stop: int) -> None:
        """Look where a long frame ends: it weighs as much as two, so one header is enough."""
        heapq.heappush(self._places, (stop + HEADER_SIZE, stop, _ENOUGH - 1))

    def _proves(self, place: _Place, places: list[_Place]) -> bool:
        """Check a place at the end of its proof; ask for a longer one if that is too weak."""
        proof, start, headers = place
        at, end = start - self.dropped, proof - self.dropped
        if not headers:
            return self._sure(at, end)
        length = frame_length(self.held, end - HEADER_SIZE)
        is_long = length < 0
        if is_long:
            length = self._long_length(end - HEADER_SIZE)
            if not length:
                return False
        if headers + 1 >= _ENOUGH or self._heavy(at):
            return True
        if is_long:
            self._push_after(proof + length)
        else:
            heapq.heappush(places, (proof + length + HEADER_SIZE, start, headers + 1))
        return False

    def _sure(self, at: int, stop: int) -> bool:
        kind = self.held[at + 3]
        return kind in _SURE or self._has_fields(at, stop)

    def _heavy(self, at: int) -> bool:
        """Tell whether a frame is unlikely to be chance: a long one, or one with fields."""
        length = frame_length(self.held, at)
        if self.held[at + 3] == DATA:
            return length >= _LONG
        return self._has_fields(at, at + HEADER_SIZE + length)

    def _has_fields(self, at: int, stop: int) -> bool:
        kind, flags = self.held[at + 3], self.held[at + 4]
        if kind not in (HEADERS, PUSH_PROMISE) or not flags & END_HEADERS:
            return False
        if stop - at > _MAX_BLOCK:
            return False
        block = strip(kind, flags, bytes(self.held[at + HEADER_SIZE : stop]))
        return block is not None and looks_like_headers(block)


def looks_like_headers(block: bytes) -> bool:
    """Tell whether a header block reads to its end and begins as heads or trailers do."""
    fields, error = HpackDecoder().decode(block)
    if error or not fields:
        return False
    return all(name is None or (name and name.isprintable()) for name, _ in fields)
