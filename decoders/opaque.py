"""Reports the bytes of a protocol that no decoder reads, up to a limit, and counts the rest."""

from sslsniff.decoders.decoder import CLOSED
from sslsniff.decoders.messages import SIDES, Message, Side, Undecoded

UNKNOWN = "unknown"
UNKNOWN_PROTOCOL = "unknown protocol"

_REPORTED_BYTES = 64 * 1024  # of each side's content


class OpaqueDecoder:
    """A decoder that decodes nothing: each feed gives one :class:`Undecoded`.

    It stores no bytes. The messages contain the first ``_REPORTED_BYTES`` of each side.
    """

    def __init__(self, protocol: str = UNKNOWN, reason: str = UNKNOWN_PROTOCOL) -> None:
        self.protocol = protocol
        self._reason = reason
        self._reportable = dict.fromkeys(SIDES, _REPORTED_BYTES)

    def feed(self, side: Side, data: bytes) -> list[Message]:
        """Report the bytes, as far as the limit of the side allows, and their number."""
        if not data:
            return []
        limit = self._reportable[side]
        self._reportable[side] = max(0, limit - len(data))
        return [Undecoded(side, data[:limit], len(data), self._reason)]

    def gap(self, side: Side, missing: int) -> list[Message]:
        """Do nothing: without decoding there is no sync to lose."""
        return []

    growth = 0

    @property
    def held_bytes(self) -> int:
        """See ``Decoder``."""
        return 0

    def end(self, side: Side, reason: str = CLOSED) -> list[Message]:
        """Do nothing: no bytes are buffered."""
        return []
