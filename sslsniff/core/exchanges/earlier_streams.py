"""Finds the HTTP/2 streams of a joined connection whose heads passed before the capture.

Of such a stream only the rest of its body and its trailers come: no head will name it. It is an
exchange of which nothing is known but these. It must not be one that has ended already, by a limit,
or whose head was lost. So it has these properties:

- Its number is below that of the first request that was seen: clients count upwards (RFC 9113,
  section 5.1.1).
- Nothing of the connection was lost.
- No exchange of it was seen before.
"""

from sslsniff.core.model import Connection

_MOST_STREAMS = 4096
"""Streams that are known to have been seen; beyond, no more are found."""


class EarlierStreams:
    """Remembers which streams of a joined connection began before the capture, as far as seen.

    Memory: ``_MOST_STREAMS`` numbers.
    """

    __slots__ = ("_connection", "_first_request", "_seen")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._first_request: int | None = None
        self._seen: set[int] = set()

    def note_request(self, stream: int) -> None:
        """Note that a request's head was seen: the stream is not an earlier one."""
        if self._first_request is None and stream & 1:  # the others are promised by the server
            self._first_request = stream

    def note_response(self, stream: int) -> None:
        """Note that the head of a response was seen, but not that of its request."""
        if len(self._seen) < _MOST_STREAMS:
            self._seen.add(stream)

    def is_new(self, stream: int) -> bool:
        """Return whether a stream of which bytes of a response come is an earlier one, once."""
        connection = self._connection
        if connection.missing or stream in self._seen:
            return False
        if self._first_request is not None and stream >= self._first_request:
            return False
        self.note_response(stream)
        return stream in self._seen
