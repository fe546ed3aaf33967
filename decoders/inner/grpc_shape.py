"""Recognises gRPC without a Content-Type, on HTTP/2 connections that were joined in the middle.

HPACK refers to fields from before the capture began, so such a connection may never name its
Content-Type again. But its bodies show it: in gRPC, they are length-prefixed messages to the last
byte. One body may have this form by chance. Other protocols have a similar form, but another flag
at the end (gRPC-Web and Connect). So ``_PROOFS`` exchanges, both bodies of which have the form,
prove gRPC for later exchanges. A single body of another form disproves it.
"""

from sslsniff.decoders.messages import BodyData, Side

_PREFIX = 5
_PROOFS = 4
"""Exchanges that must have the form of gRPC; in our corpora, no other exchange has it."""

_MAX_STREAMS = 1024


class _BodyShape:
    """Whether a body ``fits`` gRPC so far, and its number of ``messages``."""

    __slots__ = ("_prefix", "_remaining", "fits", "messages")

    def __init__(self) -> None:
        self._prefix = b""
        self._remaining = 0
        self.fits = True
        self.messages = 0

    @property
    def is_whole(self) -> bool:
        """Whether it may end here, after a whole message."""
        return self.fits and not self._prefix and not self._remaining

    def feed(self, data: bytes) -> None:
        pos = 0
        while self.fits and pos < len(data):
            if self._remaining:
                skipped = min(self._remaining, len(data) - pos)
                self._remaining -= skipped
                pos += skipped
            else:
                need = _PREFIX - len(self._prefix)
                self._prefix += data[pos : pos + need]
                pos += need
                if self._prefix[0] > 1:
                    self.fits = False
                elif len(self._prefix) == _PREFIX:
                    self._remaining = int.from_bytes(self._prefix[1:], "big")
                    self._prefix = b""
                    self.messages += 1


class GrpcShape:
    """Checks the form of bodies with an unknown Content-Type.

    Memory: some hundred bytes for each of ``_MAX_STREAMS`` streams.
    """

    def __init__(self) -> None:
        self.watched: dict[int, dict[Side, _BodyShape]] = {}
        self._proofs = 0
        self._is_disproven = False

    @property
    def is_proven(self) -> bool:
        """Whether bodies with an unknown Content-Type count as gRPC."""
        return self._proofs >= _PROOFS and not self._is_disproven

    def begin(self, stream: int, side: Side) -> None:
        """Start to check a body."""
        if not self._is_disproven and len(self.watched) < _MAX_STREAMS:
            self.watched.setdefault(stream, {})[side] = _BodyShape()

    def body(self, message: BodyData) -> None:
        """Check a piece of a body, if the body is checked."""
        shape = self.watched.get(message.stream, {}).get(message.side)
        if shape is None:
            return
        if message.missing:
            self.drop(message.stream)
            return
        shape.feed(message.data)
        if not shape.fits:
            self._disprove()

    def end(self, stream: int, side: Side) -> None:
        """Handle the end of a body, if the body is checked."""
        shapes = self.watched.get(stream, {})
        shape = shapes.get(side)
        if shape is not None and not shape.is_whole:
            self._disprove()
        elif side is Side.SERVER and shapes:
            is_proof = all(body.is_whole and body.messages for body in shapes.values())
            self._proofs += is_proof and len(shapes) == 2
            self.drop(stream)

    def drop(self, stream: int) -> None:
        """Stop checking the bodies of a stream."""
        self.watched.pop(stream, None)

    def _disprove(self) -> None:
        self._is_disproven = True
        self.watched.clear()
