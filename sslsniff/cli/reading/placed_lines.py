"""Collects lines with their places in the output, so that those of several processes are merged.

A place is where the events are that a line shows (``ReplaySource.place``). Where these are of
several connections, the connections follow in the order in which they were opened.
"""

import io
from typing import Any, TextIO

from sslsniff.core.model import Connection, Exchange, InnerMessage
from sslsniff.core.sink import FlowControlStall, Sink
from sslsniff.decoders.messages import Frame, Http2Totals, Side, Undecoded
from sslsniff.files.replay import Phase, ReplaySource

Place = tuple[int, ...]
PlacedLine = tuple[Place, bytes]

_OF_SEVERAL = frozenset((Phase.TIME_PASSED, Phase.CAPTURE_ENDED))
"""Where events may be of several connections. What is reported as time passes, has a time, too."""

_UNKNOWN, _STALL = 0, 1
"""What is reported then, in this order."""


class LinePlaces(Sink):
    """Knows the place of what other sinks write: it must be called before them.

    ``exchanges`` counts all of them.
    """

    wants_messages = False

    def __init__(self, source: ReplaySource) -> None:
        self.exchanges = 0
        self._source = source
        self._opened: dict[str, Place] = {}
        self._which: Place = ()

    @property
    def place(self) -> Place:
        """The place of what is written now."""
        place = self._source.place
        return (*place, *self._which) if place[1] in _OF_SEVERAL else place

    def _is_about(self, connection: Connection, *report: int) -> None:
        if self._source.place[1] != Phase.TIME_PASSED:
            report = ()
        self._which = (*report, *self._opened[connection.id])

    def opened(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._opened[connection.id] = self._source.place

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        self.exchanges += 1
        self._is_about(exchange.connection)

    def frame(self, connection: Connection, frame: Frame, time_ns: int, tid: int) -> None:
        """See ``Sink``."""
        self._is_about(connection)

    def stall(self, connection: Connection, stall: FlowControlStall, time_ns: int) -> None:
        """See ``Sink``."""
        self._is_about(connection, _STALL, stall.since_ns)

    def frame_totals(self, connection: Connection, totals: Http2Totals, time_ns: int) -> None:
        """See ``Sink``."""
        self._is_about(connection)

    def message(self, inner: InnerMessage) -> None:
        """See ``Sink``."""
        self._is_about(inner.connection)

    def unknown(self, connection: Connection, side: Side, first: bytes, time_ns: int) -> None:
        """See ``Sink``."""
        self._is_about(connection, _UNKNOWN, time_ns)

    def undecoded(self, connection: Connection, message: Undecoded, time_ns: int) -> None:
        """See ``Sink``."""
        self._is_about(connection)

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        del self._opened[connection.id]

    def left_open(self, connection: Connection) -> None:
        """See ``Sink``."""
        self._is_about(connection)


class PlacedLines(io.BufferedIOBase):
    """A file that collects what is written, until ``take`` returns it; then it is empty again.

    ``places`` has the place of what is written now. ``like``: the file that it stands for.
    """

    def __init__(self, places: LinePlaces, like: TextIO) -> None:
        super().__init__()
        self._places = places
        self._like = like
        self._lines: list[PlacedLine] = []

    def take(self) -> list[PlacedLine]:
        """Return what was written since the last call."""
        lines, self._lines = self._lines, []
        return lines

    def writable(self) -> bool:
        """See ``io.IOBase``."""
        return True

    def isatty(self) -> bool:
        """See ``io.IOBase``."""
        return self._like.isatty()

    def fileno(self) -> int:
        """See ``io.IOBase``."""
        return self._like.fileno()

    def write(self, data: Any, /) -> int:
        """See ``io.BufferedIOBase``."""
        self._lines.append((self._places.place, bytes(data)))
        return len(data)
