"""TCP segments of both directions -> the order in which they passed.

A capture may have them otherwise: they come over several queues, or from several files. But what
a segment acknowledges came before it (RFC 9293 section 3.4): so it waits for that.

Memory: ``MOST_WAITING`` segments a connection, counted as ``reassembly.Early`` bytes.
"""

from collections.abc import Iterator, Mapping
from typing import Generic

from sslsniff.capture_files.reassembly import Early, Reassembler, Tag, is_before
from sslsniff.capture_files.segments import End, Segment

MOST_WAITING = 16
"""So many segments may come in front of one that they acknowledge; else that is lost."""


class Ordering(Generic[Tag]):
    """Orders the segments of one connection; ``reassemblers`` tell what came from each end.

    Whoever takes what it yields must feed the reassemblers before asking for more.
    """

    def __init__(self, reassemblers: Mapping[End, Reassembler[Tag]], early: Early) -> None:
        self._reassemblers = reassemblers
        self._early = early
        self._waiting: list[tuple[Segment, Tag]] = []

    def is_next(self, segment: Segment) -> bool:
        """Say whether ``segment`` is next and none waits: then ``take`` need not be asked."""
        return not self._waiting and not self._must_wait(segment)

    def take(self, segment: Segment, tag: Tag) -> Iterator[tuple[Segment, Tag]]:
        """Take the next segment of the capture; yield those whose turn it is."""
        self._waiting.append((segment, tag))
        self._early.bytes += len(segment.payload)
        while self._waiting:
            ready = [i for i, (each, _) in enumerate(self._waiting) if not self._must_wait(each)]
            if not ready and len(self._waiting) <= MOST_WAITING and not self._early.is_full:
                break
            yield self._pop(ready[0] if ready else self._earliest())

    def flush(self) -> Iterator[tuple[Segment, Tag]]:
        """Yield what waits; no more segments come."""
        while self._waiting:
            yield self._pop(self._earliest())

    def _must_wait(self, segment: Segment) -> bool:
        acknowledged = segment.acknowledges
        return (
            acknowledged is not None
            and self._reassemblers[segment.destination].lacks(acknowledged) > 0
        )

    def _earliest(self) -> int:
        """Return which of those that wait acknowledges none of the others."""
        for i, (segment, _) in enumerate(self._waiting):
            if not any(
                other.source == segment.destination
                and is_before(other.sequence, segment.acknowledges or 0)
                for other, _ in self._waiting
            ):
                return i
        return 0  # none: damaged

    def _pop(self, index: int) -> tuple[Segment, Tag]:
        segment, tag = self._waiting.pop(index)
        self._early.bytes -= len(segment.payload)
        return segment, tag
