"""Writes captures for Wireshark (see ``tcp_writer`` for what is in them).

Memory: 1 MiB of packets, and the chunks of connections that wait until their addresses and their
client are known: 256 KiB each, 64 MiB in all.
"""

import functools
import itertools
import os
import time
from importlib.metadata import version
from typing import BinaryIO

from sslsniff.core.errors import counted
from sslsniff.core.fast_path import Consumer
from sslsniff.core.model import Address, Chunk, Connection, Direction, assumed_role
from sslsniff.core.process import Process
from sslsniff.core.sink import Sink, Summary
from sslsniff.decoders.messages import Side
from sslsniff.files.pcap import FileSeries, PacketWriter, PcapWriter
from sslsniff.files.pcapng import PcapngWriter
from sslsniff.files.tcp_writer import SyntheticConnection

HELD_BYTES = 256 << 10
"""How many bytes of one connection may wait."""

_HELD_CHUNKS = 1024
_HELD_BYTES_IN_ALL = 64 << 20
_HELD_S = 2.0  # a connection that has no address after this time hardly gets one
_MOST_INTERFACES = 4096
_PORT_STRIDE = 7919  # a prime: reaches every port

_LAYOUTS = {
    "null-tls": "Each connection is shown as TLS with a NULL cipher: its handshake and the 16"
    " zero bytes behind each record are made up (on ports of HTTP, such as 80: as plain TCP).",
    "plain": "Each connection is shown as plaintext TCP, though TLS was on the wire.",
}

_Ends = tuple[Address | None, Address | None]


class _UnstartedConnection:
    """A connection of which no packet was written yet, with its chunks."""

    __slots__ = ("bytes", "chunks", "connection", "since")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.chunks: list[Chunk] = []
        self.bytes = 0
        self.since = 0.0

    def add(self, chunk: Chunk) -> None:
        if not self.chunks:
            self.since = time.monotonic()
        self.chunks.append(chunk)
        self.bytes += len(chunk.data)

    def may_start(self) -> bool:
        connection = self.connection
        has_all = connection.local is not None and connection.remote is not None
        has_none = connection.peer is not None  # it is by pipes
        return (
            (connection.role is not None and (has_all or has_none))
            or self.bytes > HELD_BYTES
            or len(self.chunks) > _HELD_CHUNKS
        )

    def plays(self) -> Side:
        """Return the process's side; if it is not known, the one to assume in the file."""
        first = self.chunks[0].direction if self.chunks else Direction.WRITE
        return self.connection.role or assumed_role(first)


class _AddressPairs:
    """The pairs of addresses that open connections have in the file.

    Several connections may have the same addresses: both sides of a connection may be watched, and
    TLS may run inside TLS. Wireshark would treat them as one, so each gets its own client port.
    """

    def __init__(self) -> None:
        self._used: set[frozenset[Address]] = set()

    def reserve(self, client: Address, server: Address) -> tuple[Address, Address]:
        """Return the pair for the packets: as it is, or with another client port if it is used.

        The two always differ: equal addresses do not tell who sent a packet.
        """
        # The stride leads away from nearby ports, which the kernel gives to other connections next.
        ports = ((client.port + step * _PORT_STRIDE) % (1 << 16) for step in range(1 << 16))
        clients = (Address(client.ip, port) for port in ports if port)
        free = (
            each
            for each in clients
            if each != server and frozenset((each, server)) not in self._used
        )
        client = next(free, client)
        self._used.add(frozenset((client, server)))
        return client, server

    def release(self, client: Address, server: Address) -> None:
        """Make the pair free for another connection."""
        self._used.discard(frozenset((client, server)))


class PcapSink(Sink):
    """Writes ``file`` as ``pcap`` or ``pcapng``, in layout ``null-tls`` or ``plain``.

    When it is full, the capture goes on in the next of ``series``, if there is one.

    Whole packets go to the file in batches and on ``flush``. What was written stays readable, even
    if this process is killed (``FileGuard``). Only pcapng has process, role and loss; in pcap,
    nothing says that zeros stand for lost bytes. Raises ``OutputError`` once if the file cannot be
    written any more.
    """

    wants_messages = False
    wants_plaintext = True

    def __init__(
        self,
        file: BinaryIO,
        kind: str = "pcapng",
        layout: str = "null-tls",
        series: FileSeries | None = None,
    ) -> None:
        self._wraps = layout == "null-tls"
        self._writer: PacketWriter
        if kind == "pcap":
            self._writer = PcapWriter(file, series)
        else:
            system = os.uname()
            self._writer = PcapngWriter(
                file,
                application=f"sslsniff {version('sslsniff')}",
                system=f"{system.sysname} {system.release}",
                comment="Plaintext of TLS connections, taken by sslsniff inside the processes"
                f" named. {_LAYOUTS[layout]} TCP handshakes and acknowledgements are made up, too,"
                " and ends that are not known; addresses, ports, times and bytes are real, but for"
                " a client's port that another view of the same connection has. Comments on packets"
                " tell what is not.",
                series=series,
            )
        self._writer.guard()
        self._started: dict[str, SyntheticConnection] = {}
        self._ends: dict[str, _Ends] = {}
        """The addresses with which a connection was started."""
        self._waiting: dict[str, _UnstartedConnection] = {}
        self._held_bytes = 0
        self._interfaces: dict[tuple[int, int, str], int] = {}
        self._numbers = itertools.count(1)
        self._placeholders = itertools.count()
        self._address_pairs = _AddressPairs()

    def opened(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._waiting[connection.id] = _UnstartedConnection(connection)

    def chunk(self, chunk: Chunk) -> None:
        """See ``Sink``."""
        started = self._started.get(chunk.connection.id)
        if started is not None:
            self._correct(started, chunk.connection, chunk.time_ns)
            started.write(chunk)
            return
        waiting = self._waiting.get(chunk.connection.id)
        if waiting is None:
            return
        waiting.add(chunk)
        self._held_bytes += len(chunk.data)
        if waiting.may_start() or self._held_bytes > _HELD_BYTES_IN_ALL:
            self._start(waiting)

    def consumer(self, connection: Connection, direction: Direction) -> Consumer | None:
        """See ``Sink``."""
        started = self._started.get(connection.id)
        return started.consumer(direction) if started is not None else None

    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None:
        """See ``Sink``."""
        started = self._started.get(connection.id)
        if started is not None:
            self._correct(started, connection, time_ns)
            started.end_direction(direction, time_ns)

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        waiting = self._waiting.get(connection.id)
        if waiting is not None:
            self._start(waiting)
        started = self._started.pop(connection.id, None)
        if started is not None:
            self._correct(started, connection, time_ns)
            del self._ends[connection.id]
            started.end(time_ns)
            self._address_pairs.release(*started.addresses)

    def left_open(self, connection: Connection) -> None:
        """See ``Sink``: its addresses may have become known after its last bytes."""
        started = self._started.get(connection.id)
        if started is not None:
            self._correct(started, connection, started.last_ns)

    def summary(self, summary: Summary) -> None:
        """See ``Sink``: writes losses by cause into the file's statistics."""
        if summary.losses:
            losses = "; ".join(
                f"{loss.cause.value}: {counted(loss.events, 'time')}, {counted(loss.bytes, 'byte')}"
                for loss in summary.losses
            )
            self._writer.statistics(time.time_ns(), f"Not captured: {losses}")

    def flush(self) -> None:
        """See ``Sink``: also starts connections that have waited long."""
        now = time.monotonic()
        for waiting in list(self._waiting.values()):
            if waiting.chunks and now - waiting.since > _HELD_S:
                self._start(waiting)
        self._writer.flush()

    def close(self) -> None:
        """See ``Sink``: writes all chunks that wait; the file itself stays open."""
        for waiting in list(self._waiting.values()):
            self._start(waiting).begin()
        self._writer.close()

    def _start(self, waiting: _UnstartedConnection) -> SyntheticConnection:
        connection = waiting.connection
        del self._waiting[connection.id]
        self._held_bytes -= waiting.bytes
        plays = waiting.plays()
        client, server = self._real_addresses(connection, plays)
        addresses = self._address_pairs.reserve(client, server)
        self._ends[connection.id] = connection.local, connection.remote
        started = SyntheticConnection(
            connection,
            self._writer,
            functools.partial(self._interface, connection.process),
            plays=plays,
            addresses=addresses,
            client_port=None if addresses[0] == client else client.port,
            numbers=self._numbers,
            wraps=self._wraps,
        )
        self._started[connection.id] = started
        for chunk in waiting.chunks:
            started.write(chunk)
        return started

    def _correct(self, started: SyntheticConnection, connection: Connection, time_ns: int) -> None:
        """Go on with the addresses that a connection has now, if they changed since it started."""
        ends = connection.local, connection.remote
        if self._ends[connection.id] == ends:
            return
        self._ends[connection.id] = ends
        self._address_pairs.release(*started.addresses)
        client, server = self._real_addresses(connection, started.plays)
        addresses = self._address_pairs.reserve(client, server)
        started.move(addresses, None if addresses[0] == client else client.port, time_ns)

    def _interface(self, process: Process) -> int:
        key = self._writer.file_number, process.pid, process.comm
        interface = self._interfaces.get(key)
        if interface is None:
            if len(self._interfaces) >= _MOST_INTERFACES:
                self._interfaces.clear()  # a process that is seen again gets another one
            interface = self._interfaces[key] = self._writer.interface(
                str(process), f"plaintext of {process}"
            )
        return interface

    def _real_addresses(self, connection: Connection, plays: Side) -> tuple[Address, Address]:
        """Return the client's address and the server's."""
        local, remote = connection.local, connection.remote
        if local is None or remote is None:
            return self._placeholder()
        return (local, remote) if plays is Side.CLIENT else (remote, local)

    def _placeholder(self) -> tuple[Address, Address]:
        """Return the next pair of addresses set aside for examples (RFC 5737), client first.

        The n-th connection without addresses has the client 192.0.2.1 and up, and the server
        198.51.100.1, port 443; 4 million pairs differ.
        """
        number = next(self._placeholders)
        client = Address(f"192.0.2.{number % 254 + 1}", 49152 + number // 254 % 16384)
        return client, Address("198.51.100.1", 443)
