"""Events of connections, live or recorded."""

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from sslsniff.decoders.messages import Side
from sslsniff.model import Address, Direction, LossCause


class EventKind(IntEnum):
    """What a record is: ``enum event_kind`` of ``bpf/event.h``, ``EVENT_DATA`` is ``DATA``."""

    OPENED = 1
    DATA = 2
    ADDRESSES = 3
    CLOSED = 4
    EXITED = 5
    ENDED = 6
    PAIRED = 7
    SOCKET_GONE = 8
    LEFT_OUT = 9


class Opened(NamedTuple):
    """A connection seen for the first time, or again after its announcement was lost.

    ``connection`` is unique within one capture; its positions count from 0, the first byte
    after the probes were placed. ``library`` indexes the source's table of library
    names. ``object_address`` is the TLS library's object in the process. ``name`` is the
    connection's id in the capture that recorded it. ``half``: it is only this direction of a
    connection, whose other half is announced on its own (``rustls_connections`` joins them).
    """

    time_ns: int
    tid: int
    connection: int
    pid: int
    uid: int | None
    comm: str
    library: int
    role: Side | None
    from_start: bool
    tls_version: str | None = None
    alpn: str | None = None
    sni: str | None = None
    cipher: str | None = None
    object_address: int = 0
    name: str | None = None
    tls: bool = True
    half: Direction | None = None


class Data(NamedTuple):
    """Plaintext at ``position`` of its direction.

    The event stands for ``span`` bytes; where ``data`` is shorter, ``cut`` says why.
    """

    time_ns: int
    tid: int
    connection: int
    direction: Direction
    position: int
    span: int
    data: bytes
    cut: LossCause | None = None


class Addresses(NamedTuple):
    """The socket of a connection became known, or was found to be another.

    ``socket`` tells it from all others that are open; 0 where that is unknown.
    """

    time_ns: int
    connection: int
    local: Address
    remote: Address
    socket: int = 0


class Checked(NamedTuple):
    """The bytes that passed on a connection that is still open; comes at the end of a capture."""

    time_ns: int
    connection: int
    read_position: int
    write_position: int


class Ended(NamedTuple):
    """One side said that it sends no more: nothing follows ``position`` in this direction."""

    time_ns: int
    connection: int
    direction: Direction
    position: int


class Closed(NamedTuple):
    """A connection ended after so many bytes in each direction."""

    time_ns: int
    connection: int
    read_position: int
    write_position: int


class Exited(NamedTuple):
    """A process ended or replaced its program: its connections are gone."""

    time_ns: int
    pid: int


class Paired(NamedTuple):
    """Two halves are of one connection."""

    time_ns: int
    writes: int
    reads: int


class SocketGone(NamedTuple):
    """A socket that halves used is no more, and so their connection."""

    time_ns: int
    socket: int


class LeftOut(NamedTuple):
    """A half is of a connection that sampling leaves out: its earlier events do not count."""

    time_ns: int
    connection: int


Event = Opened | Data | Addresses | Checked | Ended | Closed | Exited
"""An event of a connection."""

Record = Event | Paired | SocketGone | LeftOut
"""An event from the kernel, also of a half of a connection."""

DIRECTIONS = (Direction.READ, Direction.WRITE)
"""By their numbers in ``bpf/event.h``."""

IsOver = Callable[[], bool]
"""Says whether the time for something is over."""


def never() -> bool:
    """Say that there is time."""
    return False
