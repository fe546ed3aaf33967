"""Keeps the newest of many byte strings."""

from collections import deque
from collections.abc import Iterator


class Newest:
    """Byte strings in order; the oldest can be dropped. ``dropped`` counts those that were.

    So ``dropped`` is also the number of the first that is left, counted from 0. ``bytes``: the sum
    of their lengths.
    """

    def __init__(self) -> None:
        self._items: deque[bytes] = deque()
        self.bytes = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._items)

    def append(self, item: bytes) -> None:
        """Add a copy of ``item`` at the end: what orjson returns takes 4 KiB, however short."""
        self._items.append(memoryview(item).tobytes())
        self.bytes += len(item)

    def drop_oldest(self) -> None:
        """Drop the first; there must be one."""
        self.bytes -= len(self._items.popleft())
        self.dropped += 1
