"""Joins the two directions of rustls connections, which the kernel reports separately.

Problem. rustls has a cipher object for each direction, and a new one whenever keys change. The
probes see an object, a sequence number and a record: nothing names the connection. So the BPF
programs announce each object's records as a half (``Opened.half``), with positions from 0 on.
Decoders need whole connections, with both directions, whose positions go on when keys change.

Facts that show which halves belong together:

- Halves of one process and socket are one connection. Bytes that a thread received just before a
  record was decrypted came from the connection's socket. A send just after records were encrypted
  shows it, if its length fits these records (bpf/addresses.bpf.h).
- The library itself pairs two halves. In 0.23, ``CommonState::take_received_plaintext`` gets a
  state that has both cipher objects (``Paired``, bpf/rustls.bpf.h).
- A new key begins with sequence number 0 (RFC 8446, section 5.3). So the BPF programs notice a new
  half also where its cipher object has the address of the old one.

Why simpler ways fail. One thread serves many connections, and a task may move to another thread.
The address of an object is used again. A client writes its request before anything shows the
socket: a BPF program would have to keep the plaintext until then.

The first events of a half wait here until its socket or its pair is known, for microseconds: its
data shows that when it is sent or was received. After ``WAIT_NS`` or ``MOST_WAITING_BYTES`` the
half becomes a connection of its own, which other halves may still join. Evidence by sockets may be
wrong for a while, as a send may have another connection's bytes. So a half may move later:

    the half is in              the socket is of    what happens
    no connection               none                it begins a connection with this socket
    no connection               A                   it joins A
    A                           A                   nothing
    A, alone                    none                A gets the socket
    A, which has no socket      none                A gets the socket
    A, with its pair            none                A gets the socket
    A, with its pair            B                   nothing: a pair stays together
    A, with other halves        none                it begins a connection with this socket
    A, not with its pair        B                   it moves to B

Positions. A connection has one position for each direction. If another half passes bytes in that
direction, it gets a ``base``, so that its next byte follows the connection's last one. Its own
positions, with the base added, are the connection's from then on. Example of written bytes:

    event                                 base    in the connection
    half 1: Data at 0, 5 bytes              0     0 to 4
    keys change; half 2: Data at 0, 9       5     5 to 13
    half 2: Data at 11, 1 byte              5     16; ``Flows`` finds that 14 and 15 are missing

Invariants:

- All events that are passed on name whole connections. Joined ones have negative numbers, as the
  kernel's are positive. ``Data.origin`` has the half's own number.
- Data that waited in several halves is passed on in the order of its times.
- If sampling leaves out a half before it was joined, its events that wait are dropped.
- A connection with a socket ends with it, with its process, or when its last half moves. One
  without ends with its last half. If the socket's key comes with other addresses or another
  process, the socket ended unseen: its connection ends then.
- Records of a half take the fast path only while its base is 0: there, positions of records are
  compared with those of the connection. ``_update_positions`` reads back how far they got.

Limits:

- What a half passed before it moved stays in the connection where it was.
- Without socket calls (io_uring) the directions are two connections, unless the library pairs them.
- Records under kTLS and QUIC do not pass these methods.

Pure: events in, events out. Memory: some hundred bytes for each half that the kernel knows, and
the events that wait. Sources: rustls 0.20 to 0.24; README.md beside this module says more.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sslsniff.core.events import (
    Addresses,
    Checked,
    Closed,
    Data,
    Ended,
    Event,
    Exited,
    LeftOut,
    Opened,
    Paired,
    Record,
    SocketGone,
)
from sslsniff.core.fast_path import FastPath
from sslsniff.core.model import Direction

WAIT_NS = 100_000_000
MOST_WAITING_BYTES = 1 << 20


@dataclass(slots=True, eq=False)
class _Half:
    """The records of one cipher object."""

    opened: Opened
    direction: Direction
    joined: "_JoinedConnection | None" = None
    waiting_data: list[Data] = field(default_factory=list)
    waiting_bytes: int = 0
    position: int = 0
    """The position after its last byte, counted from its own beginning."""
    base: int = 0
    """The position of its beginning in the joined connection."""

    @property
    def number(self) -> int:
        return self.opened.connection


@dataclass(slots=True, eq=False)
class _JoinedConnection:
    """A connection that halves were joined to."""

    number: int
    pid: int
    addresses: Addresses | None = None
    positions: dict[Direction, int] = field(
        default_factory=lambda: {Direction.READ: 0, Direction.WRITE: 0}
    )
    """The position after the last byte of each direction."""
    current: dict[Direction, _Half] = field(default_factory=dict)
    """The half that was the last to pass bytes in each direction."""
    halves: dict[int, _Half] = field(default_factory=dict)
    """All halves that passed bytes, or may."""

    def has_socket_of(self, half: _Half, event: Addresses) -> bool:
        """Say whether the socket is still this connection's: keys of sockets are used again."""
        known = self.addresses
        return (
            known is not None
            and self.pid == half.opened.pid
            and (known.local, known.remote) == (event.local, event.remote)
        )

    def advance(self, half: _Half, event: Data) -> Data:
        """Return the data of a half as the connection's own, and move the positions past it."""
        direction = half.direction
        if self.current.get(direction) is not half:
            self.current[direction] = half
            half.base = self.positions[direction] - half.position
        half.position = event.position + event.span
        self.positions[direction] = half.base + half.position
        position = half.base + event.position
        return event._replace(connection=self.number, position=position, origin=half.number)

    def checked(self, half: _Half, event: Checked | Closed) -> Checked:
        """Return the connection's positions, after those at the end of a half."""
        reads = half.direction is Direction.READ
        position = half.base + (event.read_position if reads else event.write_position)
        if self.current.get(half.direction) is half:
            self.positions[half.direction] = max(position, self.positions[half.direction])
        return Checked(event.time_ns, self.number, *self.positions.values())

    def closed(self, time_ns: int) -> Closed:
        read, written = self.positions.values()
        return Closed(time_ns, self.number, read, written)


class RustlsConnections:
    """Joins halves into connections. Events of whole connections pass unchanged.

    ``fast_path``: there the records of a half are joined to those of its connection, too.
    """

    def __init__(self, fast_path: FastPath) -> None:
        self._fast_path = fast_path
        self._halves: dict[int, _Half] = {}
        self._unjoined: dict[int, _Half] = {}
        """Those of ``_halves`` that are not joined to a connection yet, the oldest first."""
        self._by_socket: dict[int, _JoinedConnection] = {}
        self._partners: dict[int, int] = {}
        self._joined_count = 0
        self._handlers: dict[type, Callable[[Any], Iterator[Event]]] = {
            Opened: self._opened,
            Addresses: self._addresses,
            Paired: self._paired,
            Closed: self._closed,
            Checked: self._checked,
            Ended: self._ended,
            SocketGone: self._socket_gone,
            LeftOut: self._left_out,
            Exited: self._exited,
        }

    def handle(self, record: Record) -> Iterable[Event]:
        """Return the events that follow from ``record``; they may be about a joined connection."""
        if isinstance(record, Data):
            half = self._halves.get(record.connection)
            return (record,) if half is None else self._data(half, record)
        return self._handlers[type(record)](record)

    def connection_of(self, number: int) -> int:
        """Return the number of the connection that a half is joined to, if it is a half."""
        half = self._halves.get(number)
        return number if half is None or half.joined is None else half.joined.number

    def release(self, now_ns: int | None = None) -> Iterator[Event]:
        """Yield the events that wait since ``WAIT_NS`` before ``now_ns``; None: all that wait."""
        for half in list(self._unjoined.values()):
            if now_ns is not None and now_ns - half.opened.time_ns < WAIT_NS:
                return
            yield from self._join_to([half], None)

    def _opened(self, event: Opened) -> Iterator[Event]:
        if event.half is None:
            yield event
            return
        half = _Half(event, event.half)
        self._halves[half.number] = self._unjoined[half.number] = half
        partner = self._partner(half)
        if partner is not None:
            yield from self._join(half, partner)

    def _data(self, half: _Half, event: Data) -> Iterator[Event]:
        if half.joined is not None:
            yield self._advance(half.joined, half, event)
            return
        half.waiting_data.append(event)
        half.waiting_bytes += len(event.data)
        if half.waiting_bytes > MOST_WAITING_BYTES:
            yield from self._join_to([half], None)

    def _addresses(self, event: Addresses) -> Iterator[Event]:
        half = self._halves.get(event.connection)
        if half is None:
            yield event
            return
        found = self._by_socket.get(event.socket)
        if found is not None and not found.has_socket_of(half, event):
            yield from self._close(found, event.time_ns)
            found = None
        joined, partner = half.joined, self._partner(half)
        is_certain = joined is not None and partner is not None and partner.joined is joined
        if joined is None or (found not in (None, joined) and not is_certain):
            yield from self._join_to([half], found, event)
        elif found is None and (joined.addresses is None or is_certain or len(joined.halves) == 1):
            yield self._set_addresses(joined, event)
        elif found is None:
            yield from self._join_to([half], None, event)

    def _paired(self, event: Paired) -> Iterator[Event]:
        self._partners[event.writes] = event.reads
        self._partners[event.reads] = event.writes
        writes, reads = self._halves.get(event.writes), self._halves.get(event.reads)
        if writes is not None and reads is not None:
            yield from self._join(reads, writes)

    def _closed(self, event: Closed) -> Iterator[Event]:
        half = self._halves.get(event.connection)
        if half is None:
            yield event
            return
        if half.joined is None:
            yield from self._join_to([half], None)
        joined = half.joined
        assert joined is not None
        self._update_positions(joined)
        yield joined.checked(half, event)
        self._forget(half)
        if not joined.halves and joined.addresses is None:
            yield joined.closed(event.time_ns)

    def _checked(self, event: Checked) -> Iterator[Event]:
        half = self._halves.get(event.connection)
        if half is None:
            yield event
        elif half.joined is not None:
            self._update_positions(half.joined)
            yield half.joined.checked(half, event)

    def _ended(self, event: Ended) -> Iterator[Event]:
        yield event  # halves have no such event: it passes unchanged

    def _socket_gone(self, event: SocketGone) -> Iterator[Event]:
        joined = self._by_socket.get(event.socket)
        if joined is not None:
            yield from self._close(joined, event.time_ns)

    def _left_out(self, event: LeftOut) -> Iterator[Event]:
        half = self._halves.get(event.connection)
        if half is None:
            yield event
            return
        self._forget(half)
        joined = half.joined
        if joined is not None and not joined.halves and joined.addresses is None:
            yield joined.closed(event.time_ns)

    def _exited(self, event: Exited) -> Iterator[Event]:
        for half in [each for each in self._halves.values() if each.opened.pid == event.pid]:
            if half.joined is None:
                yield from self._join_to([half], None)
            self._forget(half)
        for joined in [each for each in self._by_socket.values() if each.pid == event.pid]:
            yield from self._close(joined, event.time_ns)
        yield event

    def _join(self, one: _Half, other: _Half) -> Iterator[Event]:
        """Join a pair: to the connection of one whose socket is known, else to ``one``'s."""
        if one.joined is None or (one.joined.addresses is None and other.joined is not None):
            one, other = other, one
        if one.joined is None:
            yield from self._join_to([one, other], None)
        elif one.joined is not other.joined:
            yield from self._join_to([other], one.joined)

    def _join_to(
        self,
        halves: list[_Half],
        joined: _JoinedConnection | None,
        addresses: Addresses | None = None,
    ) -> Iterator[Event]:
        """Join halves to a connection, None: a new one; yield their events that waited."""
        first = min((half.opened for half in halves), key=lambda opened: opened.time_ns)
        if joined is None:
            self._joined_count += 1
            number = -self._joined_count  # the kernel's numbers are positive
            joined = _JoinedConnection(number, first.pid)
            from_start = all(half.opened.from_start for half in halves)
            yield first._replace(connection=joined.number, half=None, from_start=from_start)
            if addresses is not None:
                yield self._set_addresses(joined, addresses)
        waiting = []
        for half in halves:
            previous = half.joined
            if previous is not None:
                self._leave_fast_path(half)
                del previous.halves[half.number]
                if not previous.halves:
                    yield from self._close(previous, first.time_ns)
            self._unjoined.pop(half.number, None)
            half.joined = joined
            joined.halves[half.number] = half
            waiting += [(event.time_ns, half, event) for event in half.waiting_data]
            half.waiting_data = []
        for _, half, event in sorted(waiting, key=lambda each: each[0]):
            yield self._advance(joined, half, event)

    def _advance(self, joined: _JoinedConnection, half: _Half, event: Data) -> Data:
        """Return a half's data as its connection's, and join its records on the fast path."""
        before = joined.current.get(half.direction)
        if before is not None and before is not half:
            self._leave_fast_path(before)
        data = joined.advance(half, event)
        if not half.base:
            self._fast_path.join(half.number, joined.number, half.direction)
        return data

    def _leave_fast_path(self, half: _Half) -> None:
        """Undo the joining of a half on the fast path."""
        if half.joined is not None:
            self._update_positions(half.joined)
        self._fast_path.separate(half.number, half.direction)

    def _update_positions(self, joined: _JoinedConnection) -> None:
        """Set the positions that the connection's directions reached on the fast path."""
        for direction, half in joined.current.items():
            position = self._fast_path.position(half.number, direction)
            if position is not None:
                half.position = joined.positions[direction] = position

    def _set_addresses(self, joined: _JoinedConnection, event: Addresses) -> Addresses:
        # New addresses take a connection back from the fast path, and with it what it counted.
        self._update_positions(joined)
        if joined.addresses is not None:
            self._by_socket.pop(joined.addresses.socket, None)
        joined.addresses = event
        self._by_socket[event.socket] = joined
        return event._replace(connection=joined.number)

    def _partner(self, half: _Half) -> _Half | None:
        return self._halves.get(self._partners.get(half.number, 0))

    def _forget(self, half: _Half) -> None:
        self._leave_fast_path(half)
        del self._halves[half.number]
        self._unjoined.pop(half.number, None)
        self._partners.pop(self._partners.pop(half.number, 0), None)
        if half.joined is not None:
            half.joined.halves.pop(half.number, None)

    def _close(self, joined: _JoinedConnection, time_ns: int) -> Iterator[Event]:
        for half in list(joined.halves.values()):
            self._forget(half)
        if joined.addresses is not None:
            self._by_socket.pop(joined.addresses.socket, None)
        yield joined.closed(time_ns)
