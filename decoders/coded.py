"""Bodies in a content coding, read on in as they come."""

from typing import Protocol

from sslsniff.decoders.base import BodyReader
from sslsniff.decoders.content import ContentDecoder, codings, window_bytes
from sslsniff.decoders.held import Room
from sslsniff.decoders.messages import Headers, Message

WINDOWS_BYTES = 48 << 20
"""What undoing the codings of bodies that are under way may take on a connection."""


class StoppableReader(BodyReader, Protocol):
    """A reader that can be told that nothing more of its body can be had."""

    def stop(self, reason: str, out: list[Message]) -> None:
        """Read no more, and say so once."""


def undone(inside: StoppableReader, headers: Headers, room: Room) -> BodyReader:
    """Return a reader of a body as it was sent, whose content ``inside`` reads.

    Without a content coding that is ``inside``. ``room`` is what all such readers may take.
    """
    return CodedReader(inside, headers, room) if codings(headers) else inside


class CodedReader:
    """Undoes a body's codings for the reader ``inside``; behind a loss nothing can be had of it.

    Memory: the windows of its codings, out of ``room``.
    """

    def __init__(self, inside: StoppableReader, headers: Headers, room: Room) -> None:
        self._inside = inside
        self._room = room
        self._bytes = window_bytes(headers)
        self._decoder: ContentDecoder | None = None
        self._fault: str | None = "no room to undo the content coding"
        if self._bytes <= room.left:
            room.left -= self._bytes
            self._decoder = ContentDecoder(headers)
            self._fault = None

    def feed(self, data: bytes, out: list[Message]) -> None:
        """Read on; messages that are complete go to ``out``."""
        if self._decoder is not None:
            for piece in self._decoder.feed(data):
                self._inside.feed(piece, out)
            self._fault = self._decoder.error
        if self._fault is not None:
            self._stop(self._fault, out)

    def gap(self, missing: int, out: list[Message]) -> None:
        """Stop: what follows lost bytes cannot be undone."""
        self._inside.gap(missing, out)
        self._stop("bytes lost inside a content coding", out)

    def lose_step(self, out: list[Message]) -> None:
        """Stop, as for ``gap``."""
        self._inside.lose_step(out)
        self._stop("bytes lost inside a content coding", out)

    def end(self, out: list[Message]) -> None:
        """Take the end of the body."""
        self._inside.end(out)
        self._release()

    def _stop(self, reason: str, out: list[Message]) -> None:
        self._inside.stop(reason, out)
        self._release()

    def _release(self) -> None:
        if self._decoder is not None:
            self._decoder = None
            self._room.left += self._bytes
