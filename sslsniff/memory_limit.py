"""One limit for what all connections together make the decoders hold.

What they hold is not counted for each chunk, but when it may have grown to the limit.
"""

import sys
from typing import Protocol

MOST_BYTES = 256 << 20
"""What all connections may hold. One alone holds less than half of it, see docs/decoders.md."""

_AFTER_EVICTION_BYTES = MOST_BYTES * 3 // 4
"""An eviction goes on until no more than this is in use, so that the next one is not near."""


class Holder(Protocol):
    """What decodes a connection."""

    @property
    def held_bytes(self) -> int:
        """About how much memory it takes beyond what it took at its beginning."""

    def evict(self, time_ns: int) -> None:
        """Free that memory, and report what can therefore not be decoded."""


class MemoryLimit:
    """Evicts the least recently used holders where all together hold over ``MOST_BYTES``.

    ``room_bytes`` is by how much they may grow until they are counted, ``evictions`` how many
    there were.
    """

    def __init__(self) -> None:
        self.room_bytes = MOST_BYTES
        self.evictions = 0
        self._total_bytes = 0
        self._sizes: dict[
            Holder, int
        ] = {}  # of those that hold anything, least recently used first
        self._changed: dict[Holder, None] = {}  # since they were counted, likewise

    def grow(self, holder: Holder, most_bytes: int, time_ns: int) -> None:
        """Note that ``holder`` was used, and grew by ``most_bytes`` at most; evict if need be."""
        self._changed[holder] = None
        self.room_bytes -= most_bytes
        if self.room_bytes < 0:
            self._count(time_ns)

    def forget(self, holder: Holder) -> None:
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
        self.room_bytes = sys.maxsize  # who is evicted may be fed before, but is not counted
        while self._total_bytes > _AFTER_EVICTION_BYTES and self._sizes:
            holder = next(iter(self._sizes))
            self.forget(holder)
            holder.evict(time_ns)
            self.evictions += 1
