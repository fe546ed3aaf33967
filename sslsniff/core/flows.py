"""Turns events into chunks: each connection's bytes in order, every gap explicit.

Problem. The BPF programs put plaintext into a ring buffer. If the reader is too slow, the ring has
no room, and the plaintext is lost. A decoder that continues after such a gap as if nothing were
missing takes the middle of one message for the beginning of another. So a decoder, or the writer of
a file, must know how many bytes are missing, where, and why.

Facts that make the arithmetic right:

- The kernel counts each direction's bytes of a connection, from 0 on, and adds a call's bytes
  whether its event gets through or not (bpf/calls.bpf.h). So an event's position says where its
  bytes belong, without any other event.
- The size of a loss is the difference between the position that should come next and the one that
  comes.
- An event stands for ``span`` bytes of its direction, and may have fewer: ``cut`` says why. The
  difference between ``span`` and its data is a loss, too, right after the data.
- ``Ended``, ``Closed`` and ``Checked`` have final positions. They show what was lost after the last
  data.
- A connection is announced before its other events: no other event is emitted until ``Opened`` has
  got through. Bytes that pass before that are counted in the position of the first data.

Why simpler ways fail. Sequence numbers of records tell that a record was lost, but not how many
bytes it had. An event that reports the loss would need room in the same ring. Counters of all lost
bytes say neither the connection nor the place. The kernel keeps such counters as well: they include
the connections of which no event got through (``Source.counted_losses``).

Invariants:

- ``Connection.position`` of a direction is where its next byte is expected. It grows by each byte
  once, seen or lost, and never goes back.
- For one event, the loss before it comes first, then its data, then the loss after it. A loss is
  a chunk without data: ``missing`` bytes just before ``offset`` (``model.Chunk``).
- ``Roles`` sees each chunk before the listener does, so all sinks see the same role.
- After ``closed`` the listener gets no more of a connection. Its key is not given again, and what
  still comes with it is ignored.
- While a direction is on the fast path (``fast_path``), its consumer has the position. It is taken
  back before its data or an event that changes the connection is handled.

Example: one direction of a connection.

    event                           expected   chunks
    Data at 0, 3 bytes                     0   3 bytes at 0
    Data at 10, 1 byte                     3   7 missing before 10, ring full; 1 byte at 10
    Data at 11, 3 of 9, call limit        11   3 bytes at 11; 6 missing before 20, call limit
    Closed at 24                          20   4 missing before 24, ring full; then closed

Limits:

- A position that is lower than the expected one is not reported: its bytes are passed on.
- ``Exited`` has no positions. What was lost at the end of such a connection is only in
  ``Source.counted_losses``.
- A capture file has no ring buffer. ``files.replay`` makes the same events of it, with the causes
  that it states, else ``NOT_CAPTURED``.
- Memory: a few hundred bytes for each open connection.

Source: kernel/bpf/ringbuf.c: a reservation fails if the ring has no room (Linux 5.8).
"""

from collections.abc import Sequence
from typing import Protocol

from sslsniff.core import events
from sslsniff.core.fast_path import Consumer, FastPath
from sslsniff.core.handshakes import explain, implied_role
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Chunk, Connection, Direction, Handshake
from sslsniff.core.process import Process
from sslsniff.core.roles import Roles


class Listener(Protocol):
    """Receives what ``Flows`` makes, in the order in which it happened."""

    def opened(self, connection: Connection, time_ns: int) -> None:
        """Note that a connection was seen for the first time."""

    def chunk(self, chunk: Chunk) -> None:
        """Handle the next plaintext of a connection, or a loss."""

    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None:
        """Note that nothing follows in one direction, though the connection stays."""

    def closed(self, connection: Connection, time_ns: int) -> None:
        """Note that a connection ended, or its process did, or it is left out from now on."""

    def handshake(self, handshake: Handshake) -> None:
        """Handle a handshake after which no data passed."""

    def tick(self, now_ns: int) -> None:
        """Note that it is ``now_ns`` in a capture file; called again after some milliseconds."""

    def consumer(self, connection: Connection, direction: Direction) -> Consumer | None:
        """Return the fast path's consumer of the next bytes; None: pass them as chunks."""

    def consumed(self, count: int, time_ns: int) -> None:
        """Note that a consumer was fed ``count`` bytes, the last of them at ``time_ns``."""


class Flows:
    """Turns the events of one source into calls of one listener.

    ``libraries`` names the libraries that ``Opened.library`` indexes; it may grow while the
    source runs. ``fast_path`` is the source's, None where it has none.
    """

    def __init__(
        self, libraries: list[str], listener: Listener, fast_path: FastPath | None = None
    ) -> None:
        self._libraries = libraries
        self._listener = listener
        self._connections: dict[int, Connection] = {}
        self._processes: dict[int, Process] = {}
        self._connections_seen = 0
        self._roles = Roles()
        self._fast_path = fast_path
        self._handlers = {
            events.Data: self._data,
            events.Opened: self._opened,
            events.Addresses: self._addresses,
            events.Checked: self._checked,
            events.Ending: self._ending,
            events.Ended: self._ended,
            events.Closed: self._closed,
            events.LeftOut: self._left_out,
            events.Exited: self._exited,
            events.HandshakeEnded: self._handshake_ended,
            events.TimePassed: self._time_passed,
        }

    def handle(self, event: events.Event) -> None:
        """Handle an event."""
        self._handlers[type(event)](event)  # type: ignore[operator]

    def connection(self, key: int) -> Connection | None:
        """Return the connection of events with this key; None: it is not known."""
        return self._connections.get(key)

    def finish(self) -> None:
        """Take all directions back from the fast path: no more events come."""
        if self._fast_path is not None:
            for key in self._fast_path.connections:
                self._take_back(key)

    def _take_back(
        self, key: int, directions: Sequence[Direction] = events.DIRECTIONS
    ) -> Connection | None:
        """End a connection's fast path; return the connection with its positions up to date."""
        connection = self._connections.get(key)
        if connection is None or self._fast_path is None:
            return connection
        for direction in directions:
            consumer = self._fast_path.take_back(key, direction)
            if consumer is not None and consumer.last_ns:
                count = consumer.position - connection.position(direction)
                connection.count(direction, count)
                self._listener.consumed(count, consumer.last_ns)
        return connection

    def _opened(self, event: events.Opened) -> None:
        if event.connection in self._connections:
            return  # two threads, one that reads and one that writes, announced it at once
        connection = Connection(
            id=self._id(event),
            process=self._process(event),
            library=self._libraries[event.library],
            role=event.role,
            from_start=event.from_start,
            opened_ns=event.time_ns,
            sni=event.sni,
            alpn=event.alpn,
            tls_version=event.tls_version,
            cipher=event.cipher,
            tls=event.tls,
            peer=event.peer,
        )
        self._connections[event.connection] = connection
        self._listener.opened(connection, event.time_ns)

    def _process(self, event: events.Opened | events.HandshakeEnded) -> Process:
        process = Process(
            event.pid,
            event.comm,
            event.uid,
            event.container,
            event.container_pid,
            event.machine,
        )
        if self._processes.get(event.pid) == process:  # exec and setuid change it
            process = self._processes[event.pid]
        self._processes[event.pid] = process
        return process

    def _id(self, event: events.Opened | events.HandshakeEnded) -> str:
        """Return an id that no other connection has: the recorded one, if there is one."""
        if event.name is not None:
            return event.name
        self._connections_seen += 1
        return f"{event.pid}-{self._connections_seen}"

    def _handshake_ended(self, event: events.HandshakeEnded) -> None:
        role = event.role or implied_role(event.facts)
        connection = Connection(
            id=self._id(event),
            process=self._process(event),
            library=event.library,
            role=role,
            from_start=True,
            opened_ns=event.began_ns,
            local=event.local,
            remote=event.remote,
            sni=event.sni,
        )
        end = explain(event.facts, role, event.sni)
        self._listener.handshake(
            Handshake(connection, event.began_ns, event.time_ns, end, event.facts, event.has_data)
        )

    def _data(self, event: events.Data) -> None:
        direction = event.direction
        connection = self._take_back(event.connection, (direction,))
        if connection is None:  # its process ended before
            return
        self._lose_until(
            connection, direction, event.position, LossCause.RING_FULL, event.time_ns, event.tid
        )
        size = len(event.data)
        if size:
            connection.count(direction, size)
            chunk = Chunk(
                connection, direction, event.time_ns, event.tid, event.position, event.data
            )
            if event.redacted is not None:
                chunk.redacted = event.redacted
            self._pass_on(chunk)
        if size < event.span:
            cause = event.cut or LossCause.NOT_CAPTURED
            end = event.position + event.span
            self._lose_until(connection, direction, end, cause, event.time_ns, event.tid)
        elif self._fast_path is not None:
            consumer = self._listener.consumer(connection, direction)
            if consumer is not None:
                self._fast_path.offer(event.connection, direction, consumer)

    def _lose_until(
        self,
        connection: Connection,
        direction: Direction,
        position: int,
        cause: LossCause,
        time_ns: int,
        tid: int,
    ) -> None:
        """Report the bytes of ``direction`` before ``position`` as lost, if any are missing."""
        missing = position - connection.position(direction)
        if missing <= 0:
            return
        connection.missing[cause] = connection.missing.get(cause, 0) + missing
        connection.count(direction, missing)
        self._pass_on(Chunk(connection, direction, time_ns, tid, position, b"", missing, cause))

    def _pass_on(self, chunk: Chunk) -> None:
        self._roles.observe(chunk)
        self._listener.chunk(chunk)

    def _addresses(self, event: events.Addresses) -> None:
        connection = self._connections.get(event.connection)
        if connection is not None and (connection.local, connection.remote) != event[2:4]:
            self._take_back(event.connection)  # a consumer of bytes alone would miss the change
            connection.local = event.local
            connection.remote = event.remote

    def _checked(self, event: events.Checked) -> None:
        connection = self._take_back(event.connection)
        if connection is None:
            return
        for direction, position in (
            (Direction.READ, event.read_position),
            (Direction.WRITE, event.write_position),
        ):
            self._lose_until(connection, direction, position, LossCause.RING_FULL, event.time_ns, 0)

    def _ended(self, event: events.Ended) -> None:
        connection = self._take_back(event.connection)
        if connection is None:
            return
        self._lose_until(
            connection, event.direction, event.position, LossCause.RING_FULL, event.time_ns, 0
        )
        self._listener.ended(connection, event.direction, event.time_ns)

    def _ending(self, event: events.Ending) -> None:
        connection = self._connections.get(event.connection)
        if connection is not None:
            connection.ending = event.ending

    def _closed(self, event: events.Closed) -> None:
        self._checked(events.Checked(*event[:4]))
        self._close(event.connection, event.time_ns)

    def _left_out(self, event: events.LeftOut) -> None:
        connection = self._connections.get(event.connection)
        if connection is not None:
            connection.left_out = True
            self._close(event.connection, event.time_ns)

    def _exited(self, event: events.Exited) -> None:
        self._processes.pop(event.pid, None)
        for key, connection in list(self._connections.items()):
            if connection.process.pid == event.pid:
                self._close(key, event.time_ns)

    def _time_passed(self, event: events.TimePassed) -> None:
        self._listener.tick(event.time_ns)

    def _close(self, key: int, time_ns: int) -> None:
        connection = self._take_back(key)
        if connection is not None:
            del self._connections[key]
            self._roles.forget(connection)
            self._listener.closed(connection, time_ns)
