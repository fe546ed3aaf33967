"""Bytes of a protocol that no decoder reads: shown up to a limit, counted beyond it."""

from sslsniff.decoders.decoder import CLOSED
from sslsniff.decoders.messages import Message, Side, Undecoded

UNKNOWN = "unknown"
UNKNOWN_PROTOCOL = "unknown protocol"

KEPT_BYTES = 64 * 1024
"""What is kept of a side's bytes; the decoder itself holds none of them."""


class OpaqueDecoder:
    """A decoder that decodes nothing: each feed gives one :class:`Undecoded`.

    It keeps two counters and no bytes; what it passes on is bounded by ``KEPT_BYTES`` a side.
    """

    def __init__(self, protocol: str = UNKNOWN, reason: str = UNKNOWN_PROTOCOL) -> None:
        self.protocol = protocol
        self._reason = reason
        self._left = {Side.CLIENT: KEPT_BYTES, Side.SERVER: KEPT_BYTES}

    def feed(self, side: Side, data: bytes) -> list[Message]:
        """Pass the bytes on, the first ``KEPT_BYTES`` of a side with their content."""
        if not data:
            return []
        left = self._left[side]
        self._left[side] = max(0, left - len(data))
        return [Undecoded(side, data[:left], len(data), self._reason)]

    def gap(self, side: Side, missing: int) -> list[Message]:
        """Do nothing: where nothing is understood, nothing gets out of sync."""
        return []

    growth = 0

    @property
    def held_bytes(self) -> int:
        """See ``Decoder``."""
        return 0

    def end(self, side: Side, reason: str = CLOSED) -> list[Message]:
        """Do nothing: nothing is held back."""
        return []
