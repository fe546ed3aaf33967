"""Events -> chunks: each connection's bytes in order, every gap explicit.

Positions are counted in the kernel whether an event got through or not, so a
loss is arithmetic: the distance between where a direction should go on and where it
does. Memory: a few hundred bytes for each open connection, and each id that a capture names.
"""

from dataclasses import dataclass, field
from typing import Protocol

from sslsniff import wire
from sslsniff.model import Chunk, Connection, Direction, LossCause, Process


class Listener(Protocol):
    """Takes what flows makes, in the order in which it happened."""

    def opened(self, connection: Connection, time_ns: int) -> None:
        """Take note that a connection was seen for the first time."""

    def chunk(self, chunk: Chunk) -> None:
        """Take the next plaintext of a connection, or the news of a loss."""

    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None:
        """Take note that nothing follows in one direction, though the connection stays."""

    def closed(self, connection: Connection, time_ns: int) -> None:
        """Take note that a connection ended, or its process did."""


@dataclass(slots=True)
class _Flow:
    connection: Connection
    positions: dict[Direction, int] = field(
        default_factory=lambda: {Direction.READ: 0, Direction.WRITE: 0}
    )


class Flows:
    """Turns the events of one source into calls of one listener.

    ``libraries`` names the libraries that ``Opened.library`` indexes; it may grow while the
    source runs.
    """

    def __init__(self, libraries: list[str], listener: Listener) -> None:
        self._libraries = libraries
        self._listener = listener
        self._flows: dict[int, _Flow] = {}
        self._processes: dict[int, Process] = {}
        self._connections_seen = 0
        self._names: set[str] = set()
        self._handlers = {
            wire.Data: self._data,
            wire.Opened: self._opened,
            wire.Addresses: self._addresses,
            wire.Checked: self._checked,
            wire.Ended: self._ended,
            wire.Closed: self._closed,
            wire.Exited: self._exited,
        }

    def take(self, event: wire.Event) -> None:
        """Pass on what ``event`` tells."""
        self._handlers[type(event)](event)  # type: ignore[operator]

    def _opened(self, event: wire.Opened) -> None:
        process = Process(event.pid, event.comm, event.uid)
        if self._processes.get(event.pid) == process:  # exec and setuid change it
            process = self._processes[event.pid]
        self._processes[event.pid] = process
        connection = Connection(
            id=self._id(event),
            process=process,
            library=self._libraries[event.library],
            role=event.role,
            from_start=event.from_start,
            opened_ns=event.time_ns,
            sni=event.sni,
            alpn=event.alpn,
            tls_version=event.tls_version,
            cipher=event.cipher,
            tls=event.tls,
        )
        self._flows[event.connection] = _Flow(connection)
        self._listener.opened(connection, event.time_ns)

    def _id(self, event: wire.Opened) -> str:
        """Return an id that no other connection has: where one was recorded, that."""
        name = event.name
        while name is None or name in self._names:  # captures may have been put together
            self._connections_seen += 1
            name = f"{event.pid}-{self._connections_seen}"
        if event.name is not None:
            self._names.add(name)
        return name

    def _data(self, event: wire.Data) -> None:
        flow = self._flows.get(event.connection)
        if flow is None:  # behind its process's end; nothing can follow there
            return
        self._lose_until(
            flow, event.direction, event.position, LossCause.RING_FULL, event.time_ns, event.tid
        )
        size = len(event.data)
        if size:
            self._pass(flow, event, size)
        if size < event.span:
            cause = event.cut or LossCause.NOT_CAPTURED
            end = event.position + event.span
            self._lose_until(flow, event.direction, end, cause, event.time_ns, event.tid)

    def _pass(self, flow: _Flow, event: wire.Data, size: int) -> None:
        connection = flow.connection
        if event.direction is Direction.READ:
            connection.bytes_read += size
        else:
            connection.bytes_written += size
        flow.positions[event.direction] = event.position + size
        self._listener.chunk(
            Chunk(connection, event.direction, event.time_ns, event.tid, event.position, event.data)
        )

    def _lose_until(
        self,
        flow: _Flow,
        direction: Direction,
        position: int,
        cause: LossCause,
        time_ns: int,
        tid: int,
    ) -> None:
        """Tell that the bytes of ``direction`` before ``position`` are lost, if any are."""
        missing = position - flow.positions[direction]
        if missing <= 0:
            return
        connection = flow.connection
        connection.missing[cause] = connection.missing.get(cause, 0) + missing
        if direction is Direction.READ:
            connection.bytes_read += missing
        else:
            connection.bytes_written += missing
        flow.positions[direction] = position
        self._listener.chunk(
            Chunk(connection, direction, time_ns, tid, position, b"", missing, cause)
        )

    def _addresses(self, event: wire.Addresses) -> None:
        flow = self._flows.get(event.connection)
        if flow is not None:
            flow.connection.local = event.local
            flow.connection.remote = event.remote

    def _checked(self, event: wire.Checked) -> None:
        flow = self._flows.get(event.connection)
        if flow is None:
            return
        for direction, position in (
            (Direction.READ, event.read_position),
            (Direction.WRITE, event.write_position),
        ):
            self._lose_until(flow, direction, position, LossCause.RING_FULL, event.time_ns, 0)

    def _ended(self, event: wire.Ended) -> None:
        flow = self._flows.get(event.connection)
        if flow is None:
            return
        self._lose_until(
            flow, event.direction, event.position, LossCause.RING_FULL, event.time_ns, 0
        )
        self._listener.ended(flow.connection, event.direction, event.time_ns)

    def _closed(self, event: wire.Closed) -> None:
        self._checked(wire.Checked(*event))
        self._close(event.connection, event.time_ns)

    def _exited(self, event: wire.Exited) -> None:
        self._processes.pop(event.pid, None)
        for key, flow in list(self._flows.items()):
            if flow.connection.process.pid == event.pid:
                self._close(key, event.time_ns)

    def _close(self, key: int, time_ns: int) -> None:
        flow = self._flows.pop(key, None)
        if flow is not None:
            self._listener.closed(flow.connection, time_ns)
