"""What a capture waits for before it is written, and what becomes of it when writing fails."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sslsniff import decode
from sslsniff.core.errors import OutputError
from sslsniff.core.losses import Loss, LossCause
from sslsniff.core.model import Address, Connection, Peer
from sslsniff.core.sink import Summary
from sslsniff.decoders.messages import Side
from sslsniff.outputs.pcap.capture_writer import HELD_BYTES, PcapSink
from tests.unit.captures import (
    READ,
    WRITE,
    Step,
    Taker,
    answer,
    complaints,
    get,
    http1_steps,
    plaintext,
    replay,
    tshark,
    tshark_fields,
    tshark_values,
    wait_ended,
)


def test_packets_of_pipes_do_not_wait_for_addresses(tmp_path: Path) -> None:
    """They have none: else they would stand two seconds late in the file."""
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    connection = taker.open(addressed=False)
    connection.peer = Peer(8, "python3", ("python3", "files.py"))
    taker.pass_steps(connection, [(WRITE, get("/early"))])
    taker.sink.flush()
    assert b"/early" in path.read_bytes()
    taker.close()


@pytest.mark.heavy
def test_unknown_addresses_become_placeholders(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    for name in ("a", "b"):
        taker.take([(WRITE, get(f"/{name}"))], addressed=False)
    taker.take([(READ, get("/c"))], addressed=False, role=Side.SERVER)
    taker.close()
    rows = tshark_fields(path, "ip.src", "ip.dst", "tcp.dstport", only="http.request")
    assert rows == [[f"192.0.2.{i}", "198.51.100.1", "443"] for i in (1, 2, 3)]
    comments = tshark_values(path, "frame.comment", only="tcp.flags == 0x002")  # of each SYN
    assert len(comments) == 3
    assert all("placeholders (RFC 5737)" in comment for comment in comments)


@pytest.mark.heavy
def test_addresses_that_come_late_are_used_for_all_packets(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    connection = taker.open(addressed=False)
    taker.pass_steps(connection, [(WRITE, get("/early"))])
    taker.sink.flush()
    connection.local = Address("10.1.2.3", 5555)
    connection.remote = Address("10.4.5.6", 443)
    taker.pass_steps(connection, [(READ, answer(b"ok"))])
    taker.end(connection)
    taker.close()
    rows = tshark_fields(path, "ip.src", only="tcp")
    assert {row[0] for row in rows} == {"10.1.2.3", "10.4.5.6"}
    assert tshark_values(path, "http.request.uri") == ["/early"]


def hosts(path: Path) -> list[tuple[str, int, int]]:
    """Return of each exchange in a file: its target, and the ports of client and server."""
    shown = []
    for exchange in decode(path):
        assert exchange.request is not None
        ends = exchange.connection.client, exchange.connection.server
        client, server = (end.port if end is not None else 0 for end in ends)
        shown.append((str(exchange.request.target), client, server))
    return shown


def correct(connection: Connection) -> None:
    """Give a connection other addresses: those of its client and its server."""
    ends = Address("10.1.2.3", 5555), Address("10.4.5.6", 443)
    is_client = connection.role is Side.CLIENT
    connection.local, connection.remote = ends if is_client else ends[::-1]


@pytest.mark.parametrize("role", [Side.CLIENT, Side.SERVER])
def test_addresses_are_corrected(tmp_path: Path, role: Side) -> None:
    """The first ones were those of another connection of the program, which comes later."""
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    sends, receives = (WRITE, READ) if role is Side.CLIENT else (READ, WRITE)
    front = taker.open(role=role, from_start=False)
    wrong = front.local, front.remote
    taker.pass_steps(front, [(sends, get("/1")), (receives, answer(b"ok")), (sends, get("/2"))])
    correct(front)
    taker.pass_steps(front, [(receives, answer(b"ok")), (sends, get("/3"))])
    other = taker.open(role=role)
    other.local, other.remote = wrong
    taker.pass_steps(other, [(sends, get("/other")), (receives, answer(b"ok"))])
    taker.pass_steps(front, [(receives, answer(b"ok"))])
    taker.end(front)
    taker.end(other)
    taker.close()
    first = (40001, 8443)
    assert hosts(path) == [
        ("/1", *first),
        ("/2", 5555, 443),
        ("/other", *first),
        ("/3", 5555, 443),
    ]


@pytest.mark.tools
@pytest.mark.parametrize("role", [Side.CLIENT, Side.SERVER])
def test_addresses_are_corrected_after_the_last_bytes(tmp_path: Path, role: Side) -> None:
    """The exchange is open when the capture ends: a live one reports it with these addresses."""
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    sends, receives = (WRITE, READ) if role is Side.CLIENT else (READ, WRITE)
    connection = taker.open(role=role, from_start=False)
    taker.pass_steps(connection, [(sends, get("/1")), (receives, answer(b"ok")[:-1])])
    correct(connection)
    taker.sink.left_open(connection)
    taker.close()
    assert hosts(path) == [("/1", 5555, 443)]
    [seen] = replay(path)
    assert seen.closed_ns is None
    times = [float(each) for each in tshark_values(path, "frame.time_epoch")]
    assert times == sorted(times)
    assert max(times) == pytest.approx(taker.now_ns / 1e9)


def test_addresses_become_known_after_all_of_a_long_upload(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    connection = taker.open(addressed=False)
    upload = b"POST /up HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % (HELD_BYTES * 2)
    taker.pass_steps(connection, [(WRITE, upload), (WRITE, bytes(HELD_BYTES * 2))])
    connection.local, connection.remote = Address("10.1.2.3", 5555), Address("10.4.5.6", 443)
    taker.pass_steps(connection, [(READ, answer(b"ok"))])
    taker.end(connection)
    taker.close()
    assert hosts(path) == [("/up", 5555, 443)]


def test_what_waits_for_addresses_is_bounded(tmp_path: Path) -> None:
    taker = Taker(tmp_path / "file.pcapng")
    connection = taker.open(addressed=False)
    taker.pass_steps(connection, [(WRITE, bytes(HELD_BYTES))])
    assert taker.sink._held_bytes == HELD_BYTES
    taker.pass_steps(connection, [(WRITE, b"one more")])
    assert taker.sink._held_bytes == 0
    taker.close()


@pytest.mark.tools
@pytest.mark.parametrize(
    ("steps", "client"),
    [
        ([(WRITE, get("/"))], "local"),
        ([(READ, get("/"))], "remote"),
        ([(READ, b"\0\1\2opaque"), (WRITE, answer(b"x"))], "remote"),
        ([(WRITE, b"\0\1\2opaque")], "local"),
        ([(READ, b"\0\1\2opaque")], "remote"),
    ],
)
def test_unknown_role_is_told_by_the_first_bytes(
    tmp_path: Path, steps: list[Step], client: str
) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    connection = taker.take(steps, role=None)
    taker.close()
    first = tshark_fields(path, "tcp.srcport", only="tcp.flags.syn == 1 && tcp.flags.ack == 0")
    assert first == [[str(getattr(connection, client).port)]]
    (seen,) = replay(path)
    assert seen.connection.role is None or seen.connection.role_is_inferred
    assert (seen.connection.local, seen.connection.remote) == (connection.local, connection.remote)


@pytest.mark.heavy
def test_losses_stand_in_the_statistics(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    taker.take(http1_steps("x"))
    taker.sink.summary(Summary(losses=[Loss(LossCause.RING_FULL, 3, 999)]))
    taker.close()
    assert b"Not captured: ring full: 3 times, 999 bytes" in path.read_bytes()
    assert complaints(path) == []


@pytest.mark.heavy
def test_empty_capture_is_readable(tmp_path: Path) -> None:
    for kind in ("pcap", "pcapng"):
        path = tmp_path / f"file.{kind}"
        taker = Taker(path, kind)
        taker.close()
        assert tshark(path) == ""
        assert replay(path) == []


def test_full_disk_is_told_once() -> None:
    with Path("/dev/full").open("wb", buffering=0) as file:
        sink = PcapSink(file)
        with pytest.raises(OutputError, match="cannot write /dev/full: No space left on device"):
            sink.flush()
        sink.flush()
        sink.close()


FULL = """
import resource, sys
from pathlib import Path
from sslsniff.core.errors import OutputError
from sslsniff.destinations.output_files import open_output
from tests.unit.captures import *
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
path = Path(sys.argv[1])
with open_output(path) as file:
    taker = Taker(file, path.suffix[1:])
    connection = taker.open()
    told = 0
    for _ in range(2000):
        try:
            taker.pass_steps(connection, [(WRITE, b"x" * 1000)])
        except OutputError as error:
            told += 1
            print(error)
    taker.sink.close()
assert told == 1, told
"""


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
@pytest.mark.parametrize("room", [1_000_000, 100_001])
def test_file_is_whole_when_the_disk_is_full(kind: str, room: int, tmp_path: Path) -> None:
    path = tmp_path / f"file.{kind}"
    command = [sys.executable, "-c", FULL, str(path), str(room)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"its first {path.stat().st_size} bytes are whole" in out
    assert room - 1200 < path.stat().st_size <= room  # no room for one packet more
    (seen,) = replay(path)
    assert set(plaintext(seen, WRITE)) == {ord("x")}
    tshark(path, "-q")


KILLED = """
import sys
from pathlib import Path
from tests.unit.captures import *
taker = Taker(Path(sys.argv[1]))
connection = taker.open()
while True:
    taker.pass_steps(connection, [(WRITE, b"x" * 1000)])
    taker.sink.flush()
    print("flushed", flush=True)
"""


@pytest.mark.tools
def test_file_is_readable_after_kill(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for _ in range(100):
            process.stdout.readline()
        guards = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(process.pid, signal.SIGKILL)
    for guard in guards:
        wait_ended(int(guard))  # it cuts off half a packet
    (seen,) = replay(path)
    assert len(plaintext(seen, WRITE)) >= 100_000
    assert len(tshark_fields(path, "frame.number", only="tls.app_data")) >= 100


def test_broken_pipe_is_not_an_output_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb", buffering=0) as file:
        sink = PcapSink(file)
        with pytest.raises(BrokenPipeError):
            sink.flush()
        sink.close()


def test_idle_connections_are_written_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    idle = taker.open()
    ended = taker.open()
    taker.end(ended)
    taker.close()
    seen = replay(path)
    assert [each.connection.local for each in seen] == [ended.local, idle.local]
    assert [each.closed_ns is None for each in seen] == [False, True]


@pytest.mark.tools
def test_chunk_of_an_unknown_connection_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    connection = taker.take([(WRITE, get("/"))])
    taker.pass_steps(connection, [(WRITE, get("/late"))])
    taker.end(connection)
    taker.close()
    assert tshark_values(path, "http.request.uri") == ["/"]


@pytest.mark.heavy
def test_chunk_without_bytes_is_no_packet(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    taker.take([(WRITE, get("/")), (READ, b""), (READ, answer(b"x"))])
    taker.close()
    assert len(tshark_values(path, "frame.number", only="tls.app_data")) == 2
    assert complaints(path) == []
