"""Joins the two directions of rustls connections, which the kernel reports apart.

rustls has a cipher object for each direction, and another one whenever keys change: each is a half,
with positions from 0 on. Halves of one process and socket are one connection, and so are two that
the library itself pairs. The first events of a half wait until one of these is known, which is
when the data is sent or was received: for microseconds. If it takes longer (``WAIT_NS``,
``MOST_HELD_BYTES``) the half is shown as a connection of its own, which others may still join.

Pure: events in, events out. Memory: some hundred bytes for each half that the kernel knows,
and what waits.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sslsniff.events import (
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
from sslsniff.fast_path import FastPath
from sslsniff.model import Direction

WAIT_NS = 100_000_000
MOST_HELD_BYTES = 1 << 20


@dataclass(slots=True, eq=False)
class _Half:
    """``position`` is how far it got by its own count, ``base`` what its whole counts more."""

    opened: Opened
    direction: Direction
    whole: "_Whole | None" = None
    held: list[Data] = field(default_factory=list)
    held_bytes: int = 0
    position: int = 0
    base: int = 0

    @property
    def number(self) -> int:
        return self.opened.connection


@dataclass(slots=True, eq=False)
class _Whole:
    """A joined connection: ``positions`` are the offsets that its directions reached.

    ``current`` are the halves that its directions pass now, ``halves`` all that did and may.
    """

    number: int
    pid: int
    addresses: Addresses | None = None
    positions: dict[Direction, int] = field(
        default_factory=lambda: {Direction.READ: 0, Direction.WRITE: 0}
    )
    current: dict[Direction, _Half] = field(default_factory=dict)
    halves: dict[int, _Half] = field(default_factory=dict)

    def has_socket_of(self, half: _Half, event: Addresses) -> bool:
        """Say whether this is the socket's connection, and not one that had its address before."""
        known = self.addresses
        return (
            known is not None
            and self.pid == half.opened.pid
            and (known.local, known.remote) == (event.local, event.remote)
        )

    def advance(self, half: _Half, event: Data) -> Data:
        """Move on by what one of its halves passed; return that as the connection's own."""
        direction = half.direction
        if self.current.get(direction) is not half:
            self.current[direction] = half
            half.base = self.positions[direction] - half.position
        half.position = event.position + event.span
        self.positions[direction] = half.base + half.position
        return event._replace(connection=self.number, position=half.base + event.position)

    def checked(self, half: _Half, event: Checked | Closed) -> Checked:
        """Return how far it got by what is known of a half's end."""
        reads = half.direction is Direction.READ
        position = half.base + (event.read_position if reads else event.write_position)
        if self.current.get(half.direction) is half:
            self.positions[half.direction] = max(position, self.positions[half.direction])
        return Checked(event.time_ns, self.number, *self.positions.values())

    def closed(self, time_ns: int) -> Closed:
        return Closed(time_ns, self.number, *self.positions.values())


class RustlsConnections:
    """Joins halves into connections. Whole connections pass unchanged.

    What continues a whole connection is joined to it on ``fast_path``, too.
    """

    def __init__(self, fast_path: FastPath) -> None:
        self._fast_path = fast_path
        self._halves: dict[int, _Half] = {}
        self._waiting: dict[int, _Half] = {}
        """Those of ``_halves`` that are of no connection yet, the oldest first."""
        self._by_socket: dict[int, _Whole] = {}
        self._partners: dict[int, int] = {}
        self._wholes = 0
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
        """Return the events of connections that follow from ``record``."""
        if isinstance(record, Data):
            half = self._halves.get(record.connection)
            return (record,) if half is None else self._data(half, record)
        return self._handlers[type(record)](record)

    def release(self, now_ns: int | None = None) -> Iterator[Event]:
        """Yield what waited for too long now; None: all."""
        for half in list(self._waiting.values()):
            if now_ns is not None and now_ns - half.opened.time_ns < WAIT_NS:
                return
            yield from self._place([half], None)

    def _opened(self, event: Opened) -> Iterator[Event]:
        if event.half is None:
            yield event
            return
        half = _Half(event, event.half)
        self._halves[half.number] = self._waiting[half.number] = half
        partner = self._partner(half)
        if partner is not None:
            yield from self._join(half, partner)

    def _data(self, half: _Half, event: Data) -> Iterator[Event]:
        if half.whole is not None:
            yield self._advance(half.whole, half, event)
            return
        half.held.append(event)
        half.held_bytes += len(event.data)
        if half.held_bytes > MOST_HELD_BYTES:
            yield from self._place([half], None)

    def _addresses(self, event: Addresses) -> Iterator[Event]:
        half = self._halves.get(event.connection)
        if half is None:
            yield event
            return
        found = self._by_socket.get(event.socket)
        if found is not None and not found.has_socket_of(half, event):
            yield from self._close(found, event.time_ns)
            found = None
        whole, partner = half.whole, self._partner(half)
        is_certain = whole is not None and partner is not None and partner.whole is whole
        if whole is None or (found not in (None, whole) and not is_certain):
            yield from self._place([half], found, event)
        elif found is None and (whole.addresses is None or is_certain or len(whole.halves) == 1):
            yield self._name_socket(whole, event)
        elif found is None:
            yield from self._place([half], None, event)

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
        if half.whole is None:
            yield from self._place([half], None)
        whole = half.whole
        assert whole is not None
        self._catch_up(whole)
        yield whole.checked(half, event)
        self._forget(half)
        if not whole.halves and whole.addresses is None:
            yield whole.closed(event.time_ns)

    def _checked(self, event: Checked) -> Iterator[Event]:
        half = self._halves.get(event.connection)
        if half is None:
            yield event
        elif half.whole is not None:
            self._catch_up(half.whole)
            yield half.whole.checked(half, event)

    def _ended(self, event: Ended) -> Iterator[Event]:
        yield event  # a half has no such end

    def _socket_gone(self, event: SocketGone) -> Iterator[Event]:
        whole = self._by_socket.get(event.socket)
        if whole is not None:
            yield from self._close(whole, event.time_ns)

    def _left_out(self, event: LeftOut) -> Iterator[Event]:
        half = self._halves.get(event.connection)
        if half is None:
            return
        self._forget(half)
        whole = half.whole
        if whole is not None and not whole.halves and whole.addresses is None:
            yield whole.closed(event.time_ns)

    def _exited(self, event: Exited) -> Iterator[Event]:
        for half in [each for each in self._halves.values() if each.opened.pid == event.pid]:
            if half.whole is None:
                yield from self._place([half], None)
            self._forget(half)
        for whole in [each for each in self._by_socket.values() if each.pid == event.pid]:
            yield from self._close(whole, event.time_ns)
        yield event

    def _join(self, one: _Half, other: _Half) -> Iterator[Event]:
        """Put a pair into one connection: that whose socket is known, or else ``one``'s."""
        if one.whole is None or (one.whole.addresses is None and other.whole is not None):
            one, other = other, one
        if one.whole is None:
            yield from self._place([one, other], None)
        elif one.whole is not other.whole:
            yield from self._place([other], one.whole)

    def _place(
        self, halves: list[_Half], whole: _Whole | None, addresses: Addresses | None = None
    ) -> Iterator[Event]:
        """Put halves into a connection, None: a new one; yield what waited of them."""
        first = min((half.opened for half in halves), key=lambda opened: opened.time_ns)
        if whole is None:
            self._wholes += 1
            whole = _Whole(-self._wholes, first.pid)  # no number that the kernel gives
            from_start = all(half.opened.from_start for half in halves)
            yield first._replace(connection=whole.number, half=None, from_start=from_start)
            if addresses is not None:
                yield self._name_socket(whole, addresses)
        held = []
        for half in halves:
            previous = half.whole
            if previous is not None:
                self._leave_fast_path(half)
                del previous.halves[half.number]
                if not previous.halves:
                    yield from self._close(previous, first.time_ns)
            self._waiting.pop(half.number, None)
            half.whole = whole
            whole.halves[half.number] = half
            held += [(event.time_ns, half, event) for event in half.held]
            half.held = []
        for _, half, event in sorted(held, key=lambda each: each[0]):
            yield self._advance(whole, half, event)

    def _advance(self, whole: _Whole, half: _Half, event: Data) -> Data:
        """Return what a half passed as its whole's, and let what follows take the fast path."""
        before = whole.current.get(half.direction)
        if before is not None and before is not half:
            self._leave_fast_path(before)
        data = whole.advance(half, event)
        if not half.base:
            self._fast_path.join(half.number, whole.number, half.direction)
        return data

    def _leave_fast_path(self, half: _Half) -> None:
        """Take a half off the fast path."""
        if half.whole is not None:
            self._catch_up(half.whole)
        self._fast_path.part(half.number, half.direction)

    def _catch_up(self, whole: _Whole) -> None:
        """Note the offsets that its directions reached on the fast path."""
        for direction, half in whole.current.items():
            position = self._fast_path.position(half.number, direction)
            if position is not None:
                half.position = whole.positions[direction] = position

    def _name_socket(self, whole: _Whole, event: Addresses) -> Addresses:
        if whole.addresses is not None:
            self._by_socket.pop(whole.addresses.socket, None)
        whole.addresses = event
        self._by_socket[event.socket] = whole
        return event._replace(connection=whole.number)

    def _partner(self, half: _Half) -> _Half | None:
        return self._halves.get(self._partners.get(half.number, 0))

    def _forget(self, half: _Half) -> None:
        self._leave_fast_path(half)
        del self._halves[half.number]
        self._waiting.pop(half.number, None)
        self._partners.pop(self._partners.pop(half.number, 0), None)
        if half.whole is not None:
            half.whole.halves.pop(half.number, None)

    def _close(self, whole: _Whole, time_ns: int) -> Iterator[Event]:
        for half in list(whole.halves.values()):
            self._forget(half)
        if whole.addresses is not None:
            self._by_socket.pop(whole.addresses.socket, None)
        yield whole.closed(time_ns)
