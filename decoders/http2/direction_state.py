"""The state of one direction of an HTTP/2 connection, beside its streams."""

from sslsniff.decoders.http2.frame_reader import FrameReader
from sslsniff.decoders.http2.hpack import HpackDecoder
from sslsniff.decoders.http2.stream_states import STREAM_BYTES
from sslsniff.decoders.messages import Side
from sslsniff.decoders.undecoded_run import UndecodedRun

MAX_BLOCK = 256 * 1024
"""The largest header block that is decoded; a larger one is dropped."""


class HeaderBlock:
    """A header block that continues in CONTINUATION frames (RFC 9113 section 6.10).

    ``flags``, ``stream``: the fields of its first frame.
    ``promised``: the stream that a PUSH_PROMISE reserves, 0 for HEADERS.
    ``undecoded``: reported instead of the block once it is dropped.
    Memory: ``MAX_BLOCK`` and a frame.
    """

    __slots__ = ("data", "flags", "is_dropped", "promised", "stream", "undecoded")

    def __init__(self, side: Side, flags: int, stream: int, promised: int, fragment: bytes) -> None:
        self.flags, self.stream, self.promised = flags, stream, promised
        self.data = bytearray()
        self.undecoded = UndecodedRun(side)
        self.is_dropped = False
        self.append(fragment)

    @property
    def held_bytes(self) -> int:
        """The memory that it uses."""
        return len(self.data) + self.undecoded.held_bytes

    def append(self, fragment: bytes) -> None:
        """Append the next fragment; to a dropped block, as undecoded bytes."""
        if self.is_dropped:
            self.undecoded.append(fragment, 0, len(fragment))
            return
        self.data += fragment
        if len(self.data) > MAX_BLOCK:
            self.drop(f"header block over {MAX_BLOCK} bytes")

    def drop(self, reason: str) -> None:
        """Drop the block: its bytes are undecoded, because of the first ``reason``."""
        if not self.is_dropped:
            self.is_dropped = True
            self.undecoded.reason = reason
            self.undecoded.append(self.data, 0, len(self.data))
            self.data.clear()


class DirectionState:
    """The state of one direction: its reader, its HPACK table, its incomplete header block.

    ``head``, ``end``: the bits of a stream's state for the head and the end of this side's message.
    ``goaway``: the last stream of this side's latest GOAWAY. ``goaways``: how many it sent.
    ``doubted``: streams reported as ``BodyInDoubt``, which received no DATA since.
    ``late``: the current DATA frame, if its stream was reset.
    """

    __slots__ = ("block", "doubted", "end", "goaway", "goaways", "head", "hpack", "late", "reader")

    def __init__(self, reader: FrameReader, head: int, end: int) -> None:
        self.reader = reader
        self.head, self.end = head, end
        self.hpack = HpackDecoder()
        self.block: HeaderBlock | None = None
        self.goaway = 1 << 31
        self.goaways = 0
        self.doubted: set[int] = set()
        self.late = UndecodedRun(reader.side)

    @property
    def held_bytes(self) -> int:
        """The memory that it uses."""
        block = self.block.held_bytes if self.block is not None else 0
        streams = STREAM_BYTES * len(self.doubted)
        readers = self.reader.held_bytes + self.late.held_bytes
        return readers + self.hpack.held_bytes + block + streams
