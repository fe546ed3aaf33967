"""Where events come from: a running capture, or a capture file."""

from collections.abc import Iterator
from typing import Protocol

from sslsniff.events import Event, IsOver, never
from sslsniff.fast_path import FastPath
from sslsniff.model import Loss, NotProbed


class Source(Protocol):
    """A stream of events."""

    @property
    def libraries(self) -> list[str]:
        """Return the names that ``Opened.library`` indexes; the list may grow."""

    @property
    def fast_path(self) -> FastPath | None:
        """Return its fast path; None where it has none, as what it reads are no records."""

    def now_ns(self) -> int | None:
        """Return what an event of now would have as its time; None where time is its events'."""

    @property
    def ended(self) -> bool:
        """Say whether nothing more can come."""

    def poll(self, timeout_s: float) -> Iterator[Event]:
        """Wait for events, ``timeout_s`` at most, and yield those that are there."""

    def counted_losses(self) -> list[Loss]:
        """Return all losses that are known once ``finish`` is over, also those without an event."""

    def left_out(self) -> int | None:
        """Return how many connections sampling left out; None where it was not asked for."""

    def not_probed(self) -> list[NotProbed] | None:
        """Return the TLS libraries of which nothing is shown; None where that is not known."""

    def finish(self, is_drained: IsOver = never, is_skipped: IsOver = never) -> Iterator[Event]:
        """Stop, and yield what is left. The source is not used again.

        From when it ``is_drained`` plaintext is only counted as lost, and from when it
        ``is_skipped`` nothing is.
        """
