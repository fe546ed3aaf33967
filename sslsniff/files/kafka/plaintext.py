"""Turns plaintext of one connection into messages for Kafka, and back into events."""

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError

from sslsniff.core.escaping import encodable
from sslsniff.core.events import Addresses, Closed, Data, Ended, Event, Opened
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Address, Connection, Direction
from sslsniff.core.process import Container
from sslsniff.decoders.messages import Side
from sslsniff.files.kafka.schema import Plaintext

ENDED, CLOSED = 1, 2
"""Kinds of ``messages.proto``; 0 is plaintext, or a loss."""

_OPTIONAL = ("tls_version", "alpn", "sni", "cipher")
_CAUSES = {cause.value: cause for cause in LossCause}
_ROLES = {side.value: side for side in Side}
_MOST_BYTES = 1 << 62
"""Of a connection: no sum of such numbers is too large for a column of 64 bits."""


def describe(connection: Connection, into: Any) -> None:
    """Set the fields of a ``Connection`` of ``messages.proto``."""
    process = connection.process
    into.id, into.opened_ns = connection.id, connection.opened_ns
    into.pid, into.library = process.pid, connection.library
    into.comm = encodable(process.comm)
    into.from_start, into.tls = connection.from_start, connection.tls
    if process.uid is not None:
        into.uid = process.uid
    if process.container_pid is not None:
        into.container_pid = process.container_pid
    if process.container is not None:
        _set_known(into.container, process.container._asdict())
    if connection.role is not None:
        into.role = connection.role.value
    _set_known(into, {name: getattr(connection, name) for name in _OPTIONAL})
    for end, address in ((into.local, connection.local), (into.remote, connection.remote)):
        if address is not None:
            end.ip, end.port = address


def _set_known(into: Any, values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is not None:
            setattr(into, name, encodable(value))


class ReceivedConnection:
    """A connection of which messages come: makes its events.

    ``number``: the number that its events have. ``offset``: its first message's in the partition.
    ``seen_ms``: when its last message was written.
    """

    __slots__ = ("_addresses", "_positions", "_starts", "number", "offset", "seen_ms")

    def __init__(self, number: int, offset: int, message: Any) -> None:
        self.number = number
        self.offset = offset
        self.seen_ms = 0
        self._starts = {Direction.READ: message.read, Direction.WRITE: message.written}
        self._positions = dict(self._starts)
        self._addresses: tuple[Address, Address] | None = None

    def opened(self, name: str, message: Any, libraries: list[str]) -> Opened:
        """Return the opening; without the connection's beginning, it is one that was joined."""
        connection = message.connection
        if connection.library not in libraries:
            libraries.append(connection.library)
        has_start = not (message.read or message.written)
        container = connection.container if connection.HasField("container") else None
        return Opened(
            time_ns=connection.opened_ns,
            tid=0,
            connection=self.number,
            pid=connection.pid,
            uid=_known(connection, "uid"),
            comm=connection.comm,
            library=libraries.index(connection.library),
            role=_ROLES.get(connection.role),
            from_start=connection.from_start and has_start,
            **{field: _known(connection, field) for field in _OPTIONAL},
            name=name,
            tls=connection.tls,
            container=container and Container(*(_known(container, f) for f in Container._fields)),
            container_pid=_known(connection, "container_pid"),
            machine=message.machine,
        )

    def events(self, message: Any) -> Iterator[Event]:
        """Yield the events of a message. What is there again, after a retry, is left out."""
        first_ns = message.parts[0].time_ns if message.parts else 0
        yield from self._known_addresses(message.connection, first_ns)
        positions = {Direction.READ: message.read, Direction.WRITE: message.written}
        for part in message.parts:
            direction = Direction.WRITE if part.written else Direction.READ
            if part.kind == CLOSED:
                yield self.closed(part.time_ns)
            elif part.kind == ENDED:
                yield Ended(part.time_ns, self.number, direction, self._relative(direction))
            else:
                positions[direction] += len(part.data) + part.missing
                yield from self._data(part, direction, positions[direction])

    def closed(self, time_ns: int) -> Closed:
        """Return the end of the connection."""
        read, written = map(self._relative, (Direction.READ, Direction.WRITE))
        return Closed(time_ns, self.number, read, written)

    def _data(self, part: Any, direction: Direction, end: int) -> Iterator[Event]:
        """Yield the plaintext of a part that ends at ``end``, and before it what did not come."""
        size = len(part.data) + part.missing
        absent = end - size - self._positions[direction]
        if absent > 0:  # a message was dropped
            yield self._lost(part, direction, absent, LossCause.NOT_DELIVERED)
        repeated = min(max(0, -absent), size)
        if repeated == size:
            return
        if part.missing:
            cause = _CAUSES.get(part.cause, LossCause.NOT_CAPTURED)
            yield self._lost(part, direction, part.missing - repeated, cause)
            return
        data = part.data[repeated:]
        start = self._relative(direction)
        self._positions[direction] = end
        yield Data(part.time_ns, part.tid, self.number, direction, start, len(data), data)

    def _lost(self, part: Any, direction: Direction, missing: int, cause: LossCause) -> Data:
        start = self._relative(direction)
        self._positions[direction] += missing
        return Data(part.time_ns, part.tid, self.number, direction, start, missing, b"", cause)

    def _relative(self, direction: Direction) -> int:
        position: int = self._positions[direction] - self._starts[direction]
        return position

    def _known_addresses(self, connection: Any, time_ns: int) -> Iterator[Event]:
        if not (connection.HasField("local") and connection.HasField("remote")):
            return
        ends = (connection.local, connection.remote)
        local, remote = (Address(end.ip, end.port) for end in ends)
        if self._addresses != (local, remote):
            self._addresses = local, remote
            yield Addresses(time_ns, self.number, local, remote)


def _known(message: Any, field: str) -> Any:
    return getattr(message, field) if message.HasField(field) else None


def parse(value: bytes) -> Any:
    """Return the ``Plaintext`` in the value of a message; None: it is something else."""
    try:
        message = Plaintext.FromString(value)
    except DecodeError:
        return None
    bytes_passed = message.read + message.written + sum(part.missing for part in message.parts)
    return message if message.connection.id and bytes_passed < _MOST_BYTES else None
