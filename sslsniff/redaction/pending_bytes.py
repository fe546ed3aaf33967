"""Holds the chunks of one direction in redaction until all their bytes are decided."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from sslsniff.core.model import Chunk
from sslsniff.core.redacted import MessageKey, PlacedCounts, RedactedSecret, place
from sslsniff.decoders.inner.websocket import unmask

BLANK = b"*"
HELD_BYTES = 2 << 20
"""How many bytes of a direction may wait for its own undecided ones, beside the current chunk."""
_MOST_CHUNKS = 1 << 14
"""How many chunks of a direction may wait: each may have a single byte."""
_CHUNK_BYTES = 300
"""The memory that a chunk takes beside its data."""


class PendingReader(Protocol):
    """A reader that needs the next bytes before it can decide what to blank."""

    def blank_undecided(self) -> None:
        """Stop waiting: blank the bytes that are not decided."""


class _WaitingChunk(NamedTuple):
    """A chunk, the position of its end, and what a capture file says was blanked in it."""

    stop: int
    chunk: Chunk
    recorded: PlacedCounts | None


class PendingBytes:
    """Passes chunks on as soon as no ``PendingReader`` needs their bytes any more.

    A position counts the bytes that were seen in this direction; if the connection ``is_joined``,
    there were others before. ``undecided`` maps each reader to the first position that it needs.
    """

    def __init__(self, pass_on: Callable[[Chunk], None], *, is_joined: bool) -> None:
        self.is_joined = is_joined
        self._pass_on = pass_on
        self._waiting: deque[_WaitingChunk] = deque()
        self._data = bytearray()
        self._base = 0
        self._last_end = 0  # the offset in its direction
        self.undecided: dict[PendingReader, int] = {}
        self.hides = False
        """Whether all bytes are blanked, and passed on for a decoder that redacts its results."""

    @property
    def end(self) -> int:
        """The position after the last byte."""
        return self._base + len(self._data)

    @property
    def held_bytes(self) -> int:
        """The memory that bytes take which wait."""
        return len(self._data) + _CHUNK_BYTES * len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether so much waits that bytes must be blanked: see ``blank_oldest``."""
        return len(self._data) > HELD_BYTES or len(self._waiting) > _MOST_CHUNKS

    def add(self, chunk: Chunk) -> int:
        """Add the next chunk, and move its data here; return the position of its first byte."""
        start = self.end
        self._data += chunk.data
        self._last_end = chunk.offset + len(chunk.data)
        chunk.data = b""
        self._waiting.append(_WaitingChunk(self.end, chunk, chunk.redacted))
        return start

    def offset(self, at: int) -> int:
        """Return the offset in its direction of a byte of the last chunk."""
        return at - self._base - len(self._data) + self._last_end

    def mark(self, at: int, message: MessageKey, secrets: Sequence[RedactedSecret]) -> None:
        """Note in the chunk of a byte that waits that secrets begin there.

        A secret that was blanked before a capture file was written is known from there.
        """
        waiting = self._waiting[0]  # mostly the only one
        if at >= waiting.stop:
            found = (each for each in self._waiting if at < each.stop)
            waiting = next(found, self._waiting[-1])
        chunk, recorded = waiting.chunk, waiting.recorded
        if recorded is not None:
            names = {known[:2] for counts in recorded.values() for known in counts}
            secrets = [each for each in secrets if each[:2] not in names]
            if chunk.redacted is recorded:
                chunk.redacted = {each: {**counts} for each, counts in recorded.items()}
        if chunk.redacted is None:
            chunk.redacted = {}
        if secrets:
            place(chunk.redacted, message, secrets)

    def write(self, at: int, data: bytes) -> None:
        """Replace bytes that wait, from position ``at``."""
        start = at - self._base
        self._data[start : start + len(data)] = data

    def blank(self, start: int, stop: int, mask: bytes = b"", phase: int = 0) -> None:
        """Blank bytes; they stay masked, from ``phase`` of the mask on (RFC 6455 section 5.3)."""
        self.write(start, unmask(BLANK * (stop - start), mask, phase))

    def blank_oldest(self) -> None:
        """Let the reader that needs the first bytes blank what it has not decided."""
        min(self.undecided, key=lambda reader: self.undecided[reader]).blank_undecided()

    def pass_first(self) -> bool:
        """Pass on the first chunk that waits, if its bytes are decided; return whether they are."""
        stop, chunk, _ = self._waiting[0]
        if stop > min(self.undecided.values(), default=self.end):
            return False
        self._waiting.popleft()
        size = stop - self._base
        if size:
            chunk.data = bytes(self._data[:size])
            if self.hides:
                chunk.hidden, chunk.data = chunk.data, BLANK * size
            del self._data[:size]
            self._base = stop
        self._pass_on(chunk)
        return True
