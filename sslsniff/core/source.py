"""The protocol of what yields events: a running capture, or a capture file."""

from collections.abc import Iterator
from typing import Protocol

from sslsniff.core.events import Event, IsOver, never
from sslsniff.core.fast_path import FastPath
from sslsniff.core.losses import Loss
from sslsniff.core.model import NotProbed


class Source(Protocol):
    """A stream of events."""

    @property
    def libraries(self) -> list[str]:
        """Return the names that ``Opened.library`` indexes; the list may grow."""

    @property
    def fast_path(self) -> FastPath | None:
        """Return its fast path; None where it reads no records of a ring buffer."""

    def now_ns(self) -> int | None:
        """Return the present time on its events' clock; None where only its events have a time."""

    @property
    def ended(self) -> bool:
        """Whether no more events can come."""

    def poll(self, timeout_s: float) -> Iterator[Event]:
        """Wait for events, ``timeout_s`` at most, and yield those that are there."""

    @property
    def waiting_bytes(self) -> int:
        """How many bytes of records wait to be handled; 0 where that is not known."""

    def counted_losses(self) -> list[Loss]:
        """Return all losses, also those that no event reported; known after ``finish``."""

    def left_out(self) -> int | None:
        """Return how many connections sampling left out; None without sampling."""

    def not_probed(self) -> list[NotProbed] | None:
        """Return the TLS libraries of which nothing is shown; None where that is not known."""

    def finish(self, is_drained: IsOver = never, is_skipped: IsOver = never) -> Iterator[Event]:
        """Stop, and yield the events that wait. The source is not used again.

        ``is_drained`` is called after each record, or some of them. Once it returns true, waiting
        plaintext is no longer yielded, only counted as lost, by connection. Once ``is_skipped``
        returns true, ``counted_losses`` alone counts it.
        """
