"""One direction of a connection in redaction: chunks wait until all their bytes are decided."""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from sslsniff.decoders.inner.websocket import unmask
from sslsniff.model import Chunk

BLANK = b"*"
HELD_BYTES = 2 << 20
"""What is held back at most until it is decided, beyond the chunk at hand."""
_MOST_CHUNKS = 1 << 14
"""So many chunks are held back at most: bytes may come one by one."""
_CHUNK_BYTES = 300
"""What a chunk takes beside its bytes."""


class PendingReader(Protocol):
    """Who needs to see more before bytes can pass."""

    def give_up(self) -> None:
        """Decide now; blank what cannot be."""


class PendingBytes:
    """Holds chunks back from the first byte that a ``PendingReader`` needs, then passes them on.

    Positions count the bytes that were seen in this direction, of a connection that ``is_joined``
    those from its middle on. ``holds`` maps who keeps bytes back to the position of the first.
    """

    def __init__(self, pass_on: Callable[[Chunk], None], *, is_joined: bool) -> None:
        self.is_joined = is_joined
        self._pass_on = pass_on
        self._waiting: deque[tuple[int, Chunk]] = deque()  # with where it ends
        self._data = bytearray()
        self._base = 0
        self.holds: dict[PendingReader, int] = {}

    @property
    def end(self) -> int:
        """The position after the last byte."""
        return self._base + len(self._data)

    @property
    def held_bytes(self) -> int:
        """What is held back, with what it takes to hold it."""
        return len(self._data) + _CHUNK_BYTES * len(self._waiting)

    @property
    def _is_full(self) -> bool:
        return len(self._data) > HELD_BYTES or len(self._waiting) > _MOST_CHUNKS

    def add(self, chunk: Chunk) -> int:
        """Take the next chunk, and its data from it; return the position of its first byte."""
        start = self.end
        self._data += chunk.data
        chunk.data = b""
        self._waiting.append((self.end, chunk))
        return start

    def write(self, at: int, data: bytes) -> None:
        """Put other bytes in place of those that wait at a position."""
        start = at - self._base
        self._data[start : start + len(data)] = data

    def blank(self, start: int, stop: int, mask: bytes = b"", phase: int = 0) -> None:
        """Blank bytes, which are masked from ``phase`` on (RFC 6455 section 5.3)."""
        self.write(start, unmask(BLANK * (stop - start), mask, phase))

    def release(self) -> None:
        """Pass on all chunks before the first byte that is held."""
        while self._is_full and self.holds:
            min(self.holds, key=lambda reader: self.holds[reader]).give_up()
        settled = min(self.holds.values(), default=self.end)
        while self._waiting and self._waiting[0][0] <= settled:
            stop, chunk = self._waiting.popleft()
            size = stop - self._base
            if size:
                chunk.data = bytes(self._data[:size])
                del self._data[:size]
                self._base = stop
            self._pass_on(chunk)
