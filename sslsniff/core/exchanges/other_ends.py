"""Finds the other end of a connection with a database, if both ends are watched.

The ends are two connections with the same addresses, one with the role of the client and one with
that of the server.
"""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from sslsniff.core.model import Address, Connection
from sslsniff.decoders.databases.statement import Prepared
from sslsniff.decoders.messages import Side

if TYPE_CHECKING:
    from sslsniff.decoders.databases.database_decoder import DatabaseDecoder

_Key = tuple[Address, Address, Side | None]
"""The client, the server, and which of them is watched."""


class OtherEnds:
    """The open connections with databases, by their addresses. Memory: some 200 bytes for each."""

    def __init__(self) -> None:
        self._placed: dict[_Key, dict[str, DatabaseDecoder]] = {}
        self._unplaced: dict[str, tuple[Connection, DatabaseDecoder]] = {}
        self._keys: dict[str, _Key] = {}
        self._searches = 0  # since the unplaced ones were looked at

    def add(self, connection: Connection, decoder: "DatabaseDecoder") -> None:
        """Add a connection, or its next decoder, which from now on asks the other end."""
        self.forget(connection)
        if not self._place(connection, decoder):
            self._unplaced[connection.id] = connection, decoder
        decoder.find_elsewhere = partial(self._find, connection)

    def forget(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self._unplaced.pop(connection.id, None)
        key = self._keys.pop(connection.id, None)
        if key is not None:
            del self._placed[key][connection.id]
            if not self._placed[key]:
                del self._placed[key]

    def _find(self, connection: Connection, name: str, parameters: bytes) -> Prepared | None:
        """Return what the other end knows of a statement; None if it is not the only other end."""
        found = [*self._others(connection)]
        return found[0].tell(name, parameters) if len(found) == 1 else None

    def _others(self, connection: Connection) -> "Iterable[DatabaseDecoder]":
        key = _key_of(connection)
        if key is None:
            return ()
        self._place_late()
        client, server, side = key
        return self._placed.get((client, server, side and side.other), {}).values()

    def _place(self, connection: Connection, decoder: "DatabaseDecoder") -> bool:
        key = _key_of(connection)
        if key is None:
            return False
        self._keys[connection.id] = key
        self._placed.setdefault(key, {})[connection.id] = decoder
        return True

    def _place_late(self) -> None:
        """Place the connections whose addresses have become known.

        Those whose addresses never do cost little: they are looked at once in as many searches.
        """
        self._searches += 1
        if self._searches < len(self._unplaced):
            return
        self._searches = 0
        for connection, decoder in [*self._unplaced.values()]:
            if self._place(connection, decoder):
                del self._unplaced[connection.id]


def _key_of(connection: Connection) -> _Key | None:
    client, server = connection.client, connection.server
    return None if client is None or server is None else (client, server, connection.role)
