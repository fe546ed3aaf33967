"""Connections driven by hand into a capture file, and what tshark sees in it."""

import io
import itertools
import subprocess
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import h2.config
import h2.connection
import h2.events

from sslsniff.core import events
from sslsniff.core.flows import Flows
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Address, Chunk, Connection, Direction
from sslsniff.core.process import Process
from sslsniff.core.roles import Roles
from sslsniff.decoders.messages import Side
from sslsniff.files.pcap import FileSeries
from sslsniff.files.replay import ReplaySource
from sslsniff.outputs.pcap.capture_writer import PcapSink
from tests.chunks_only import ChunksOnly

READ, WRITE = Direction.READ, Direction.WRITE
START_NS = 1_700_000_000_123_456_789

BIG = bytes(range(256)) * 4096  # 1 MiB
LAYOUTS = ("null-tls", "plain")
REQUEST = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_WARNING = "_ws.expert.severity >= 0x600000 || _ws.malformed"
_ON_ENCRYPTED_PORT = "Unencrypted HTTP"  # what tshark rightly says of plaintext on port 443

Step = tuple[Direction, bytes | int]
"""Bytes that pass in a direction, or how many are lost there."""


class Taker:
    """Drives a ``PcapSink``; a millisecond and a bit pass with each step."""

    def __init__(
        self,
        where: Path | BinaryIO,
        kind: str = "pcapng",
        layout: str = "null-tls",
        series: FileSeries | None = None,
    ) -> None:
        file = where.open("wb", buffering=0) if isinstance(where, Path) else where
        self._file = file
        self.sink = PcapSink(self._file, kind, layout, series)
        self.now_ns = START_NS
        self._ids = itertools.count(1)
        self._roles = Roles()

    def open(
        self,
        port: int = 8443,
        *,
        ip: str = "127.0.0.1",
        role: Side | None = Side.CLIENT,
        from_start: bool = True,
        alpn: str | None = "http/1.1",
        addressed: bool = True,
        process: Process | None = None,
    ) -> Connection:
        number = next(self._ids)
        near, far = Address(ip, 40000 + number), Address(ip, port)
        connection = Connection(
            id=f"1234-{number}",
            process=process or Process(1234, "curl", 1000),
            library="libssl.so.3",
            role=role,
            from_start=from_start,
            opened_ns=self.now_ns,
            sni=f"host{number}.example.org",
            alpn=alpn,
            tls_version="TLS 1.3",
            cipher="TLS_AES_256_GCM_SHA384",
        )
        if addressed:
            connection.local, connection.remote = (
                (near, far) if role is not Side.SERVER else (far, near)
            )
        self.sink.opened(connection, self.now_ns)
        return connection

    def pass_steps(self, connection: Connection, steps: list[Step], tid: int = 1240) -> None:
        for direction, what in steps:
            self.now_ns += 1_000_001
            read = direction is READ
            offset = connection.bytes_read if read else connection.bytes_written
            size = what if isinstance(what, int) else len(what)
            if isinstance(what, int):
                cause = LossCause.RING_FULL
                chunk = Chunk(
                    connection, direction, self.now_ns, tid, offset + size, b"", size, cause
                )
            else:
                chunk = Chunk(connection, direction, self.now_ns, tid, offset, what)
            if read:
                connection.bytes_read += size
            else:
                connection.bytes_written += size
            self._roles.observe(chunk)  # as flows do
            self.sink.chunk(chunk)

    def end_direction(self, connection: Connection, direction: Direction) -> None:
        self.now_ns += 1_000_001
        self.sink.ended(connection, direction, self.now_ns)

    def end(self, connection: Connection) -> None:
        self.now_ns += 1_000_001
        self.sink.closed(connection, self.now_ns)

    def close(self) -> None:
        self.sink.close()
        self._file.close()

    def take(self, steps: list[Step], port: int = 8443, **options: object) -> Connection:
        """Open, pass and end one connection."""
        connection = self.open(port, **options)  # type: ignore[arg-type]
        self.pass_steps(connection, steps)
        self.end(connection)
        return connection


Run = tuple[int, bytes | int, LossCause | None]


@dataclass
class Seen:
    """What a listener was told of one connection: runs of bytes and gaps, joined."""

    connection: Connection
    opened_ns: int
    closed_ns: int | None = None
    runs: dict[Direction, list[Run]] = field(default_factory=lambda: {READ: [], WRITE: []})
    times: dict[Direction, set[int]] = field(default_factory=lambda: {READ: set(), WRITE: set()})
    ended_ns: dict[Direction, int] = field(default_factory=dict)
    tids: set[int] = field(default_factory=set)


class Listening(ChunksOnly):
    """A ``flows.Listener`` that keeps what it is told."""

    def __init__(self) -> None:
        self.seen: dict[str, Seen] = {}

    def opened(self, connection: Connection, time_ns: int) -> None:
        self.seen[connection.id] = Seen(connection, time_ns)

    def chunk(self, chunk: Chunk) -> None:
        seen = self.seen[chunk.connection.id]
        runs = seen.runs[chunk.direction]
        seen.times[chunk.direction].add(chunk.time_ns)
        seen.tids.add(chunk.tid)
        if chunk.missing:
            runs.append((chunk.offset - chunk.missing, chunk.missing, chunk.cause))
        elif runs and isinstance(last := runs[-1][1], bytes):
            assert chunk.offset == runs[-1][0] + len(last)
            runs[-1] = (runs[-1][0], last + chunk.data, None)
        else:
            runs.append((chunk.offset, chunk.data, None))

    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None:
        self.seen[connection.id].ended_ns[direction] = time_ns

    def handshake(self, handshake: object) -> None:
        """Ignore it."""

    def closed(self, connection: Connection, time_ns: int) -> None:
        self.seen[connection.id].closed_ns = time_ns


def replay(path: Path) -> list[Seen]:
    """Return what ``ReplaySource`` tells of a capture, in the order of opening."""
    source = ReplaySource(path)
    listening = Listening()
    flows = Flows(source.libraries, listening)
    for event in source:
        flows.handle(event)
    assert not source.truncated
    return list(listening.seen.values())


def plaintext(seen: Seen, direction: Direction) -> bytes:
    return b"".join(
        bytes(what) if isinstance(what, int) else what for _, what, _ in seen.runs[direction]
    )


def wait_ended(pid: int) -> None:
    """Wait until a process that is not a child of ours has ended."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return
        except (FileNotFoundError, ProcessLookupError):
            return
        time.sleep(0.001)
    raise TimeoutError


def tshark(path: Path, *arguments: str) -> str:
    result = subprocess.run(
        ["tshark", "-r", str(path), *arguments], capture_output=True, text=True, check=False
    )
    notes = [line for line in result.stderr.splitlines() if "could be dangerous" not in line]
    assert (result.returncode, notes) == (0, []), result.stderr
    return result.stdout


def tshark_fields(path: Path, *fields: str, only: str = "", decode: str = "") -> list[list[str]]:
    """Return the fields of each packet that passes the display filter ``only``.

    ``decode``: which protocol a port has, as tshark's ``-d`` takes it.
    """
    arguments = ["-T", "fields", "-E", "occurrence=a", "-E", "aggregator=|"]
    arguments += ["-d", decode] if decode else []
    for name in fields:
        arguments += ["-e", name]
    if only:
        arguments += ["-Y", only]
    return [line.split("\t") for line in tshark(path, *arguments).splitlines()]


def tshark_values(path: Path, name: str, only: str = "") -> list[str]:
    """Return all values of one field, in the order of the packets."""
    rows = tshark_fields(path, name, only=only or name)
    return [value for row in rows for value in row[0].split("|") if value]


def http2_steps(requests: int, body: bytes, first_path: str = "") -> list[Step]:
    """Return what passes, seen from the client, when it sends so many requests."""
    client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    steps: list[Step] = []

    def pump() -> None:
        moved = True
        while moved:
            moved = False
            if data := client.data_to_send():
                steps.append((WRITE, data))
                server.receive_data(data)
                moved = True
            if data := server.data_to_send():
                steps.append((READ, data))
                for event in client.receive_data(data):
                    if isinstance(event, h2.events.DataReceived) and event.flow_controlled_length:
                        client.acknowledge_received_data(
                            event.flow_controlled_length, event.stream_id
                        )
                moved = True

    client.initiate_connection()
    server.initiate_connection()
    pump()
    for number in range(requests):
        stream = 2 * number + 1
        client.send_headers(
            stream,
            [
                (":method", "GET"),
                (":path", f"{first_path}/{number}"),
                (":scheme", "https"),
                (":authority", "example.org"),
            ],
            end_stream=True,
        )
        pump()
        server.send_headers(stream, [(":status", "200"), ("x-number", str(number))])
        left = memoryview(body)
        while left:
            size = min(len(left), server.local_flow_control_window(stream), 16384)
            server.send_data(stream, bytes(left[:size]))
            left = left[size:]
            pump()
        server.end_stream(stream)
        pump()
    return steps


def of_connections(source: Iterable[events.Event]) -> list[events.Event]:
    """Return the events of connections: those that do not only say what time it is."""
    return [event for event in source if not isinstance(event, events.TimePassed)]


def events_of(raw: bytes) -> tuple[list[events.Event], ReplaySource]:
    """Return the events of a capture held in memory."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(raw)
        file.flush()
        source = ReplaySource(file.name)
        return of_connections(source), source


def captured(
    steps: list[Step], kind: str = "pcapng", layout: str = "null-tls", **options: object
) -> bytes:
    """Return a capture of one connection, as bytes."""
    file = io.BytesIO()
    taker = Taker(file, kind, layout)
    taker.take(steps, **options)  # type: ignore[arg-type]
    taker.sink.close()
    return file.getvalue()


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: example.org\r\n\r\n".encode()


def post(path: str, body: bytes) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: example.org\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )


def answer(body: bytes, status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Content-Type: application/octet-stream\r\n\r\n".encode() + body


def http1_steps(name: str) -> list[Step]:
    pipelined = answer(b"second") + answer(b"third")
    return [
        (WRITE, get(f"/{name}-1")),
        (READ, answer(BIG)),
        (WRITE, get(f"/{name}-2") + get(f"/{name}-3")),
        (READ, pipelined[:70]),
        (READ, pipelined[70:]),
        (WRITE, post(f"/{name}-4", BIG[:100_000])),
        (READ, answer(b"gone", "404 Not Found")),
    ]


def complaints(path: Path) -> list[str]:
    rows = tshark_fields(path, "frame.number", "_ws.expert.message", only=_WARNING)
    return [row[1] for row in rows if _ON_ENCRYPTED_PORT not in row[1]]
