"""Blanks secrets in text, such as a body, that arrives in pieces with other bytes between them."""

from sslsniff.decoders.content import codings
from sslsniff.decoders.messages import Headers
from sslsniff.redaction.multipart import first_boundary, said_boundary
from sslsniff.redaction.pending_bytes import PendingBytes
from sslsniff.redaction.rules import Rules

_MOST_PENDING_BYTES = 64 << 10
"""If more bytes than these may belong to a secret, the rest of the run is blanked."""

_SEARCHED_AT_ONCE_BYTES = 256
"""Up to so many undecided bytes are searched again with each piece."""

_SEARCHED_SHARE = 4
"""More are searched again when they grew by a quarter: bytes may come one by one."""


def is_opaque(headers: Headers) -> bool:
    """Return whether a message's body cannot be read as text, or may be so, by its headers.

    Bodies with a coding cannot, nor gRPC with one, nor gRPC-Web in base64, nor WebSockets over
    HTTP/2 (RFC 8441), which are masked. A header whose name is not known may say so.
    """
    return bool(codings.codings(headers)) or any(
        name is None
        or name == ":protocol"
        or ((lowered := name.lower()) == "grpc-encoding" and value != "identity")
        or (lowered == "content-type" and "grpc-web-text" in (value or "").lower())
        for name, value in headers
    )


class TextRun:
    """Blanks secrets of a run in ``buffer``; a ``PendingReader`` while a secret may continue.

    ``headers`` are those of the message. If ``blanks_all``, all bytes are blanked.
    """

    __slots__ = (
        *("_blanked_to", "_boundary", "_buffer", "_context", "_new_bytes", "_pending", "_pieces"),
        *("_headers", "_rules", "blanks_all"),
    )

    def __init__(
        self,
        buffer: PendingBytes,
        rules: Rules,
        headers: Headers | None = None,
        *,
        blanks_all: bool = False,
    ) -> None:
        self._buffer = buffer
        self._rules = rules
        self.blanks_all = blanks_all or (headers is not None and is_opaque(headers))
        self._headers = headers
        self._boundary: bytes | None = None
        self._pending = bytearray()  # its first ``_context`` bytes are decided
        self._context = 0  # one byte, which shows whether a line begins
        self._blanked_to = 0  # where the last secret ends; found again, it is not counted again
        self._new_bytes = 0
        self._pieces: list[tuple[int, int, bytes, int]] = []  # position, size, mask, phase

    def feed(self, data: bytes, at: int, mask: bytes = b"", phase: int = 0) -> None:
        """Feed the next piece, unmasked; the buffer has it at ``at``, masked if there is a mask."""
        if not data:
            return
        if self.blanks_all:
            self._buffer.blank(at, at + len(data), mask, phase)
            self._rules.blanked.unread_bytes += len(data)
            return
        self._pending += data
        self._add_piece(at, len(data), mask, phase)
        self._new_bytes += len(data)
        if len(self._pending) > _SEARCHED_AT_ONCE_BYTES + _SEARCHED_SHARE * self._new_bytes:
            return
        self._new_bytes = 0
        if self._boundary is None:
            said = said_boundary(self._headers) if self._headers is not None else None
            self._boundary = said if said is not None else first_boundary(self._pending)
            if self._boundary is None:
                self._release(0)
                return
        spans, undecided = self._rules.find_so_far(self._pending, self._context, self._boundary)
        self._blank(spans)
        self._release(undecided)
        if len(self._pending) > _MOST_PENDING_BYTES:
            self.blank_undecided()

    def _add_piece(self, at: int, size: int, mask: bytes, phase: int) -> None:
        if self._pieces and not mask:
            last_at, last_size, last_mask, _ = self._pieces[-1]
            if last_at + last_size == at and not last_mask:
                self._pieces[-1] = last_at, last_size + size, b"", 0
                return
        self._pieces.append((at, size, mask, phase))

    def end(self) -> None:
        """End the run: decide on the bytes that wait."""
        self._blank(self._rules.find(self._pending, self._context, self._boundary or b""))
        self._clear()

    def blank_undecided(self) -> None:
        """See ``pending_bytes.PendingReader``: from now on blanks all bytes."""
        size = len(self._pending) - self._context
        self._blank([(self._context, len(self._pending))] if size else [])
        self._rules.blanked.unread_bytes += size
        self._clear()
        self.blanks_all = True

    def _clear(self) -> None:
        self._pending.clear()
        self._pieces.clear()
        self._context = self._blanked_to = 0
        self._buffer.undecided.pop(self, None)

    def _blank(self, spans: list[tuple[int, int]]) -> None:
        known_to = self._blanked_to
        for start, stop in spans:
            self._rules.blanked.secrets += start >= known_to
            self._blanked_to = max(self._blanked_to, stop)
            begin = self._context
            for at, size, mask, phase in self._pieces:
                first, last = max(start, begin), min(stop, begin + size)
                if first < last:
                    self._buffer.blank(
                        at + first - begin, at + last - begin, mask, phase + first - begin
                    )
                begin += size

    def _release(self, undecided: int) -> None:
        """Release the bytes before ``undecided``; one of them stays as context."""
        count = undecided - self._context
        while self._pieces and count >= self._pieces[0][1]:
            count -= self._pieces.pop(0)[1]
        if count:
            at, size, mask, phase = self._pieces[0]
            self._pieces[0] = at + count, size - count, mask, phase + count
        if undecided:
            del self._pending[: undecided - 1]
            self._context = 1
            self._blanked_to = max(0, self._blanked_to - undecided + 1)
        if self._pieces:
            self._buffer.undecided[self] = self._pieces[0][0]
        else:
            self._buffer.undecided.pop(self, None)
