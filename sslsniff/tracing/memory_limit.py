"""One memory limit for the decoders of all connections.

Memory is not counted for each chunk, only when it may have reached the limit.
"""

import sys
from typing import Protocol

MOST_BYTES = 256 << 20
"""The limit for all connections. One alone uses less than half of it, see docs/decoders.md."""

_AFTER_EVICTION_BYTES = MOST_BYTES * 3 // 4
"""Evictions stop at this, so that the next one is not due at once."""


class Evictable(Protocol):
    """The decoder of a connection."""

    @property
    def held_bytes(self) -> int:
        """About how many bytes of memory it uses more than at its start."""

    def evict(self, time_ns: int) -> None:
        """Free that memory, and report what can therefore not be decoded."""


class MemoryLimit:
    """Evicts the least recently used holders when all together use more than ``MOST_BYTES``.

    ``room_bytes``: how much they may grow before they are counted. ``evictions``: how many there
    were.
    """

    def __init__(self) -> None:
        self.room_bytes = MOST_BYTES
        self.evictions = 0
        self._total_bytes = 0
        self._sizes: dict[Evictable, int] = {}
        """Bytes of each holder that has any, least recently used first."""
        self._changed: dict[Evictable, None] = {}
        """Those used since they were counted, least recently used first."""

    def grow(self, holder: Evictable, most_bytes: int, time_ns: int) -> None:
        """Note that ``holder`` was used and grew by at most ``most_bytes``; evict if necessary."""
        self._changed[holder] = None
        self.room_bytes -= most_bytes
        if self.room_bytes < 0:
            self._count(time_ns)

    def forget(self, holder: Evictable) -> None:
        """Count a holder no longer."""
        self._changed.pop(holder, None)
        self._total_bytes -= self._sizes.pop(holder, 0)

    def _count(self, time_ns: int) -> None:
        changed, self._changed = self._changed, {}
        for holder in changed:
            self.forget(holder)
            size = holder.held_bytes
            if size:
                self._sizes[holder] = size
                self._total_bytes += size
        if self._total_bytes > MOST_BYTES:
            self._evict(time_ns)
        self.room_bytes = MOST_BYTES - self._total_bytes

    def _evict(self, time_ns: int) -> None:
        self.room_bytes = (
            sys.maxsize
        )  # an evicted holder may be fed again meanwhile; it is not counted then
        while self._total_bytes > _AFTER_EVICTION_BYTES and self._sizes:
            holder = next(iter(self._sizes))
            self.forget(holder)
            holder.evict(time_ns)
            self.evictions += 1
