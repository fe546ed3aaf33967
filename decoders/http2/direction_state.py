"""What is known of the frames that one side of an HTTP/2 connection sends."""

from sslsniff.decoders.http2.frame_reader import FrameReader
from sslsniff.decoders.http2.hpack import HpackDecoder
from sslsniff.decoders.messages import Side
from sslsniff.decoders.undecoded_run import UndecodedRun

MAX_BLOCK = 256 * 1024
"""The largest header block that is read; a larger one is given up."""

STREAM_BYTES = 100
"""Memory of what is known of a stream."""


class HeaderBlock:
    """A header block that goes on in CONTINUATION frames (RFC 9113 section 6.10).

    ``flags`` and ``stream`` are those of its first frame; ``promised`` is the stream that a
    PUSH_PROMISE reserves, 0 for HEADERS. ``lost`` is reported in its place once it is given up.
    Memory: ``MAX_BLOCK`` and a frame.
    """

    __slots__ = ("data", "flags", "is_given_up", "lost", "promised", "stream")

    def __init__(self, side: Side, flags: int, stream: int, promised: int, fragment: bytes) -> None:
        self.flags, self.stream, self.promised = flags, stream, promised
        self.data = bytearray()
        self.lost = UndecodedRun(side)
        self.is_given_up = False
        self.append(fragment)

    @property
    def held_bytes(self) -> int:
        """The memory that it takes."""
        return len(self.data) + self.lost.held_bytes

    def append(self, fragment: bytes) -> None:
        """Append the next fragment; of a block that was given up it is only counted."""
        if self.is_given_up:
            self.lost.append(fragment, 0, len(fragment))
            return
        self.data += fragment
        if len(self.data) > MAX_BLOCK:
            self.give_up(f"header block over {MAX_BLOCK} bytes")

    def give_up(self, reason: str) -> None:
        """Keep no more than ``lost`` does; the first reason counts."""
        if not self.is_given_up:
            self.is_given_up = True
            self.lost.reason = reason
            self.lost.append(self.data, 0, len(self.data))
            self.data.clear()


class DirectionState:
    """Its reader, its HPACK table, and the header block that is not complete.

    ``head`` and ``end`` are the bits by which a stream's state notes this side's.
    ``doubted`` are streams reported as uncertain, on which nothing was received since.
    """

    __slots__ = ("block", "doubted", "end", "goaway", "goaways", "head", "hpack", "reader")

    def __init__(self, reader: FrameReader, head: int, end: int) -> None:
        self.reader = reader
        self.head, self.end = head, end
        self.hpack = HpackDecoder()
        self.block: HeaderBlock | None = None
        self.goaway = 1 << 31
        self.goaways = 0
        self.doubted: set[int] = set()

    @property
    def held_bytes(self) -> int:
        """Bytes of memory in use."""
        block = self.block.held_bytes if self.block is not None else 0
        streams = STREAM_BYTES * len(self.doubted)
        return self.reader.held_bytes + self.hpack.held_bytes + block + streams
