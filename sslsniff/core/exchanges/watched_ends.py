"""Finds the process at the other end of a connection, if that end is watched, too.

The ends are two connections with the same two addresses, mirrored, at the same time. If several
fit, as in containers that use the same addresses in networks of their own, none is found.
"""

from collections import deque
from dataclasses import dataclass
from itertools import islice

from sslsniff.core.model import Address, Connection
from sslsniff.core.networks import is_one_network
from sslsniff.core.process import Process

_LATE_NS = 500_000_000
"""An end is opened when its first call returns, on a busy machine after the other end was closed.
The same two addresses are used again after a second at the earliest (``tcp_tw_reuse``, tcp(7))."""
_MOST_CLOSED = 1024
"""Closed connections that are remembered: the side that closes is often seen first."""
_MOST_LOOKED_AT = 64
"""Connections without addresses that are looked at in a search, the newest ones."""

_Addresses = tuple[Address, Address]


@dataclass(slots=True, eq=False)
class _End:
    connection: Connection
    closed_ns: int | None = None
    addresses: _Addresses | None = None


class WatchedEnds:
    """All open connections, and those that closed last. Memory: some 300 bytes for each."""

    def __init__(self) -> None:
        self._ends: dict[str, _End] = {}
        self._new: list[_End] = []
        """Those that were opened after the last search."""
        self._unplaced: dict[str, _End] = {}
        """Those whose addresses were not known in the last search."""
        self._placed: dict[_Addresses, list[_End]] = {}
        self._closed: deque[_End] = deque()

    def open(self, connection: Connection) -> None:
        """Note a connection that is opened."""
        end = self._ends[connection.id] = _End(connection)
        self._new.append(end)
        if len(self._new) > _MOST_CLOSED:
            self._place_new()

    def close(self, connection: Connection, time_ns: int) -> None:
        """Note that a connection is closed."""
        end = self._ends.pop(connection.id, None)
        if end is None:
            return
        end.closed_ns = time_ns
        self._closed.append(end)
        if len(self._closed) > _MOST_CLOSED:
            self._forget(self._closed.popleft())

    def peer_process(self, connection: Connection, time_ns: int) -> Process | None:
        """Return the process at the other end, at ``time_ns``; None: it is not known."""
        local, remote = connection.local, connection.remote
        if local is None or remote is None:
            return None
        self._place_new()
        for end in [*islice(reversed(self._unplaced.values()), _MOST_LOOKED_AT)]:
            self._place(end)
        found = [
            end.connection
            for end in self._placed.get((remote, local), ())
            if (end.closed_ns is None or end.closed_ns + _LATE_NS >= connection.opened_ns)
            and end.connection.opened_ns - _LATE_NS <= time_ns
            and end.connection.role is not connection.role
            and end.connection.tls is connection.tls
            and is_one_network(end.connection.process, connection.process, local)
        ]
        process = found[0].process if len(found) == 1 else None
        return process if process is not None and process.is_known else None

    def _place_new(self) -> None:
        for end in self._new:
            self._place(end)
        self._new.clear()

    def _place(self, end: _End) -> None:
        connection = end.connection
        local, remote = connection.local, connection.remote
        if local is None or remote is None:
            self._unplaced[connection.id] = end
            return
        self._unplaced.pop(connection.id, None)
        end.addresses = local, remote
        self._placed.setdefault(end.addresses, []).append(end)

    def _forget(self, end: _End) -> None:
        self._place_new()  # it may be among them
        self._unplaced.pop(end.connection.id, None)
        if end.addresses is None:
            return
        others = self._placed[end.addresses]
        others.remove(end)
        if not others:
            del self._placed[end.addresses]
