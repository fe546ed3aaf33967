"""Events of connections, live or recorded, and the protocol of their source."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from sslsniff.decoders.messages import Side
from sslsniff.fast_path import FastPath
from sslsniff.model import Address, Direction, Loss, LossCause, NotProbed


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


class Source(Protocol):
    """A stream of events."""

    @property
    def libraries(self) -> list[str]:
        """Return the names that ``Opened.library`` indexes; the list may grow."""

    @property
    def fast_path(self) -> FastPath | None:
        """Return its fast path; None where it has none, as what it reads are no records."""

    def now_ns(self) -> int | None:
        """Return what an event of now would have as its time; None where time is its events'."""

    @property
    def ended(self) -> bool:
        """Say whether nothing more can come."""

    def poll(self, timeout_s: float) -> Iterator[Event]:
        """Wait for events, ``timeout_s`` at most, and yield those that are there."""

    def counted_losses(self) -> list[Loss]:
        """Return all losses that are known once ``finish`` is over, also those without an event."""

    def left_out(self) -> int | None:
        """Return how many connections sampling left out; None where it was not asked for."""

    def not_probed(self) -> list[NotProbed] | None:
        """Return the TLS libraries of which nothing is shown; None where that is not known."""

    def finish(self, is_drained: IsOver = never, is_skipped: IsOver = never) -> Iterator[Event]:
        """Stop, and yield what is left. The source is not used again.

        From when it ``is_drained`` plaintext is only counted as lost, and from when it
        ``is_skipped`` nothing is.
        """
