"""The protocols that decoders satisfy, and what one decoder hands to the next."""

from dataclasses import dataclass, field
from typing import Protocol

from sslsniff.decoders.messages import Headers, Message, Side

CLOSED = "connection closed"
"""Why a side ends, as a rule."""


class Decoder(Protocol):
    """Reads both directions of one connection; never raises on input, bounded in memory."""

    @property
    def protocol(self) -> str:
        """The protocol as shown to users: ``http/1.1``, ``http/2``, ``unknown``, ..."""

    @property
    def growth(self) -> int:
        """The bytes of memory that a byte fed takes at most; ``held_bytes`` grows no faster."""

    @property
    def held_bytes(self) -> int:
        """About how much memory its state takes beyond what it takes at the beginning."""

    def feed(self, side: Side, data: bytes) -> list[Message]:
        """Feed the next bytes that ``side`` sent; return what became known by them."""

    def gap(self, side: Side, missing: int) -> list[Message]:
        """Note that ``missing`` bytes of ``side`` were lost before the next ``feed``."""

    def end(self, side: Side, reason: str = CLOSED) -> list[Message]:
        """Note that no more of ``side`` comes, and why; called at most once for a side."""


class BodyReader(Protocol):
    """Reads the body of a request or a response as it comes."""

    def feed(self, data: bytes, out: list[Message]) -> None:
        """Read on; messages that are complete go to ``out``."""

    def gap(self, missing: int, out: list[Message]) -> None:
        """Skip bytes of the body that were lost."""

    def lose_sync(self, out: list[Message]) -> None:
        """Note that bytes of the body may be missing, it is not known how many."""

    def end(self, out: list[Message]) -> None:
        """Take the end of the body."""

    def stop(self, reason: str, out: list[Message]) -> None:
        """Read no more of the body, and say so once."""


@dataclass(slots=True)
class Switch:
    """Word of a decoder that its connection goes on in another protocol.

    ``token`` names it as the Upgrade field does (RFC 9110 section 7.8), ``connect`` is
    for a tunnel; ``stream`` and ``headers`` are those of the response that switched.
    ``pending`` are bytes that came after the switch and belong to it.
    """

    token: str
    stream: int
    headers: Headers
    pending: dict[Side, bytes] = field(default_factory=dict)
