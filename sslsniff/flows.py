"""Events -> chunks: each connection's bytes in order, every gap explicit.

Positions are counted in the kernel whether an event got through or not, so a
loss is arithmetic: the distance between where a direction should go on and where it
does. Memory: a few hundred bytes for each open connection, and each id that a capture names.
"""

from dataclasses import dataclass, field
from typing import Protocol

from sslsniff import wire
from sslsniff.lanes import Lane, Lanes, lane_key
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

    def lane(self, connection: Connection, direction: Direction) -> Lane | None:
        """Return what takes the next bytes in place of ``chunk``; None: they must come there."""

    def passed(self, count: int, time_ns: int) -> None:
        """Take note that a lane took so many bytes, the last of them at ``time_ns``."""


@dataclass(slots=True)
class _Flow:
    connection: Connection
    positions: dict[Direction, int] = field(
        default_factory=lambda: {Direction.READ: 0, Direction.WRITE: 0}
    )


class Flows:
    """Turns the events of one source into calls of one listener.

    ``libraries`` names the libraries that ``Opened.library`` indexes; it may grow while the
    source runs. ``lanes`` is where the source looks for lanes, None where it does not.
    """

    def __init__(
        self, libraries: list[str], listener: Listener, lanes: Lanes | None = None
    ) -> None:
        self._libraries = libraries
        self._listener = listener
        self._flows: dict[int, _Flow] = {}
        self._processes: dict[int, Process] = {}
        self._connections_seen = 0
        self._names: set[str] = set()
        self._lanes = lanes
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

    def recall(self) -> None:
        """Take all lanes back: no more events come."""
        for connection in {key >> 1 for key in self._lanes or ()}:
            self._flow(connection)

    def _flow(self, connection: int) -> _Flow | None:
        """Return a connection's flow with its lanes taken back, so that it tells how far it got."""
        flow = self._flows.get(connection)
        if flow is not None and self._lanes:
            for number, direction in enumerate(wire.DIRECTIONS):
                lane = self._lanes.pop(lane_key(connection, number), None)
                if lane is not None and lane.last_ns:
                    count = lane.position - flow.positions[direction]
                    self._count(flow, direction, count)
                    self._listener.passed(count, lane.last_ns)
        return flow

    def _lend(self, flow: _Flow, event: wire.Data) -> None:
        lane = self._listener.lane(flow.connection, event.direction)
        if lane is not None and self._lanes is not None:
            number = wire.DIRECTIONS.index(event.direction)
            self._lanes[lane_key(event.connection, number)] = lane

    def _count(self, flow: _Flow, direction: Direction, count: int) -> None:
        """Move on behind so many bytes, seen or lost."""
        if direction is Direction.READ:
            flow.connection.bytes_read += count
        else:
            flow.connection.bytes_written += count
        flow.positions[direction] += count

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
        flow = self._flow(event.connection)
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
        elif self._lanes is not None:
            self._lend(flow, event)

    def _pass(self, flow: _Flow, event: wire.Data, size: int) -> None:
        self._count(flow, event.direction, size)
        self._listener.chunk(
            Chunk(
                flow.connection,
                event.direction,
                event.time_ns,
                event.tid,
                event.position,
                event.data,
            )
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
        self._count(flow, direction, missing)
        self._listener.chunk(
            Chunk(connection, direction, time_ns, tid, position, b"", missing, cause)
        )

    def _addresses(self, event: wire.Addresses) -> None:
        flow = self._flows.get(event.connection)
        if flow is not None:
            flow.connection.local = event.local
            flow.connection.remote = event.remote

    def _checked(self, event: wire.Checked) -> None:
        flow = self._flow(event.connection)
        if flow is None:
            return
        for direction, position in (
            (Direction.READ, event.read_position),
            (Direction.WRITE, event.write_position),
        ):
            self._lose_until(flow, direction, position, LossCause.RING_FULL, event.time_ns, 0)

    def _ended(self, event: wire.Ended) -> None:
        flow = self._flow(event.connection)
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
        flow = self._flow(key)
        if flow is not None:
            del self._flows[key]
            self._listener.closed(flow.connection, time_ns)
