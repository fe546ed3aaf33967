"""Finds who uses up a flow-control window: the stream whose bytes the receiver does not give back.

A receiver gives a window back by WINDOW_UPDATE as its program reads (RFC 9113 section 5.2.2). What
a stream has used of its own window is known from its frames. It is also the most that the stream
may have used of the connection's window: its receiver may give back the one before the other.
So the least that a stream has used of the connection's window is what remains when all other
streams, open or ended, have used the most that they may have. Only that least is ever said.
"""

import heapq
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sslsniff.decoders.messages import WindowUse

MOST_NAMED = 20
"""Waiting streams that are named; the others are counted."""


@dataclass(slots=True)
class Window:
    """A flow-control window, in bytes: its size, the largest that it had, and what was sent."""

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

    def send(self, length: int) -> None:
        """Note that its sender sent so many bytes of DATA."""
        self.size -= length
        self.sent_bytes += length

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
    connection: Window, streams: Mapping[int, Window], ended_bytes: int, sending: Collection[int]
) -> WindowUse:
    """Return who uses up the window of a connection.

    ``streams``: the windows of open streams. ``ended_bytes``: the most that streams may have used
    that ended. ``sending``: the streams on which the sender has not ended.
    """
    used = connection.used_bytes
    most = {stream: window.used_bytes for stream, window in streams.items()}
    found = max(most, key=most.__getitem__, default=None)
    holder, held = None, 0
    if found is not None:
        others = sum(most.values()) - most[found] + ended_bytes
        least = min(most[found], used - others)
        if 2 * least > used:
            holder, held = found, least
    waiting = [stream for stream in sending if stream != holder]
    named = heapq.nsmallest(MOST_NAMED, waiting)
    return WindowUse(connection.largest, holder, held, tuple(named), len(waiting) - len(named))
