"""Bodies with a content coding, decompressed and read while they are received."""

from sslsniff.decoders.content.codings import ContentDecoder, codings, window_bytes
from sslsniff.decoders.content.output_limit import RATIO
from sslsniff.decoders.decoder import BodyReader
from sslsniff.decoders.inner.partial_messages import Room
from sslsniff.decoders.messages import Headers, Message

WINDOWS_BYTES = 48 << 20
"""The memory that all decompressors of a connection may use."""
_CODER_BYTES = 128 << 10  # memory of a decompressor with an empty window
_STEP_BYTES = 4096  # of content, after which the limit on output is checked again


def undone(inside: BodyReader, headers: Headers, room: Room) -> BodyReader:
    """Return a reader of a body as it was sent; it feeds the decompressed content to ``inside``.

    Returns ``inside`` if ``headers`` name no content coding. ``room`` is shared by all such readers
    of the connection.
    """
    return CodedReader(inside, headers, room) if codings(headers) else inside


class CodedReader:
    """Decompresses a body and feeds its content to ``inside``; stops at the first lost byte.

    Memory: the windows of the codings, out of ``room``. Its ``output_limit`` limits the output.
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
        """Decompress more of the body; complete messages are appended to ``out``."""
        if self._decoder is not None:
            self._fault = self._undo(self._decoder, data, out) or self._decoder.error
        if self._fault is not None:
            self.stop(self._fault, out)

    def _undo(self, decoder: ContentDecoder, data: bytes, out: list[Message]) -> str | None:
        limit = self._room.output_limit
        limit.received(len(data))
        for piece in decoder.feed(data):
            self._fill(len(piece))
            for start in range(0, len(piece), _STEP_BYTES):
                before = len(out)
                part = piece[start : start + _STEP_BYTES]
                self._inside.feed(part, out)
                limit.reported(len(part), len(out) - before)
                if not limit.left:
                    return f"output of over {RATIO} times the input"
        return None

    def gap(self, missing: int, out: list[Message]) -> None:
        """Stop: what follows lost bytes cannot be decompressed."""
        self._inside.gap(missing, out)
        self.stop("bytes lost inside a content coding", out)

    def lose_sync(self, out: list[Message]) -> None:
        """Stop, as for ``gap``."""
        self._inside.lose_sync(out)
        self.stop("bytes lost inside a content coding", out)

    def end(self, out: list[Message]) -> None:
        """End the body."""
        self._inside.end(out)
        self._release()

    def stop(self, reason: str, out: list[Message]) -> None:
        """See ``BodyReader``."""
        self._inside.stop(reason, out)
        self._release()

    def _fill(self, size: int) -> None:
        """Count the used part of the windows: they fill up with the content."""
        size = min(size, self._bytes - self._filled_bytes)
        self._filled_bytes += size
        self._room.filled_bytes += size

    def _release(self) -> None:
        if self._decoder is not None:
            self._decoder = None
            self._room.left += self._bytes
            self._room.filled_bytes -= self._filled_bytes
