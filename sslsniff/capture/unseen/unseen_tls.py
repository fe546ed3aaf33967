"""Counts TLS connections of watched processes whose plaintext no probe sees, of whatever library.

The kernel reports TCP sockets on which a process sends TLS records and which no connection of a
probed library is known to use (``bpf/tls_sockets.bpf.h``). The socket of a probed connection may be
unknown, if the library gets its bytes through memory: then one socket of its process is its.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from sslsniff.capture.handshakes.handshakes import Handshakes
from sslsniff.capture.handshakes.tls_evidence import passed_data, server_name
from sslsniff.capture.unseen.probe_times import Seen, seen
from sslsniff.capture.unseen.unprobed_libraries import UnprobedLibraries
from sslsniff.core import events, wire
from sslsniff.core.errors import counted
from sslsniff.core.events import TlsSocket, TlsStart
from sslsniff.core.model import Direction

_DELAY_S = 2.0
"""A probed library's connection may be seen to use a socket only at its next call."""
_PROBED_FOR_S = 1.0
"""It takes some 0.2 ms to find which libraries of a process have probes."""
_MOST_PROCESSES = 65536
_MOST_SOCKETS = 65536


class TlsSockets(Protocol):
    """The kernel's table of open TLS sockets: see ``maps.Tables``."""

    def tls_socket(self, sock: int) -> memoryview | None:
        """Return the entry of a TLS socket; None: it has ended."""

    def unchecked_sockets(self) -> int:
        """Return how many sockets were not checked for TLS."""

    def left_out(self) -> int:
        """Return how many connections sampling has left out."""

    def open_tls_sockets(self) -> Iterable[tuple[int, memoryview]]:
        """Return the TLS sockets that are open, with their entries."""


def peer_of(found: TlsSocket) -> str:
    """Return whom a process speaks to on a TLS socket: the server's name, if known, and address."""
    if found.start in (TlsStart.SERVER_HELLO, TlsStart.HELLO_RECEIVED):
        return f"from {found.remote} to {found.local}"
    name = server_name(found.hello)
    remote = str(found.remote)
    return f"to {name} at {remote}" if name else f"to {remote}"


class UnseenTls:
    """Counts TLS connections without plaintext, by process, for ``unprobed``.

    ``is_watched``: returns whether the process of a ``TlsSocket`` is watched, by its cgroup.
    ``handshakes`` gets the connections without data. ``began_ns``: when the first probes were
    placed, by the clock of events; 0: no process that is watched ran then.
    """

    def __init__(
        self,
        tables: TlsSockets,
        unprobed: UnprobedLibraries,
        is_watched: Callable[[TlsSocket], bool],
        clock_offset_ns: int,
        handshakes: Handshakes,
        began_ns: int,
    ) -> None:
        self._tables = tables
        self._unprobed = unprobed
        self._is_watched = is_watched
        self._clock_offset_ns = clock_offset_ns
        self._handshakes = handshakes
        self._began_ns = began_ns
        self._probed: dict[int, tuple[float, int | None]] = {}
        """A process -> when its libraries got their probes, and until when that is believed."""
        self._unfinished = 0
        """Connections whose first call with data had not returned at the end."""
        self._spare: dict[int, int] = {}
        """A process -> how many connections of probed libraries have no socket of their own."""
        self._without_socket: dict[int, tuple[int, bool]] = {}
        """Connections whose socket is not known -> the process, and whether it is only a half."""
        self._sockets: dict[int, int] = {}
        """Whole connections -> the socket of each, which no other one has."""
        self._owned: set[int] = set()
        """The sockets in ``_sockets``."""
        self._used: dict[int, None] = {}
        """The sockets that a connection of a probed library used at any time; the last ones."""
        self._waiting: deque[tuple[float, TlsSocket]] = deque()
        """Sockets that had data, and when each is decided."""
        self._counted: set[tuple[int, int]] = set()
        """Sockets that count already, and when TLS began on each."""

    def handle(self, record: events.Record) -> None:
        """Note what a record tells of connections and sockets."""
        if isinstance(record, events.Opened):
            self._opened(record)
        elif isinstance(record, events.Addresses):
            self._addressed(record)
        elif isinstance(record, events.NO_MORE_BYTES):
            self._without_socket.pop(record.connection, None)
            self._owned.discard(self._sockets.pop(record.connection, 0))
        elif isinstance(record, TlsSocket):
            if passed_data(record):
                self._waiting.append((time.monotonic() + _DELAY_S, record))
            else:  # no connection that a probed library may be found to use later
                self._decide(record)

    def poll(self) -> None:
        """Decide about sockets whose time has come."""
        while self._waiting and self._waiting[0][0] <= time.monotonic():
            self._decide(self._waiting.popleft()[1])

    def finish(self) -> None:
        """Decide about all sockets, those that are open, too."""
        while self._waiting:
            self._decide(self._waiting.popleft()[1])
        for sock, value in self._tables.open_tls_sockets():
            self._decide(wire.tls_socket(sock, value, self._clock_offset_ns), is_last=True)

    def lines(self) -> Iterator[str]:
        """Yield lines for the end of a capture, beside those of ``unprobed``."""
        if self._unfinished:
            which = counted(self._unfinished, "connection is", "connections are")
            yield f"{which} not shown: the first call was under way when the capture ended"
        if unchecked := self._tables.unchecked_sockets():
            which = counted(unchecked, "connection was", "connections were")
            yield f"{which} not checked for TLS that no probe sees: a table in the kernel was full"

    def _opened(self, event: events.Opened) -> None:
        if event.connection in self._without_socket or event.connection in self._sockets:
            return
        if event.half is Direction.READ:
            return  # only the half that writes can be a socket's that sends
        self._without_socket[event.connection] = event.pid, event.half is not None
        self._spare[event.pid] = self._spare.get(event.pid, 0) + 1
        for each in (self._without_socket, self._spare):
            if len(each) > _MOST_PROCESSES:
                del each[next(iter(each))]

    def _addressed(self, event: events.Addresses) -> None:
        if len(self._used) >= _MOST_SOCKETS:
            del self._used[next(iter(self._used))]
        self._used[event.socket] = None
        pid, is_half = self._without_socket.get(event.connection, (0, False))
        # Two connections on one socket, as far as is known: one of them has another.
        if not pid or (event.socket in self._owned and not is_half):
            return
        del self._without_socket[event.connection]
        self._spare[pid] = max(0, self._spare.get(pid, 0) - 1)
        if not is_half:
            self._sockets[event.connection] = event.socket
            self._owned.add(event.socket)

    def _decide(self, found: TlsSocket, *, is_last: bool = False) -> None:
        """Count a socket, unless a probed library was found to use it meanwhile.

        ``is_last``: no more is reported of it. A socket is reported after its first sends, too; it
        had no more than a handshake only if that is so at its end.
        """
        key = found.socket, found.time_ns
        if key in self._counted or found.is_probed:
            return
        value = self._tables.tls_socket(found.socket)
        if value is not None:
            now = wire.tls_socket(found.socket, value, self._clock_offset_ns)
            if now.time_ns == found.time_ns:
                found = now
        if found.is_probed or self._is_used(found) or not self._is_watched(found):
            return
        if not passed_data(found):
            if is_last or found.has_ended:
                self._handshakes.end(found, time.monotonic_ns() + self._clock_offset_ns)
            return
        if found.is_called:  # by a call that is under way: its plaintext is seen when it returns
            self._unfinished += is_last
            return
        when = seen(found, self._began_ns, self._probed_ns(found.pid))
        if when is Seen.BEFORE:
            return
        if spare := self._spare.get(found.pid, 0):
            self._spare[found.pid] = spare - 1
            return
        if len(self._counted) >= _MOST_SOCKETS:
            self._counted.clear()
        self._counted.add(key)
        is_too_early = when is Seen.TOO_EARLY
        process = found.pid, found.comm, found.program
        self._unprobed.carries_tls(*process, peer_of(found), is_too_early=is_too_early)

    def _probed_ns(self, pid: int) -> int | None:
        """Return when the libraries of a process got their probes, as ``seen`` takes it."""
        now_s = time.monotonic()
        until_s, probed_ns = self._probed.get(pid, (0.0, None))
        if until_s < now_s:
            if len(self._probed) >= _MOST_PROCESSES:
                self._probed.clear()
            probed_ns = self._unprobed.probed_ns(pid)
            self._probed[pid] = now_s + _PROBED_FOR_S, probed_ns
        return probed_ns + self._clock_offset_ns if probed_ns else probed_ns

    def _is_used(self, found: TlsSocket) -> bool:
        """Return whether a probed library uses a socket that is older than the capture.

        Such a connection may be known before the socket's first send, so that the kernel does not
        mark it. One that sampling left out is not told, so any such socket may be its.
        """
        if found.start is not TlsStart.JOINED:
            return False
        return found.socket in self._used or self._tables.left_out() > 0
