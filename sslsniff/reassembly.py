"""TCP segments of one direction -> bytes in order, every gap explicit (RFC 9293 section 3.10).

Memory: what came too early, up to ``EARLY_BYTES`` a direction and ``EARLY_BYTES_IN_ALL``;
beyond, what is missing before it counts as lost.
"""

from bisect import insort
from typing import Generic, NamedTuple, TypeVar

EARLY_BYTES = 256 << 10
EARLY_BYTES_IN_ALL = 64 << 20
_EARLY_SEGMENTS = 1024

_HALF = 1 << 31
_WORD = 0xFFFFFFFF

Tag = TypeVar("Tag")


class Piece(NamedTuple, Generic[Tag]):
    """Bytes in order, ``missing`` of which were lost just before; the tag of their segment."""

    missing: int
    data: bytes
    tag: Tag


class Early:
    """Counts the bytes that wait in all directions together."""

    def __init__(self) -> None:
        self.bytes = 0


class Reassembler(Generic[Tag]):
    """Puts the segments of one direction in order; repeated bytes are dropped.

    It begins with ``sequence``, or with the first segment's. Each segment carries a tag, for
    what its bytes are to be known by.
    """

    def __init__(self, early: Early, sequence: int | None = None) -> None:
        self._early = early
        self._next = sequence
        self._lost = 0
        self._waiting: list[tuple[int, int, bytes, int, Tag]] = []
        self._waiting_bytes = 0
        self._order = 0

    def take(self, sequence: int, data: bytes, size: int, tag: Tag) -> list[Piece[Tag]]:
        """Take a segment of ``size`` bytes, of which ``data`` was captured."""
        if self._next is None:
            self._next = sequence
        # Positions grow without end; sequence numbers are their lower 32 bits.
        at = self._next + ((sequence - self._next + _HALF) & _WORD) - _HALF
        if at + size <= self._next:
            return []
        pieces: list[Piece[Tag]] = []
        if at <= self._next:
            self._pass(at, data, size, tag, pieces)
            self._drain(pieces)
            return pieces
        self._wait(at, data, size, tag)
        while self._waiting and self._is_full():
            self._jump(pieces)
        return pieces

    @property
    def is_waiting(self) -> bool:
        """Say whether segments wait for what comes before them."""
        return bool(self._waiting)

    def flush(self, tag: Tag) -> list[Piece[Tag]]:
        """Return what waits, with its gaps; no more segments come. ``tag`` is the end's."""
        pieces: list[Piece[Tag]] = []
        while self._waiting:
            self._jump(pieces)
        if self._lost:
            pieces.append(Piece(self._lost, b"", tag))
            self._lost = 0
        return pieces

    def _pass(self, at: int, data: bytes, size: int, tag: Tag, pieces: list[Piece[Tag]]) -> None:
        assert self._next is not None
        skip = self._next - at
        kept = data[skip:] if skip else data
        if kept:
            pieces.append(Piece(self._lost, kept, tag))
            self._lost = 0
        self._lost += size - skip - len(kept)  # cut off by the capture's snap length
        self._next = at + size

    def _wait(self, at: int, data: bytes, size: int, tag: Tag) -> None:
        self._order += 1  # so that tags are never compared
        insort(self._waiting, (at, self._order, data, size, tag))
        self._count(len(data))

    def _count(self, change: int) -> None:
        self._waiting_bytes += change
        self._early.bytes += change

    def _is_full(self) -> bool:
        return (
            self._waiting_bytes > EARLY_BYTES
            or len(self._waiting) > _EARLY_SEGMENTS
            or self._early.bytes > EARLY_BYTES_IN_ALL
        )

    def _jump(self, pieces: list[Piece[Tag]]) -> None:
        """Give up what is missing before the first segment that waits."""
        assert self._next is not None
        at = self._waiting[0][0]
        self._lost += at - self._next
        self._next = at
        self._drain(pieces)

    def _drain(self, pieces: list[Piece[Tag]]) -> None:
        assert self._next is not None
        done = 0
        for at, _, data, size, tag in self._waiting:
            if at > self._next:
                break
            done += 1
            self._count(-len(data))
            if at + size > self._next:
                self._pass(at, data, size, tag, pieces)
        del self._waiting[:done]
