"""Puts TCP segments in the order in which they were sent, their bytes in order, all gaps explicit.

RFC 9293, sections 3.4 and 3.10. Memory: bytes that came too early, at most ``EARLY_BYTES`` a
direction and ``EARLY_BYTES_IN_ALL``; beyond that, the bytes missing before them count as lost.
Segments that wait for what they acknowledge, at most ``MOST_WAITING`` a connection, count as early.
"""

from bisect import insort
from collections.abc import Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

from sslsniff.files.packet_layers.segments import is_before, nearest_position
from sslsniff.files.packet_layers.tcp_segment import AddressPort, Segment
from sslsniff.files.packets import WORD

EARLY_BYTES = 256 << 10
EARLY_BYTES_IN_ALL = 64 << 20
MOST_WAITING = 16
"""How many segments may wait for one that they acknowledge; beyond that, it counts as lost."""
_EARLY_SEGMENTS = 1024
_BELIEVED_BYTES = 16 << 20


Tag = TypeVar("Tag")


class Piece(NamedTuple, Generic[Tag]):
    """Bytes in order, with the tag of their segment; ``missing`` bytes before them were lost."""

    missing: int
    data: bytes
    tag: Tag


class EarlyBytes:
    """Counts the bytes that came too early, in all directions together."""

    def __init__(self) -> None:
        self.bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether no more bytes may wait."""
        return self.bytes > EARLY_BYTES_IN_ALL


class Reassembler(Generic[Tag]):
    """Puts the segments of one direction in order; repeated bytes are dropped.

    The first byte has the number ``sequence``, by default that of the first segment. Each segment
    has a tag, which its bytes come with.
    """

    def __init__(self, early: EarlyBytes, sequence: int | None = None) -> None:
        self._early = early
        self._next = sequence
        self._end: int | None = None
        self._lost = 0
        self._waiting: list[tuple[int, int, bytes, int, Tag]] = []
        self._waiting_bytes = 0
        self._order = 0

    def feed(self, sequence: int, data: bytes, size: int, tag: Tag) -> list[Piece[Tag]]:
        """Feed a segment of ``size`` bytes; ``data`` may be cut. Return the bytes in order now."""
        if self._next is None:
            self._next = sequence
        at = nearest_position(sequence, self._next)
        if at + size <= self._next:
            return []
        pieces: list[Piece[Tag]] = []
        if at <= self._next:
            self._append_new(at, data, size, tag, pieces)
            if self._waiting:
                self._drain(pieces)
            return pieces
        self._add_waiting(at, data, size, tag)
        while self._waiting and self._is_full():
            self._skip_gap(pieces)
        return pieces

    def finish(self, sequence: int) -> None:
        """Note that a FIN is at ``sequence``: nothing follows it."""
        if self._next is None:
            self._next = sequence
        self._end = nearest_position(sequence, self._next)

    @property
    def is_finished(self) -> bool:
        """Whether all bytes up to the FIN came, or count as lost."""
        return self._end is not None and self._next is not None and self._next >= self._end

    def ahead(self, sequence: int) -> int | None:
        """Return how far a sequence number is ahead of the next byte; None: no byte was seen."""
        return None if self._next is None else nearest_position(sequence, self._next) - self._next

    @property
    def next_sequence(self) -> int | None:
        """The sequence number of the next byte; None: no byte was seen."""
        return None if self._next is None else self._next & WORD

    def lacks(self, acknowledged: int) -> int:
        """Return how many bytes are missing here that the receiver acknowledged.

        A single byte does not count: most likely it is a FIN that was not captured. A number too
        far ahead does not count either: it belongs to another connection.
        """
        if self._next is None:
            return 0
        missing = (acknowledged - self._next) & WORD
        if not 0 < missing <= _BELIEVED_BYTES:
            return 0
        if self._end is not None:
            return max(0, min(missing, self._end - self._next))
        return missing if missing > 1 else 0

    def count_as_lost(self, acknowledged: int, tag: Tag) -> list[Piece[Tag]]:
        """Count the bytes that it ``lacks`` as lost; return the gap, and bytes that waited."""
        pieces: list[Piece[Tag]] = []
        missing = self.lacks(acknowledged)
        if missing and self._next is not None:
            until = self._next + missing
            while self._waiting and self._waiting[0][0] <= until:
                self._skip_gap(pieces)
            self._lost += max(0, until - self._next)
            self._next = max(until, self._next)
            self._report_lost(tag, pieces)
        return pieces

    def flush(self, tag: Tag) -> list[Piece[Tag]]:
        """Return the bytes that wait: no more come. ``tag`` is for a gap at the end."""
        pieces: list[Piece[Tag]] = []
        while self._waiting:
            self._skip_gap(pieces)
        self._report_lost(tag, pieces)
        return pieces

    def _append_new(
        self, at: int, data: bytes, size: int, tag: Tag, pieces: list[Piece[Tag]]
    ) -> None:
        """Append to ``pieces`` what a segment at position ``at`` has beyond ``_next``."""
        assert self._next is not None
        skip = self._next - at
        new = data[skip:] if skip else data
        if new:
            pieces.append(Piece(self._lost, new, tag))
            self._lost = 0
        self._lost += size - skip - len(new)  # cut off by the capture's snap length
        self._next = at + size

    def _report_lost(self, tag: Tag, pieces: list[Piece[Tag]]) -> None:
        if self._lost:
            pieces.append(Piece(self._lost, b"", tag))
            self._lost = 0

    def _add_waiting(self, at: int, data: bytes, size: int, tag: Tag) -> None:
        self._order += 1  # so that tags are never compared
        insort(self._waiting, (at, self._order, data, size, tag))
        self._count_waiting(len(data))

    def _count_waiting(self, change: int) -> None:
        self._waiting_bytes += change
        self._early.bytes += change

    def _is_full(self) -> bool:
        return (
            self._waiting_bytes > EARLY_BYTES
            or len(self._waiting) > _EARLY_SEGMENTS
            or self._early.is_full
        )

    def _skip_gap(self, pieces: list[Piece[Tag]]) -> None:
        """Count as lost what is missing before the first segment that waits."""
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
            self._count_waiting(-len(data))
            if at + size > self._next:
                self._append_new(at, data, size, tag, pieces)
        del self._waiting[:done]


class Ordering(Generic[Tag]):
    """Puts the segments of both directions of a connection in the order in which they were sent.

    A capture may have another order: packets come over several queues, or from several files. But a
    segment was sent after the bytes that it acknowledges: so it waits for these.

    ``reassemblers``, by sender, know which bytes came. The caller must feed them each segment that
    is yielded before it asks for the next one.
    """

    def __init__(
        self, reassemblers: Mapping[AddressPort, Reassembler[Tag]], early: EarlyBytes
    ) -> None:
        self._reassemblers = reassemblers
        self._early = early
        self._waiting: list[tuple[Segment, Tag]] = []

    def is_next(self, segment: Segment) -> bool:
        """Return whether ``segment`` is next and none waits: then ``order`` need not be called."""
        return not self._waiting and not self._must_wait(segment)

    def order(self, segment: Segment, tag: Tag) -> Iterator[tuple[Segment, Tag]]:
        """Add the next segment of the capture; yield those that need not wait any more."""
        self._waiting.append((segment, tag))
        self._early.bytes += len(segment.payload)
        while self._waiting:
            ready = [i for i, (each, _) in enumerate(self._waiting) if not self._must_wait(each)]
            if not ready and len(self._waiting) <= MOST_WAITING and not self._early.is_full:
                break
            yield self._pop(ready[0] if ready else self._earliest())

    def flush(self) -> Iterator[tuple[Segment, Tag]]:
        """Yield the segments that wait: no more come."""
        while self._waiting:
            yield self._pop(self._earliest())

    def _must_wait(self, segment: Segment) -> bool:
        acknowledged = segment.acknowledges
        return (
            acknowledged is not None
            and self._reassemblers[segment.destination].lacks(acknowledged) > 0
        )

    def _earliest(self) -> int:
        """Return the index of a segment that waits and acknowledges none of the others."""
        for i, (segment, _) in enumerate(self._waiting):
            if not any(
                other.source == segment.destination
                and is_before(other.sequence, segment.acknowledges or 0)
                for other, _ in self._waiting
            ):
                return i
        return 0  # there is none only in a damaged capture

    def _pop(self, index: int) -> tuple[Segment, Tag]:
        segment, tag = self._waiting.pop(index)
        self._early.bytes -= len(segment.payload)
        return segment, tag
