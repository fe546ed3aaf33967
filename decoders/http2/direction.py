"""What one side of an HTTP/2 connection sends."""

from sslsniff.decoders.http2.block import HeaderBlock
from sslsniff.decoders.http2.hpack import HpackDecoder
from sslsniff.decoders.http2.reader import FrameReader

STREAM_BYTES = 100
"""Memory of what is known of a stream."""


class Direction:
    """What is known of it: its reader, its HPACK table, the header block that is not complete.

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
