"""Decompresses bodies with a content coding while they are received."""

from sslsniff.decoders.content.codings import ContentDecoder, codings, window_bytes
from sslsniff.decoders.content.output_limit import RATIO
from sslsniff.decoders.decoder import BodyReader
from sslsniff.decoders.inner.partial_messages import Room
from sslsniff.decoders.messages import Headers, Message

WINDOWS_BYTES = 48 << 20
"""Memory of all decompressors of a connection."""
_CODER_BYTES = 128 << 10  # memory of a decompressor with an empty window
_STEP_BYTES = 4096  # of content between two checks of the output limit


def decompressing(reader: BodyReader, headers: Headers, room: Room) -> BodyReader:
    """Return a reader of a body as sent, which feeds the decompressed content to ``reader``.

    Returns ``reader`` itself if ``headers`` name no content coding. All such readers of a
    connection share ``room``.
    """
    return DecompressingReader(reader, headers, room) if codings(headers) else reader


class DecompressingReader:
    """Decompresses a body and feeds its content to ``reader``; stops at the first lost byte.

    ``room`` limits the memory of the codings' windows, and by its ``output_limit`` the output.
    """

    def __init__(self, reader: BodyReader, headers: Headers, room: Room) -> None:
        self._reader = reader
        self._room = room
        self._window_bytes = window_bytes(headers)
        self._filled_bytes = 0
        self._decoder: ContentDecoder | None = None
        self._fault: str | None = "no room to undo the content coding"
        if self._window_bytes <= room.free_bytes:
            room.free_bytes -= self._window_bytes
            self._decoder = ContentDecoder(headers, max_ratio=None)
            self._fill(_CODER_BYTES)
            self._fault = None

    def feed(self, data: bytes, out: list[Message]) -> None:
        """Decompress more of the body; append complete messages to ``out``."""
        if self._decoder is not None:
            self._fault = self._decompress(self._decoder, data, out) or self._decoder.error
        if self._fault is not None:
            self.stop(self._fault, out)

    def _decompress(self, decoder: ContentDecoder, data: bytes, out: list[Message]) -> str | None:
        limit = self._room.output_limit
        limit.received(len(data))
        for piece in decoder.feed(data):
            self._fill(len(piece))
            for start in range(0, len(piece), _STEP_BYTES):
                before = len(out)
                step = piece[start : start + _STEP_BYTES]
                self._reader.feed(step, out)
                limit.reported(len(step), len(out) - before)
                if not limit.allowance:
                    return f"output of over {RATIO} times the input"
        return None

    def gap(self, missing: int, out: list[Message]) -> None:
        """Stop: the bytes after a loss cannot be decompressed."""
        self._reader.gap(missing, out)
        self.stop("bytes lost inside a content coding", out)

    def lose_sync(self, out: list[Message]) -> None:
        """Stop, as for ``gap``."""
        self._reader.lose_sync(out)
        self.stop("bytes lost inside a content coding", out)

    def end(self, out: list[Message]) -> None:
        """End the body."""
        self._reader.end(out)
        self._release()

    def stop(self, reason: str, out: list[Message]) -> None:
        """See ``BodyReader``."""
        self._reader.stop(reason, out)
        self._release()

    def _fill(self, size: int) -> None:
        """Count the memory that ``size`` bytes of content use in the windows."""
        size = min(size, self._window_bytes - self._filled_bytes)
        self._filled_bytes += size
        self._room.filled_bytes += size

    def _release(self) -> None:
        if self._decoder is not None:
            self._decoder = None
            self._room.free_bytes += self._window_bytes
            self._room.filled_bytes -= self._filled_bytes
