"""Limits the memory that the decoders of all connections have together.

Memory is counted only when it may have reached the limit, not for each chunk.
"""

import sys
from typing import Protocol

MOST_BYTES = 256 << 20
"""The limit for all connections. One alone uses less than half of it, see docs/decoders.md."""

_AFTER_EVICTION_BYTES = MOST_BYTES * 3 // 4
"""Evictions stop at this, so that the next one is not soon."""


class Evictable(Protocol):
    """The decoder of a connection."""

    @property
    def held_bytes(self) -> int:
        """About how many bytes of memory it uses, beyond those at its start."""

    def evict(self, time_ns: int) -> None:
        """Free that memory, and report the bytes that are not decoded because of it."""


class MemoryLimit:
    """Evicts the least recently used decoders when all together use more than ``MOST_BYTES``."""

    def __init__(self) -> None:
        self.room_bytes = MOST_BYTES
        """How many bytes all decoders may grow before their memory is counted."""
        self.evictions = 0
        """How many there were."""
        self._total_bytes = 0
        self._sizes: dict[Evictable, int] = {}
        """Bytes of the decoders that use any, least recently used first."""
        self._changed: dict[Evictable, None] = {}
        """Decoders used since their memory was counted, least recently used first."""

    def grow(self, decoder: Evictable, most_bytes: int, time_ns: int) -> None:
        """Note that a decoder was used and grew by at most ``most_bytes``; evict if necessary."""
        self._changed[decoder] = None
        self.room_bytes -= most_bytes
        if self.room_bytes < 0:
            self._count(time_ns)

    def forget(self, decoder: Evictable) -> None:
        """Stop counting a decoder."""
        self._changed.pop(decoder, None)
        self._total_bytes -= self._sizes.pop(decoder, 0)

    def _count(self, time_ns: int) -> None:
        changed, self._changed = self._changed, {}
        for decoder in changed:
            self.forget(decoder)
            size = decoder.held_bytes
            if size:
                self._sizes[decoder] = size
                self._total_bytes += size
        if self._total_bytes > MOST_BYTES:
            self._evict(time_ns)
        self.room_bytes = MOST_BYTES - self._total_bytes

    def _evict(self, time_ns: int) -> None:
        # A decoder may be fed while it is evicted: this must not start another count.
        self.room_bytes = sys.maxsize
        while self._total_bytes > _AFTER_EVICTION_BYTES and self._sizes:
            decoder = next(iter(self._sizes))
            self.forget(decoder)
            decoder.evict(time_ns)
            self.evictions += 1
