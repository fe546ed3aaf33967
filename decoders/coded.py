"""Bodies in a content coding, read on in as they come."""

from sslsniff.decoders.base import BodyReader
from sslsniff.decoders.content import ContentDecoder, codings, window_bytes
from sslsniff.decoders.growth import RATIO
from sslsniff.decoders.held import Room
from sslsniff.decoders.messages import Headers, Message

WINDOWS_BYTES = 48 << 20
"""What undoing the codings of bodies that are under way may take on a connection."""
_CODER_BYTES = 128 << 10  # memory of a decompressor whose window is empty
_TOLD_AT_ONCE = 4096
"""So many bytes of content are read between two looks at what may still be told."""


def undone(inside: BodyReader, headers: Headers, room: Room) -> BodyReader:
    """Return a reader of a body as it was sent, whose content ``inside`` reads.

    Without a content coding that is ``inside``. ``room`` is what all such readers may take.
    """
    return CodedReader(inside, headers, room) if codings(headers) else inside


class CodedReader:
    """Undoes a body's codings for the reader ``inside``; behind a loss nothing can be had of it.

    Memory: the windows of its codings, out of ``room``, whose growth limits what it gives.
    """

    def __init__(self, inside: BodyReader, headers: Headers, room: Room) -> None:
        self._inside = inside
        self._room = room
        self._bytes = window_bytes(headers)
        self._filled_bytes = 0
        self._decoder: ContentDecoder | None = None
        self._fault: str | None = "no room to undo the content coding"
        if self._bytes <= room.left:
            room.left -= self._bytes
            self._decoder = ContentDecoder(headers, max_ratio=None)
            self._fill(_CODER_BYTES)
            self._fault = None

    def feed(self, data: bytes, out: list[Message]) -> None:
        """Read on; messages that are complete go to ``out``."""
        if self._decoder is not None:
            self._fault = self._undo(self._decoder, data, out) or self._decoder.error
        if self._fault is not None:
            self.stop(self._fault, out)

    def _undo(self, decoder: ContentDecoder, data: bytes, out: list[Message]) -> str | None:
        growth = self._room.growth
        growth.came(len(data))
        for piece in decoder.feed(data):
            self._fill(len(piece))
            for start in range(0, len(piece), _TOLD_AT_ONCE):
                before = len(out)
                part = piece[start : start + _TOLD_AT_ONCE]
                self._inside.feed(part, out)
                growth.told(len(part), len(out) - before)
                if not growth.left:
                    return f"over {RATIO} times as much to tell as came"
        return None

    def gap(self, missing: int, out: list[Message]) -> None:
        """Stop: what follows lost bytes cannot be undone."""
        self._inside.gap(missing, out)
        self.stop("bytes lost inside a content coding", out)

    def lose_step(self, out: list[Message]) -> None:
        """Stop, as for ``gap``."""
        self._inside.lose_step(out)
        self.stop("bytes lost inside a content coding", out)

    def end(self, out: list[Message]) -> None:
        """Take the end of the body."""
        self._inside.end(out)
        self._release()

    def stop(self, reason: str, out: list[Message]) -> None:
        """See ``BodyReader``."""
        self._inside.stop(reason, out)
        self._release()

    def _fill(self, size: int) -> None:
        """Count what is in use of the windows: they fill as content comes out."""
        size = min(size, self._bytes - self._filled_bytes)
        self._filled_bytes += size
        self._room.filled_bytes += size

    def _release(self) -> None:
        if self._decoder is not None:
            self._decoder = None
            self._room.left += self._bytes
            self._room.filled_bytes -= self._filled_bytes
