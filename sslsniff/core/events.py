"""Defines the events of connections, live or recorded: the input of ``flows``."""

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from sslsniff.core.endings import ConnectionEnding
from sslsniff.core.handshakes import HandshakeFacts, SocketEnding
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Address, Direction, Peer
from sslsniff.core.process import Container
from sslsniff.core.redacted import PlacedCounts
from sslsniff.decoders.messages import Side


class EventKind(IntEnum):
    """The kind of a record: ``enum event_kind`` of ``bpf/event.h``; ``EVENT_DATA`` is ``DATA``."""

    OPENED = 1
    DATA = 2
    ADDRESSES = 3
    CLOSED = 4
    EXITED = 5
    ENDED = 6
    PAIRED = 7
    SOCKET_GONE = 8
    LEFT_OUT = 9
    CGROUP = 10
    HIT = 11
    TLS_SOCKET = 12
    FAILURE = 13
    SOCKET_ENDED = 14
    STDIO = 15


class Opened(NamedTuple):
    """A connection seen for the first time, or again after its announcement was lost.

    ``connection``: its key, unique within one capture. Position 0 is the first byte after the
    probes were placed.
    ``library``: an index into ``Source.libraries``.
    ``object_address``: the address of the TLS library's object in the process.
    ``name``: the connection's id where it was recorded; no two have the same at one time.
    ``half``: the direction, if this is only one direction of a connection; else None. The other
    direction has an event of its own, and ``libraries.rustls.joiner`` joins them.
    ``cgroup``: the id of the process's cgroup v2. ``container_pid``, ``machine``: see
    ``model.Process``. ``peer``: see ``model.Connection``. ``ways``: the kernel's numbers of the two
    pipes or sockets that lead to such a peer and back.
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
    cgroup: int = 0
    container_pid: int | None = None
    container: Container | None = None
    machine: str | None = None
    peer: Peer | None = None
    ways: tuple[int, ...] = ()


class Data(NamedTuple):
    """Plaintext at ``position`` of its direction.

    The call passed ``span`` bytes; if ``data`` is shorter, ``cut`` says why.
    ``task``: the goroutine, or task of an async runtime, that called; 0: unknown, or not asked for.
    Its highest byte says how a read waited, if that is asked for (bpf/waits.bpf.h).
    ``origin``: the kernel's number of the direction, if it was opened by itself; else 0.
    ``redacted``: in a capture file, the secrets that were blanked before it was written.
    """

    time_ns: int
    tid: int
    connection: int
    direction: Direction
    position: int
    span: int
    data: bytes
    cut: LossCause | None = None
    task: int = 0
    origin: int = 0
    redacted: PlacedCounts | None = None


class BytesPassed(NamedTuple):
    """A thread passed plaintext, in the order of the ring; its ``Data`` may come later.

    ``task``: as in ``Data``. ``connection``: the kernel's number of the connection, or of one
    direction of it.
    """

    time_ns: int
    pid: int
    tid: int
    task: int
    connection: int
    direction: Direction


class Addresses(NamedTuple):
    """The addresses of a connection's socket became known, or changed.

    ``socket`` identifies it among all open sockets; 0 if unknown.
    """

    time_ns: int
    connection: int
    local: Address
    remote: Address
    socket: int = 0


class Checked(NamedTuple):
    """The final positions of a connection that is still open at the end of a capture."""

    time_ns: int
    connection: int
    read_position: int
    write_position: int


class Ended(NamedTuple):
    """One side closed its direction of a connection at ``position``: no bytes follow.

    ``notified``: whether by a close_notify; None: unknown.
    """

    time_ns: int
    connection: int
    direction: Direction
    position: int
    notified: bool | None = None


class Closed(NamedTuple):
    """A connection ended; with its final positions.

    ``socket_ends``: a ``SocketEnded`` of its socket follows. ``sent_notify``, ``received_notify``:
    False: no close_notify passed; None: one may have passed.
    """

    time_ns: int
    connection: int
    read_position: int
    write_position: int
    socket_ends: bool = False
    sent_notify: bool | None = None
    received_notify: bool | None = None


class Exited(NamedTuple):
    """A process ended or replaced its program (exec): its connections ended."""

    time_ns: int
    pid: int
    is_exec: bool = False


_ENDS = (Ended, Closed, Exited)


def ends_after(event: object, time_ns: int) -> bool:
    """Return whether a connection, a direction or a process ended after a time.

    No plaintext is reported any more once a capture is stopped: of what ended then it is not known
    what passed before. So it counts as open.
    """
    return isinstance(event, _ENDS) and event.time_ns > time_ns


class Paired(NamedTuple):
    """Two directions that were opened one by one belong to one connection."""

    time_ns: int
    writes: int
    reads: int


class SocketGone(NamedTuple):
    """A socket was closed whose directions were opened one by one: their connection ended."""

    time_ns: int
    socket: int


class SocketEnded(NamedTuple):
    """The end of a socket's TCP connection began. ``connection``: 0 if only the socket is known."""

    time_ns: int
    connection: int
    socket: int
    ending: SocketEnding


class Ending(NamedTuple):
    """What is known by now of how a connection ends, or ended."""

    time_ns: int
    connection: int
    ending: ConnectionEnding


class LeftOut(NamedTuple):
    """Sampling leaves out a connection, or one direction of it, from now on: it has no more events.

    Ignore the earlier events of a direction.
    """

    time_ns: int
    connection: int


class TlsStart(IntEnum):
    """What a process sent or received first on a TLS socket: ``enum tls_start`` (``bpf/event.h``).

    ``JOINED``: application data, as the connection is older than the capture. ``ALERT_SENT``: what
    a server received before was no ClientHello, or was not seen.
    """

    CLIENT_HELLO = 1
    SERVER_HELLO = 2
    JOINED = 3
    HELLO_RECEIVED = 4
    ALERT_SENT = 5


NOTED_SENDS = 10
"""So many sends of a TLS socket are noted (``bpf/event.h``)."""


class NotedSend(NamedTuple):
    """One of the first sends of a TLS socket: its first bytes, and how many it had.

    ``received``: how many bytes the socket had received before. ``time_ns``: when it was sent;
    the preloaded library does not note it.
    """

    head: bytes
    bytes: int
    received: int
    time_ns: int = 0


class TlsSocket(NamedTuple):
    """A TCP socket on which a watched process uses TLS, and no probe saw data.

    ``time_ns``: when TLS began. ``ended_ns``: when the end of the TCP connection began.
    ``program``: the file name of the process's program, 15 bytes at most.
    ``sends``: the first ones. ``hello``: the beginning of the record with the
    ClientHello, or empty. ``answer``: the first bytes that were received, 16 at most; empty if
    they are not known. ``received_alert``: the number of an alert that came in clear.
    ``acknowledged``, ``received``: bytes; 0 while the socket is open. ``has_ended``: nothing more
    is reported of it. ``is_complete``: the library says that the handshake was completed.
    ``is_called``: a call of a probed library sent on it, and may be under way.
    """

    time_ns: int
    socket: int
    pid: int
    cgroup: int
    comm: str
    program: str
    start: TlsStart
    is_probed: bool
    local: Address
    remote: Address
    sends: tuple[NotedSend, ...]
    hello: bytes
    acknowledged: int
    received: int
    has_ended: bool = False
    ended_ns: int | None = None
    ending: SocketEnding = SocketEnding.UNKNOWN
    uid: int | None = None
    answer: bytes = b""
    received_alert: int | None = None
    is_complete: bool = False
    is_called: bool = False


class Failure(NamedTuple):
    """A library gives up a connection, whose handshake may not be over.

    ``opened``: the connection. ``alert``: what it sends, None if nothing. ``error``: by the
    library's own numbers, as is ``verified``, what it found of the peer's certificate, or more of
    the error.
    ``socket``: 0 if it is not known, like the addresses. ``is_sure``: the library's object names
    it; else it is the one that the thread used last. ``random``: that of the ClientHello, empty
    if it is not known.
    """

    opened: Opened
    alert: int | None
    error: int
    verified: int | None
    has_data: bool
    is_sure: bool
    socket: int
    local: Address | None
    remote: Address | None
    random: bytes


class HandshakeEnded(NamedTuple):
    """A TLS handshake after which no data passed, as it failed, or nothing followed.

    ``time_ns``: when it ended. ``library``: its name for programs. ``facts``: what is
    known of its end. ``has_data``: an alert says that it failed, though data passed: the connection
    counts already. The other fields are those of ``Opened``.
    """

    time_ns: int
    began_ns: int
    pid: int
    uid: int | None
    comm: str
    library: str
    role: Side | None
    sni: str | None
    local: Address | None
    remote: Address | None
    facts: HandshakeFacts
    has_data: bool = False
    name: str | None = None
    cgroup: int = 0
    container_pid: int | None = None
    container: Container | None = None
    machine: str | None = None


class TimePassed(NamedTuple):
    """It is ``time_ns`` in a capture file, whether or not a connection was active."""

    time_ns: int


class CgroupMade(NamedTuple):
    """A cgroup v2 was made; ``path`` begins at the root of the hierarchy."""

    time_ns: int
    cgroup: int
    path: str


Event = (
    Opened
    | Data
    | Addresses
    | Checked
    | Ending
    | Ended
    | Closed
    | LeftOut
    | Exited
    | HandshakeEnded
    | TimePassed
)
"""What happens on connections."""

Record = Event | Paired | SocketGone | SocketEnded | CgroupMade | TlsSocket | Failure
"""A record of the kernel: an event, or one of cgroups, sockets, or directions opened one by one."""

NO_MORE_BYTES = (Closed, LeftOut)
"""With these, a connection has no more bytes. A union would be made anew for each event."""

DIRECTIONS = (Direction.READ, Direction.WRITE)
"""The directions, indexed by their numbers in ``bpf/event.h``."""

IsOver = Callable[[], bool]
"""Returns whether a time limit is over."""


def never() -> bool:
    """Return False: there is no time limit."""
    return False
