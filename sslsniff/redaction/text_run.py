"""A run of text, such as a body, that arrives in pieces with other bytes between them."""

from sslsniff.decoders.content import codings
from sslsniff.decoders.messages import Headers
from sslsniff.redaction.pending_bytes import PendingBytes
from sslsniff.redaction.rules import Rules

_MOST_PENDING_BYTES = 64 << 10
"""Where a secret is not decided for so long, the rest of the run is blanked."""

_SEARCHED_AT_ONCE_BYTES = 256
_SEARCHED_SHARE = 4
"""While more than the former is undecided, it is searched again when it grew by such a share:
not for each byte that may come alone."""


def is_opaque(headers: Headers) -> bool:
    """Tell by a message's headers whether its body cannot be looked into, or whether that is open.

    So it is with codings, gRPC's too, and with WebSockets over HTTP/2 (RFC 8441), which are masked.
    """
    return bool(codings.codings(headers)) or any(
        name is None
        or name == ":protocol"
        or (name.lower() == "grpc-encoding" and value != "identity")
        for name, value in headers
    )


class Run:
    """Blanks secrets of a run in ``buffer``; a ``PendingReader`` while one may continue.

    Where ``is_blind``, all that comes is blanked.
    """

    __slots__ = ("_buffer", "_context", "_new_bytes", "_pending", "_pieces", "_rules", "is_blind")

    def __init__(self, buffer: PendingBytes, rules: Rules, *, is_blind: bool = False) -> None:
        self._buffer = buffer
        self._rules = rules
        self.is_blind = is_blind
        self._pending = bytearray()  # with a byte of context before it, if that is 1
        self._context = self._new_bytes = 0
        self._pieces: list[tuple[int, int, bytes, int]] = []  # position, size, mask, phase

    def feed(self, data: bytes, at: int, mask: bytes = b"", phase: int = 0) -> None:
        """Feed the next piece, which is at ``at`` on the buffer, masked there or not."""
        if not data:
            return
        if self.is_blind:
            self._buffer.blank(at, at + len(data), mask, phase)
            self._rules.blanked.unread_bytes += len(data)
            return
        self._pending += data
        self._add_piece(at, len(data), mask, phase)
        self._new_bytes += len(data)
        if len(self._pending) > _SEARCHED_AT_ONCE_BYTES + _SEARCHED_SHARE * self._new_bytes:
            return
        self._new_bytes = 0
        spans, undecided = self._rules.find_so_far(self._pending, self._context)
        # What begins later is found again with what follows.
        self._blank([span for span in spans if span[0] < undecided])
        self._pass(undecided)
        if len(self._pending) > _MOST_PENDING_BYTES:
            self.give_up()

    def _add_piece(self, at: int, size: int, mask: bytes, phase: int) -> None:
        if self._pieces and not mask:
            last_at, last_size, last_mask, _ = self._pieces[-1]
            if last_at + last_size == at and not last_mask:
                self._pieces[-1] = last_at, last_size + size, b"", 0
                return
        self._pieces.append((at, size, mask, phase))

    def end(self) -> None:
        """Take the end of the run: what was undecided is decided."""
        self._blank(self._rules.find(self._pending, self._context))
        self._drop()

    def give_up(self) -> None:
        """See ``pending_bytes.PendingReader``: blank what is undecided, and all that follows."""
        size = len(self._pending) - self._context
        self._blank([(self._context, len(self._pending))] if size else [])
        self._rules.blanked.unread_bytes += size
        self._drop()
        self.is_blind = True

    def _drop(self) -> None:
        self._pending.clear()
        self._pieces.clear()
        self._context = 0
        self._buffer.holds.pop(self, None)

    def _blank(self, spans: list[tuple[int, int]]) -> None:
        self._rules.blanked.secrets += len(spans)
        for start, stop in spans:
            begin = self._context
            for at, size, mask, phase in self._pieces:
                first, last = max(start, begin), min(stop, begin + size)
                if first < last:
                    self._buffer.blank(
                        at + first - begin, at + last - begin, mask, phase + first - begin
                    )
                begin += size

    def _pass(self, undecided: int) -> None:
        """Let go of the bytes before ``undecided``, but for one that tells where a line begins."""
        count = undecided - self._context
        while self._pieces and count >= self._pieces[0][1]:
            count -= self._pieces.pop(0)[1]
        if count:
            at, size, mask, phase = self._pieces[0]
            self._pieces[0] = at + count, size - count, mask, phase + count
        if undecided:
            del self._pending[: undecided - 1]
            self._context = 1
        if self._pieces:
            self._buffer.holds[self] = self._pieces[0][0]
        else:
            self._buffer.holds.pop(self, None)
