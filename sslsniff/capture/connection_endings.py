"""Finds out how connections end: joins what the kernel saw of a socket with what the library did.

A program may free the library's object first, and close its socket a moment later. Or its process
ends with the connection open, and the kernel closes the socket then. So the end of a connection
waits until the end of its TCP connection is known, if the kernel says that it will report it:
``_DELAY_S`` at most.

A library that reads the end of the TCP connection where it expects a record may answer with an
alert (OpenSSL 3: decode error). Such an alert is no cause: the peer's end came first.
"""

import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from sslsniff.core.endings import BY_PEER, ConnectionEnding
from sslsniff.core.events import (
    Addresses,
    Closed,
    Ended,
    Ending,
    Event,
    Exited,
    LeftOut,
    Opened,
    SocketEnded,
)
from sslsniff.core.handshakes import SocketEnding
from sslsniff.core.model import Direction

_DELAY_S = 0.5
_MOST_OPEN = 131072
_NO_ENDING = ConnectionEnding()


class _OpenConnection:
    """What is known of a connection: its process, its socket (0: none), and its end.

    ``alerted_ns``: when the process sent a fatal alert.
    """

    __slots__ = ("alerted_ns", "ending", "pid", "socket")

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.socket = self.alerted_ns = 0
        self.ending = _NO_ENDING


class _WaitingExit(NamedTuple):
    """The end of a process, until when it waits, and for the ends of which connections."""

    until_s: float
    event: Exited
    connections: set[int]


def _known(first: bool | None, later: bool | None) -> bool | None:
    return later if first is None else first


class ConnectionEndings:
    """Adds an ``Ending`` before the event with which a connection, or a direction of it, ends.

    Its events are those of whole connections. Memory: some hundred bytes for each of ``_MOST_OPEN``
    open connections, twice as many as the kernel knows.
    """

    def __init__(self) -> None:
        self._open: dict[int, _OpenConnection] = {}
        self._by_socket: dict[int, int] = {}
        """A socket -> the connection that was found last to use it."""
        self._held: dict[int, tuple[float, Closed]] = {}
        """Connections whose sockets did not end yet -> until when their ends wait."""
        self._exits: dict[int, _WaitingExit] = {}
        """The same for processes."""
        self._handlers: dict[type, Any] = {
            Opened: self._opened,
            Addresses: self._addresses,
            Ended: self._ended,
            Closed: self._closed,
            LeftOut: self._left_out,
            Exited: self._exited,
        }

    def handle(self, handled: Iterable[Event]) -> Iterator[Event]:
        """Yield events, with what is known of ends; those of a connection may come later."""
        for event in handled:
            handler = self._handlers.get(type(event))
            if handler is None:
                yield event
            else:
                yield from handler(event)

    def end_socket(self, event: SocketEnded) -> Iterator[Event]:
        """Note how the TCP connection of a socket ends; yield what waited for that."""
        number = event.connection or self._by_socket.get(event.socket, 0)
        found = self._open.get(number)
        if found is None or found.ending.socket is not SocketEnding.UNKNOWN:
            return
        found.ending = found.ending._replace(socket=event.ending, time_ns=event.time_ns)
        if event.ending in BY_PEER and event.time_ns < found.alerted_ns:
            found.ending = found.ending._replace(sent_alert=None)
        if number in self._held:
            yield from self._release(number)
        elif found.pid in self._exits:
            waiting = self._exits[found.pid]
            waiting.connections.discard(number)
            if not waiting.connections:
                yield from self._release_exit(found.pid)

    def alert(self, time_ns: int, connection: int, sent: int | None, received: int | None) -> None:
        """Note a fatal alert on a connection."""
        found = self._open.get(connection)
        if found is None:
            return
        if received is not None:
            found.ending = found.ending._replace(received_alert=received)
        if sent is not None and found.ending.socket not in BY_PEER:
            found.alerted_ns = time_ns
            found.ending = found.ending._replace(sent_alert=sent)

    def release(self, *, is_over: bool = False) -> Iterator[Event]:
        """Yield the ends that waited long enough; ``is_over``: all of them."""
        if not (self._held or self._exits):
            return
        now_s = time.monotonic()
        for number, (until_s, _) in list(self._held.items()):
            if not is_over and until_s > now_s:
                break
            yield from self._release(number)
        for pid, waiting in list(self._exits.items()):
            if is_over or waiting.until_s <= now_s:
                yield from self._release_exit(pid)

    def _opened(self, event: Opened) -> Iterable[Event]:
        ended: list[Event] = []
        if event.pid in self._exits:  # its next program, or another process
            ended += self._release_exit(event.pid)
        if event.connection not in self._open:
            if len(self._open) >= _MOST_OPEN:  # the kernel evicts connections without a word
                oldest = next(iter(self._open))
                if oldest in self._held:
                    ended += self._release(oldest)
                self._forget(oldest)
            self._open[event.connection] = _OpenConnection(event.pid)
        return (*ended, event)

    def _addresses(self, event: Addresses) -> Iterable[Event]:
        found = self._open.get(event.connection)
        if found is not None and event.socket:
            self._forget_socket(event.connection, found)
            if found.socket not in (0, event.socket):  # that was another connection's
                found.ending = found.ending._replace(socket=SocketEnding.UNKNOWN, time_ns=None)
            found.socket = event.socket
            self._by_socket[event.socket] = event.connection
        return (event,)

    def _ended(self, event: Ended) -> Iterable[Event]:
        found = self._open.get(event.connection)
        if found is None:
            return (event,)
        if event.notified is not None:
            found.ending = (
                found.ending._replace(sent_notify=event.notified)
                if event.direction is Direction.WRITE
                else found.ending._replace(received_notify=event.notified)
            )
        return (Ending(event.time_ns, event.connection, found.ending), event)

    def _closed(self, event: Closed) -> Iterable[Event]:
        found = self._open.get(event.connection)
        if found is None:
            return (event,)
        ending = found.ending
        found.ending = ending._replace(
            sent_notify=_known(ending.sent_notify, event.sent_notify),
            received_notify=_known(ending.received_notify, event.received_notify),
        )
        self._held[event.connection] = time.monotonic() + _DELAY_S, event
        if event.socket_ends and ending.socket is SocketEnding.UNKNOWN:
            return ()
        return self._release(event.connection)

    def _left_out(self, event: LeftOut) -> Iterable[Event]:
        self._forget(event.connection)
        return (event,)

    def _exited(self, event: Exited) -> Iterator[Event]:
        unknown = {
            number
            for number, each in self._open.items()
            if each.pid == event.pid and each.socket and each.ending.socket is SocketEnding.UNKNOWN
        }
        until_s = time.monotonic() + _DELAY_S
        self._exits[event.pid] = _WaitingExit(until_s, event, unknown)
        if not unknown:
            yield from self._release_exit(event.pid)

    def _release(self, connection: int) -> tuple[Event, ...]:
        _, closed = self._held.pop(connection)
        found = self._open.pop(connection)
        self._forget_socket(connection, found)
        if found.ending == _NO_ENDING:
            return (closed,)
        return (Ending(closed.time_ns, connection, found.ending), closed)

    def _release_exit(self, pid: int) -> Iterator[Event]:
        exited = self._exits.pop(pid).event
        for number, found in list(self._open.items()):
            if found.pid != pid:
                continue
            if number in self._held:
                yield from self._release(number)
                continue
            self._forget(number)
            ended_ns = found.ending.time_ns
            was_open = ended_ns is None or ended_ns >= exited.time_ns
            ending = found.ending._replace(process_ended=was_open and not exited.is_exec)
            if ending != _NO_ENDING:
                yield Ending(exited.time_ns, number, ending)
        yield exited

    def _forget(self, connection: int) -> None:
        found = self._open.pop(connection, None)
        if found is not None:
            self._forget_socket(connection, found)

    def _forget_socket(self, connection: int, found: _OpenConnection) -> None:
        if self._by_socket.get(found.socket) == connection:
            del self._by_socket[found.socket]
