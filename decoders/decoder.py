"""The interfaces of decoders, and how one decoder hands a connection to the next."""

from dataclasses import dataclass, field
from typing import Protocol

from sslsniff.decoders.messages import Headers, Message, Side

CLOSED = "connection closed"
"""The usual reason for the end of a side."""


class Decoder(Protocol):
    """Reads both directions of one connection; never raises on input, bounded in memory."""

    @property
    def protocol(self) -> str:
        """The protocol as shown to users: ``http/1.1``, ``http/2``, ``unknown``, ..."""

    @property
    def growth(self) -> int:
        """The most bytes that ``held_bytes`` may grow for each byte fed."""

    @property
    def held_bytes(self) -> int:
        """About how many bytes of memory it uses, beyond those at its start."""

    def feed(self, side: Side, data: bytes) -> list[Message]:
        """Feed the next bytes that ``side`` sent; return the messages that they complete."""

    def gap(self, side: Side, missing: int) -> list[Message]:
        """Note that ``missing`` bytes of ``side`` were lost before the next ``feed``."""

    def end(self, side: Side, reason: str = CLOSED) -> list[Message]:
        """Handle the end of what ``side`` sends, and why; called at most once for a side."""


class BodyReader(Protocol):
    """Reads the body of a request or a response as it comes."""

    def feed(self, data: bytes, out: list[Message]) -> None:
        """Feed more of the body; append complete messages to ``out``."""

    def gap(self, missing: int, out: list[Message]) -> None:
        """Skip bytes of the body that were lost."""

    def lose_sync(self, out: list[Message]) -> None:
        """Note that an unknown number of bytes of the body may be missing."""

    def end(self, out: list[Message]) -> None:
        """Handle the end of the body."""

    def stop(self, reason: str, out: list[Message]) -> None:
        """Stop reading the body; report once that the rest is not read."""


@dataclass(slots=True)
class Switch:
    """How a connection continues in another protocol."""

    token: str
    """The protocol as in the Upgrade field (RFC 9110 section 7.8); ``connect`` for a tunnel."""
    stream: int
    """Of the response that switched."""
    headers: Headers
    """Of the response that switched."""
    pending: dict[Side, bytes] = field(default_factory=dict)
    """Bytes of the new protocol that the old decoder received."""
