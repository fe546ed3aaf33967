"""Keeps the exchanges of a report: a short row for the list, and what is shown on demand.

Memory is bounded: of many exchanges the bodies of the oldest are dropped first, then their
headers, then their rows. How many were dropped is known, and the page says it.
"""

from collections import deque
from dataclasses import dataclass, field

from sslsniff.core.model import Connection
from sslsniff.forms.json.encoded_json import encoded_json
from sslsniff.outputs.report.connection_objects import connection_object
from sslsniff.outputs.report.newest import Newest

MOST_ROWS = 100_000
"""Rows that are kept. One takes some 200 bytes, in memory and in the page."""

MOST_ROW_BYTES = 32 << 20
"""Bytes of all rows: with the longest of hosts and paths there are fewer than ``MOST_ROWS``."""


@dataclass(slots=True)
class _Shown:
    """A connection with rows: as it is while it is open, then as what the page says of it."""

    id: str
    number: int
    connection: Connection | bytes
    rows: int = 0


@dataclass(slots=True)
class KeptExchanges:
    """Keeps ``most_bytes`` of headers and bodies together, as the page has them."""

    most_bytes: int
    rows: Newest = field(default_factory=Newest)
    heads: Newest = field(default_factory=Newest)
    bodies: Newest = field(default_factory=Newest)
    _connections: dict[str, _Shown] = field(default_factory=dict)
    _of_rows: deque[_Shown] = field(default_factory=deque)
    """For each row its connection."""
    _last_number: int = -1

    def add(self, connection: Connection, row: list[object], head: bytes, bodies: bytes) -> None:
        """Add an exchange: its row, and as JSON its headers and bodies, of which there may be none.

        The row is kept with the number of its connection before it.
        """
        shown = self._shown(connection)
        shown.rows += 1
        self._of_rows.append(shown)
        self.rows.append(encoded_json([shown.number, *row]))
        self.heads.append(head)
        self.bodies.append(bodies)
        while self.heads.bytes + self.bodies.bytes > self.most_bytes:
            (self.bodies if self.bodies.bytes else self.heads).drop_oldest()
        while len(self.rows) > MOST_ROWS or self.rows.bytes > MOST_ROW_BYTES:
            self._drop_row()

    def closed(self, connection: Connection) -> None:
        """Note that a connection ended: nothing about it changes any more."""
        shown = self._connections.get(connection.id)
        if shown is not None:
            shown.connection = memoryview(_encoded(connection)).tobytes()  # a copy: see ``Newest``

    def connections(self) -> list[bytes]:
        """Return members of a JSON object: the number of each connection, and the connection."""
        return [
            b'"%d":%b' % (each.number, _encoded(each.connection))
            for each in self._connections.values()
        ]

    def _shown(self, connection: Connection) -> _Shown:
        shown = self._connections.get(connection.id)
        if shown is None:
            self._last_number += 1
            shown = self._connections[connection.id] = _Shown(
                connection.id, self._last_number, connection
            )
        return shown

    def _drop_row(self) -> None:
        """Drop the oldest row, with the headers and bodies that are left of it."""
        shown = self._of_rows.popleft()
        self.rows.drop_oldest()
        for rest in (self.heads, self.bodies):
            if rest.dropped < self.rows.dropped:
                rest.drop_oldest()
        shown.rows -= 1
        if not shown.rows:
            del self._connections[shown.id]


def _encoded(connection: Connection | bytes) -> bytes:
    return (
        connection if isinstance(connection, bytes) else encoded_json(connection_object(connection))
    )
