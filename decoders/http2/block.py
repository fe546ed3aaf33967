"""A header block that goes on in CONTINUATION frames (RFC 9113 section 6.10)."""

from sslsniff.decoders.lost import LostRun
from sslsniff.decoders.messages import Side

MAX_BLOCK = 256 * 1024
"""The largest header block that is read; a larger one is given up."""


class HeaderBlock:
    """What came of it so far, and what its first frame said. Memory: ``MAX_BLOCK`` and a frame.

    ``flags`` and ``stream`` are those of its first frame; ``promised`` is the stream that a
    PUSH_PROMISE reserves, 0 for HEADERS. ``lost`` is told of in its place once it is given up.
    """

    __slots__ = ("data", "flags", "is_given_up", "lost", "promised", "stream")

    def __init__(self, side: Side, flags: int, stream: int, promised: int, fragment: bytes) -> None:
        self.flags, self.stream, self.promised = flags, stream, promised
        self.data = bytearray()
        self.lost = LostRun(side)
        self.is_given_up = False
        self.add(fragment)

    @property
    def held_bytes(self) -> int:
        """The memory that it takes."""
        return len(self.data) + self.lost.held_bytes

    def add(self, fragment: bytes) -> None:
        """Take the next fragment; of a block that was given up it is counted only."""
        if self.is_given_up:
            self.lost.add(fragment, 0, len(fragment))
            return
        self.data += fragment
        if len(self.data) > MAX_BLOCK:
            self.give_up(f"header block over {MAX_BLOCK} bytes")

    def give_up(self, reason: str) -> None:
        """Keep no more than ``lost`` does; the first reason counts."""
        if not self.is_given_up:
            self.is_given_up = True
            self.lost.reason = reason
            self.lost.add(self.data, 0, len(self.data))
            self.data.clear()
