"""Holds back lines of connections whose other end is not known yet.

A program that feeds its TLS library through memory, such as asyncio, encrypts its first bytes
before it sends them: the kernel learns at that moment to whom. So what such a connection sent first
has no address when it is decoded, and has one less than a millisecond later. Lines of other
connections do not wait.
"""

from collections.abc import Callable
from typing import NamedTuple

from sslsniff.core.model import Connection

LONGEST_NS = 200_000_000
"""So long a line waits at most: then its connection has no address for some time."""
MOST_BYTES = 1 << 20
"""Memory of the lines that wait; with more, all of them are written."""
_LINE_BYTES = 200
"""Memory of a line without its text."""


class Line(NamedTuple):
    """What is written about a connection, after its time, process and peer."""

    connection: Connection
    time_ns: int
    text: str
    is_whole: bool


class PeerWait:
    """Calls ``write`` with each line, at once if the peer of its connection is known."""

    def __init__(self, write: Callable[[Line], None]) -> None:
        self._write = write
        self._waiting: dict[str, list[Line]] = {}
        self._bytes = 0
        self._unknown: set[str] = set()
        """Connections for which no line waits any more."""

    def add(self, line: Line) -> None:
        """Write a line, and those of its connection that wait; or let it wait with them."""
        on = line.connection
        if _is_known(on) or on.id in self._unknown:
            self.release(on)
            self._write(line)
            return
        self._waiting.setdefault(on.id, []).append(line)
        self._bytes += _LINE_BYTES + len(line.text)
        if self._bytes > MOST_BYTES:
            self.release_all()

    def settle(self) -> None:
        """Write the lines whose peers have become known."""
        for lines in [*self._waiting.values()]:
            if _is_known(lines[0].connection):
                self.release(lines[0].connection)

    def tick(self, now_ns: int) -> None:
        """Write the lines that have waited for too long."""
        for lines in [*self._waiting.values()]:
            if now_ns - lines[0].time_ns >= LONGEST_NS:
                self._unknown.add(lines[0].connection.id)
                self.release(lines[0].connection)

    def close(self, connection: Connection) -> None:
        """Write the lines of a connection that is closed."""
        self.release(connection)
        self._unknown.discard(connection.id)

    def release(self, connection: Connection) -> None:
        """Write the lines of a connection that wait."""
        for line in self._waiting.pop(connection.id, ()):
            self._bytes -= _LINE_BYTES + len(line.text)
            self._write(line)

    def release_all(self) -> None:
        """Write all lines that wait."""
        for lines in [*self._waiting.values()]:
            self.release(lines[0].connection)


def _is_known(connection: Connection) -> bool:
    return connection.remote is not None or connection.peer is not None
