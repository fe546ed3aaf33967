"""Remembers what was seen of the streams of an HTTP/2 connection, as bits of small numbers."""

from sslsniff.decoders.messages import Side

REQUEST_HEAD, RESPONSE_HEAD = 1, 2
REQUEST_END, RESPONSE_END = 4, 8
ABORTED = 16
"""Reset or aborted: later frames of it are not reported."""
LATE = 32
"""Its response came after the client had reset it."""

_MOST_STREAMS = 4096  # open ones; and as many that were closed last
STREAM_BYTES = 100
"""Memory of the state of a stream."""


class StreamStates:
    """The states of streams. ``open``: those that were not closed, oldest first."""

    __slots__ = ("_closed", "open")

    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        # Why later frames are not decoded, and whether its response may still come. Apart: closed
        # ones never evict open ones.
        self._closed: dict[int, tuple[str, bool]] = {}

    @property
    def held_bytes(self) -> int:
        """The memory that it uses."""
        return STREAM_BYTES * (len(self.open) + len(self._closed))

    def get(self, stream: int) -> int:
        """Return the state of a stream; 0: nothing was seen of it."""
        state = self.open.get(stream)
        if state is None:
            return ABORTED if stream in self._closed else 0
        return state

    def add(self, stream: int, bits: int) -> int:
        """Add bits to the state of a stream, and return it."""
        streams = self.open
        state = streams.get(stream)
        if state is None:
            if len(streams) >= _MOST_STREAMS:
                del streams[next(iter(streams))]
            state = 0
        streams[stream] = state = state | bits
        return state

    def close(self, stream: int, side: Side, why: str) -> bool:
        """Close a stream because of what ``side`` sent; return whether it was open.

        ``why``: the reason why later frames of the stream are not decoded.
        """
        state = self.open.pop(stream, None)
        if state is None:
            return False
        if len(self._closed) >= _MOST_STREAMS:
            del self._closed[next(iter(self._closed))]
        self._closed[stream] = why, side is Side.CLIENT and not state & RESPONSE_HEAD
        return True

    def why_closed(self, stream: int) -> str:
        """Return why frames of a closed stream are not decoded."""
        return self._closed[stream][0]

    def reopen(self, stream: int) -> bool:
        """Open a stream again whose response comes after the client's reset; return whether so."""
        if stream not in self._closed or not self._closed[stream][1]:
            return False
        del self._closed[stream]
        self.add(stream, LATE)
        return True
