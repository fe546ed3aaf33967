"""gRPC on HTTP/2 connections that were joined in the middle, recognised without a Content-Type.

HPACK refers to fields from before the capture began, so such a connection may never name its
Content-Type again. Its bodies tell: those of gRPC are length-prefixed messages to their last byte.
One body may look so by chance, and other protocols frame alike but end otherwise (gRPC-Web and
Connect by a frame with another flag). So some exchanges, of which both bodies look so, prove it for
those that come after them, and a single body that does not rules it out.
"""

from sslsniff.decoders.messages import BodyData, Side

_PREFIX = 5
_PROOFS = 4
"""Exchanges that must look like gRPC; no corpus of ours has one that does and is none."""

_MAX_STREAMS = 1024


class _BodyShape:
    """How a body looks so far: ``messages`` that are whole, and whether it ``fits`` gRPC."""

    __slots__ = ("_left", "_prefix", "fits", "messages")

    def __init__(self) -> None:
        self._prefix = b""
        self._left = 0
        self.fits = True
        self.messages = 0

    @property
    def is_whole(self) -> bool:
        """Say whether it ends after a message."""
        return self.fits and not self._prefix and not self._left

    def feed(self, data: bytes) -> None:
        pos = 0
        while self.fits and pos < len(data):
            if self._left:
                taken = min(self._left, len(data) - pos)
                self._left -= taken
                pos += taken
            else:
                need = _PREFIX - len(self._prefix)
                self._prefix += data[pos : pos + need]
                pos += need
                if self._prefix[0] > 1:
                    self.fits = False
                elif len(self._prefix) == _PREFIX:
                    self._left = int.from_bytes(self._prefix[1:], "big")
                    self._prefix = b""
                    self.messages += 1


class GrpcShape:
    """Watches bodies whose Content-Type is not known; ``is_proven`` says that they are gRPC's.

    Memory: some hundred bytes for each of ``_MAX_STREAMS`` streams.
    """

    def __init__(self) -> None:
        self.watched: dict[int, dict[Side, _BodyShape]] = {}
        self._proofs = 0
        self._ruled_out = False

    @property
    def is_proven(self) -> bool:
        """Say whether what looks so is gRPC."""
        return self._proofs >= _PROOFS and not self._ruled_out

    def begin(self, stream: int, side: Side) -> None:
        """Watch a body."""
        if not self._ruled_out and len(self.watched) < _MAX_STREAMS:
            self.watched.setdefault(stream, {})[side] = _BodyShape()

    def body(self, message: BodyData) -> None:
        """Take a piece of a body, which may be watched."""
        shape = self.watched.get(message.stream, {}).get(message.side)
        if shape is None:
            return
        if message.missing:
            self.drop(message.stream)
            return
        shape.feed(message.data)
        if not shape.fits:
            self._rule_out()

    def end(self, stream: int, side: Side) -> None:
        """Take the end of a body, which may be watched."""
        shapes = self.watched.get(stream, {})
        shape = shapes.get(side)
        if shape is not None and not shape.is_whole:
            self._rule_out()
        elif side is Side.SERVER and shapes:
            is_proof = all(each.is_whole and each.messages for each in shapes.values())
            self._proofs += is_proof and len(shapes) == 2
            self.drop(stream)

    def drop(self, stream: int) -> None:
        """Watch a stream no more: not all of it is there."""
        self.watched.pop(stream, None)

    def _rule_out(self) -> None:
        self._ruled_out = True
        self.watched.clear()
