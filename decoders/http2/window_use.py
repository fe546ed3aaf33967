"""Finds who uses up a flow-control window: the stream whose bytes the receiver does not give back.

A receiver gives a window back by WINDOW_UPDATE as its program reads (RFC 9113 section 5.2.2). What
a stream has used of its own window is known from its frames. It is also the most that the stream
may have used of the connection's window: its receiver may give back the one before the other.
So the least that a stream has used of the connection's window is what remains when all other
streams, open or ended, have used the most that they may have. Only that least is ever said.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass

from sslsniff.decoders.messages import WindowUse

MOST_NAMED = 20
"""Waiting streams that are named; the others are counted."""


@dataclass(slots=True)
class Window:
    """A flow-control window, in bytes: its size, the largest that it had.

    ``sent_bytes``: of DATA, on a stream; padding counts.
    """

    size: int
    largest: int
    sent_bytes: int

    def __init__(self, size: int) -> None:
        self.size = self.largest = size
        self.sent_bytes = 0

    @property
    def used_bytes(self) -> int:
        """Bytes that were sent and not given back."""
        return self.largest - self.size

    def increase(self, increment: int) -> None:
        """Note a WINDOW_UPDATE: bytes are given back, or the window is made larger."""
        self.size += increment
        self.largest = max(self.largest, self.size)

    def resize(self, difference: int) -> None:
        """Note that the initial window changed (RFC 9113 section 6.9.2)."""
        self.size += difference
        self.largest += difference


def stream_use(stream: int, window: Window) -> WindowUse:
    """Return who uses up the window of a stream: that stream itself."""
    return WindowUse(window.largest, stream, window.used_bytes)


def connection_use(
    connection: Window, streams: Mapping[int, Window], ended_bytes: int, sending: Set[int]
) -> WindowUse:
    """Return who uses up the window of a connection.

    ``streams``: the windows of open streams. ``ended_bytes``: the most that streams may have used
    that ended. ``sending``: the streams on which the sender has not ended.
    """
    used = connection.used_bytes
    found, most, in_all = None, 0, ended_bytes
    for stream, window in streams.items():
        may_have_used = window.largest - window.size
        in_all += may_have_used
        if may_have_used > most:
            found, most = stream, may_have_used
    least = min(most, used - (in_all - most))
    holder, held = (found, least) if 2 * least > used else (None, 0)
    waiting = sorted(sending - {holder})
    named = tuple(waiting[:MOST_NAMED])
    return WindowUse(connection.largest, holder, held, named, len(waiting) - len(named))
