"""What a source of events can do: a live capture, or a recorded one."""

from collections.abc import Callable, Iterator
from typing import Protocol

from sslsniff.lanes import Lanes
from sslsniff.model import Loss, NotProbed
from sslsniff.wire import Event

IsOver = Callable[[], bool]
"""Says whether the time for something is over."""


def never() -> bool:
    """Say that there is time."""
    return False


class Source(Protocol):
    """A stream of events."""

    @property
    def libraries(self) -> list[str]:
        """Return the names that ``Opened.library`` indexes; the list may grow."""

    @property
    def lanes(self) -> Lanes | None:
        """Return where it looks for lanes; None where it does not."""

    def now_ns(self) -> int | None:
        """Return what an event of now would have as its time; None where time is its events'."""

    @property
    def ended(self) -> bool:
        """Say whether nothing more can come."""

    def poll(self, timeout_s: float) -> Iterator[Event]:
        """Wait for events, ``timeout_s`` at most, and yield those that are there."""

    def counted_losses(self) -> list[Loss]:
        """Return all that is known as lost once ``finish`` is over, told by events or not."""

    def left_out(self) -> int | None:
        """Return how many connections sampling left out; None where it was not asked for."""

    def not_probed(self) -> list[NotProbed] | None:
        """Return the TLS libraries of which nothing is shown; None where that is not known."""

    def finish(self, is_drained: IsOver = never, is_skipped: IsOver = never) -> Iterator[Event]:
        """Stop, and yield what is left. The source is not used again.

        From when it ``is_drained`` plaintext is only counted as lost, and from when it
        ``is_skipped`` nothing is.
        """
