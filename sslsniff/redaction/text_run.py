"""Blanks secrets in text, such as a body, that arrives in pieces with other bytes between them."""

from collections.abc import Sequence

from sslsniff.core.redacted import NO_MESSAGE, MessageKey
from sslsniff.decoders.content import codings
from sslsniff.decoders.messages import Headers
from sslsniff.redaction.findings import BEFORE_BYTES, FIELD, Finding, Secret
from sslsniff.redaction.multipart import first_boundary, said_boundary
from sslsniff.redaction.pending_bytes import BLANK, PendingBytes
from sslsniff.redaction.rules import Rules
from sslsniff.redaction.secret_search import Span

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

    ``headers`` are those of the message. If ``blanks_all``, all bytes are blanked. ``where``: what
    its secrets are said to be in; ``message``: the same for their exchange.
    """

    __slots__ = (
        *("_before", "_blanked", "_boundary", "_buffer", "_context", "_found", "_headers"),
        *("_marked_to", "_message", "_new_bytes", "_pending", "_pieces", "_rules", "_where"),
        "blanks_all",
    )

    def __init__(
        self,
        buffer: PendingBytes,
        rules: Rules,
        headers: Headers | None = None,
        *,
        where: str,
        message: MessageKey = NO_MESSAGE,
        blanks_all: bool = False,
    ) -> None:
        self._buffer = buffer
        self._rules = rules
        self._where = where
        self._message = message
        self.blanks_all = blanks_all or (headers is not None and is_opaque(headers))
        self._headers = headers
        self._boundary: bytes | None = None
        self._pending = bytearray()  # its first ``_context`` bytes are decided
        self._context = 0  # one byte, which shows whether a line begins
        self._blanked: set[Span] = set()  # of the bytes that are searched again
        self._found: dict[Span, Sequence[Secret]] = {}  # that are not marked yet
        self._before = b""  # the last bytes that are decided, with secrets blanked
        self._marked_to = 0  # where the last secret ends that was marked: what is in it is not
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
        findings, undecided = self._rules.find_so_far(
            self._pending, self._context, self._boundary, self._blanked, self._before
        )
        if findings:
            self._blank(findings)
        if findings or self._found:
            self._mark(findings, undecided)
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

    def end(self, *, is_whole: bool) -> None:
        """End the run: decide on the bytes that wait. ``is_whole``: nothing of it is missing."""
        if self._pending:
            size = len(self._pending)
            findings = self._rules.find(
                self._pending,
                self._context,
                self._boundary or b"",
                self._blanked,
                self._before,
            )
            self._blank(findings)
            self._mark(findings, size, cut_at=None if is_whole else size)
        self._clear()

    def blank_undecided(self) -> None:
        """See ``pending_bytes.PendingReader``: from now on blanks all bytes."""
        self._mark([], len(self._pending))
        size = len(self._pending) - self._context
        self._blank([Finding(self._context, len(self._pending), ())] if size else [])
        self._rules.blanked.unread_bytes += size
        self._clear()
        self.blanks_all = True

    def _clear(self) -> None:
        self._pending.clear()
        self._pieces.clear()
        self._blanked.clear()
        self._found.clear()
        self._context = self._marked_to = 0
        self._buffer.undecided.pop(self, None)

    def _blank(self, findings: list[Finding]) -> None:
        for start, stop, _ in findings:
            self._blanked.add((start, stop))
            begin = self._context
            for at, size, mask, phase in self._pieces:
                first, last = max(start, begin), min(stop, begin + size)
                if first < last:
                    self._buffer.blank(
                        at + first - begin, at + last - begin, mask, phase + first - begin
                    )
                begin += size

    def _mark(self, findings: list[Finding], decided_to: int, cut_at: int | None = None) -> None:
        """Mark the secrets that begin in decided bytes; others wait, as more may be found there.

        A secret that ends at ``cut_at`` may have gone on.
        """
        found = self._found
        for start, stop, secrets in findings:
            known = found.get((start, stop))
            if known is None or known[0].name == FIELD:
                found[start, stop] = secrets
        for start, stop in sorted(found, key=_by_span):
            if start >= decided_to:
                break
            secrets = found.pop((start, stop))
            if start < self._marked_to:  # in another one
                continue
            self._marked_to = stop
            mark, where = self._rules.fingerprints.mark, self._where
            marks = [
                mark(where, name, pattern, None if stop == cut_at else text)
                for name, pattern, text in secrets
            ]
            self._buffer.mark(self._position(start), self._message, marks)

    def _position(self, start: int) -> int:
        """Return where in the buffer a byte is that waits."""
        begin = self._context
        for at, size, _, _ in self._pieces:
            if start < begin + size:
                return at + max(0, start - begin)
            begin += size
        return self._buffer.end - 1

    def _release(self, undecided: int) -> None:
        """Release the bytes before ``undecided``; one of them stays as context."""
        count = undecided - self._context
        while self._pieces and count >= self._pieces[0][1]:
            count -= self._pieces.pop(0)[1]
        if count:
            at, size, mask, phase = self._pieces[0]
            self._pieces[0] = at + count, size - count, mask, phase + count
        if undecided:
            gone = undecided - 1
            self._before = self._shown_before(undecided)
            del self._pending[:gone]
            self._context = 1
            if self._blanked:
                self._blanked = {
                    (start - gone, stop - gone) for start, stop in self._blanked if stop > undecided
                }
                self._found = {
                    (start - gone, stop - gone): secrets
                    for (start, stop), secrets in self._found.items()
                }
                self._marked_to = max(0, self._marked_to - gone)
        if self._pieces:
            self._buffer.undecided[self] = self._pieces[0][0]
        else:
            self._buffer.undecided.pop(self, None)

    def _shown_before(self, stop: int) -> bytes:
        """Return the bytes before ``stop``, up to ``BEFORE_BYTES``, with secrets blanked."""
        first = stop - BEFORE_BYTES
        if first >= self._context and not self._blanked:
            return bytes(self._pending[first:stop])
        first = max(self._context, first)
        shown = self._pending[first:stop]
        for start, end in self._blanked:
            for at in range(max(start, first), min(end, stop)):
                shown[at - first] = ord(BLANK)
        return (self._before + bytes(shown))[-BEFORE_BYTES:]


def _by_span(span: Span) -> tuple[int, int]:
    return span[0], -span[1]
