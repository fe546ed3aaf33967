"""Captures as tshark and scapy see them, and what becomes of them when writing fails."""

import hashlib
import itertools
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.utils import PcapNgReader, PcapReader

from sslsniff.decoders.messages import Side
from sslsniff.errors import OutputError
from sslsniff.model import Address, Loss, LossCause, Process, Summary
from sslsniff.sinks.pcap import HELD_BYTES, PcapSink
from tests.unit.captures import (
    READ,
    WRITE,
    Step,
    Taker,
    http2_steps,
    plaintext,
    replay,
    tshark,
    tshark_fields,
    tshark_values,
)

PORTS = (80, 443, 8443, 12345)
BIG = bytes(range(256)) * 4096  # 1 MiB
WARNING = "_ws.expert.severity >= 0x600000 || _ws.malformed"
ON_ENCRYPTED_PORT = "Unencrypted HTTP"  # what tshark rightly says of plaintext on port 443


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


def mirrored(steps: list[Step]) -> list[Step]:
    return [(READ if direction is WRITE else WRITE, what) for direction, what in steps]


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
    rows = tshark_fields(path, "frame.number", "_ws.expert.message", only=WARNING)
    return [row[1] for row in rows if ON_ENCRYPTED_PORT not in row[1]]


LAYOUTS = [(kind, layout) for kind in ("pcapng", "pcap") for layout in ("null-tls", "plain")]


@pytest.mark.parametrize(("kind", "layout"), LAYOUTS)
def test_tshark_shows_every_http1_exchange(tmp_path: Path, kind: str, layout: str) -> None:
    path = tmp_path / f"file.{kind}"
    taker = Taker(path, kind, layout)
    expected = []
    for ip, port in itertools.product(("192.0.2.7", "2001:db8::7"), PORTS):
        name = f"{port}{'v6' if ':' in ip else 'v4'}"
        connection = taker.take(http1_steps(name), port, ip=ip)
        expected += [
            [ip, str(connection.local.port), str(port), f"/{name}-{i}"]  # type: ignore[union-attr]
            for i in (1, 2, 3, 4)
        ]
    taker.close()
    rows = tshark_fields(
        path,
        "ip.src",
        "ipv6.src",
        "tcp.srcport",
        "tcp.dstport",
        "http.request.uri",
        only="http.request",
    )
    seen = [
        [v4 or v6, source, destination, uri]
        for v4, v6, source, destination, uris in rows
        for uri in uris.split("|")
    ]
    assert seen == expected
    statuses = tshark_values(path, "http.response.code")
    assert Counter(statuses) == {"200": 3 * 8, "404": 8}
    assert complaints(path) == []

    exported = tmp_path / "objects"
    tshark(path, "-q", "--export-objects", f"http,{exported}")
    objects = Counter(hashlib.md5(file.read_bytes()).hexdigest() for file in exported.iterdir())
    bodies = (BIG, b"second", b"third", BIG[:100_000], b"gone")
    assert objects == {hashlib.md5(body).hexdigest(): 8 for body in bodies}


@pytest.mark.parametrize(("kind", "layout"), LAYOUTS)
def test_tshark_shows_every_http2_exchange(tmp_path: Path, kind: str, layout: str) -> None:
    path = tmp_path / f"file.{kind}"
    taker = Taker(path, kind, layout)
    # Plaintext HTTP/2 elsewhere is recognised only by newer versions than 4.0.
    ports = PORTS if layout == "null-tls" else (80, 8080)
    body = BIG[:50_000]
    for ip, port in itertools.product(("192.0.2.7", "2001:db8::7"), ports):
        taker.take(http2_steps(5, body, f"/{port}"), port, ip=ip, alpn="h2")
    server = http2_steps(5, body, "/server")
    taker.take(mirrored(server), ports[0], alpn="h2", role=Side.SERVER)
    taker.close()
    expected = [f"/{port}/{i}" for _ in "46" for port in ports for i in range(5)]
    expected += [f"/server/{i}" for i in range(5)]
    assert tshark_values(path, "http2.headers.path") == expected
    assert tshark_values(path, "http2.headers.status") == ["200"] * len(expected)
    assert complaints(path) == []
    # tshark shows each frame's data, and with the last frame all that a stream carried.
    whole: dict[tuple[str, str], str] = {}
    fields = ("tcp.stream", "http2.streamid", "http2.data.data")
    for stream, ids, pieces in tshark_fields(path, *fields, only="http2.data.data"):
        whole[stream, ids.split("|")[0]] = max(pieces.split("|"), key=len)
    data = {key: bytes.fromhex(text) for key, text in whole.items()}
    assert len(data) == len(expected)
    assert set(data.values()) == {body}


def payloads(path: Path, kind: str) -> dict[tuple[str, int, str, int], bytes]:
    """Return what scapy sees in each direction, checking sequence and acknowledgement."""
    streams: dict[tuple[str, int, str, int], bytearray] = {}
    following: dict[tuple[str, int, str, int], int] = {}
    reader = PcapNgReader if kind == "pcapng" else PcapReader
    with reader(str(path)) as packets:
        for packet in packets:
            ip = packet[IP] if IP in packet else packet[IPv6]
            tcp = packet[TCP]
            key = (ip.src, tcp.sport, ip.dst, tcp.dport)
            back = (ip.dst, tcp.dport, ip.src, tcp.sport)
            data = bytes(tcp.payload)
            if "S" in tcp.flags:
                streams.setdefault(key, bytearray())
            else:
                assert tcp.seq == following[key]
            if "A" in tcp.flags:
                assert tcp.ack == following[back]
            taken = len(data) + ("S" in tcp.flags) + ("F" in tcp.flags)
            following[key] = (tcp.seq + taken) % 2**32
            streams[key] += data
    return {key: bytes(data) for key, data in streams.items()}


def records(stream: bytes) -> bytes:
    """Return the application data of TLS records without what stands for their MACs."""
    plain = b""
    while stream:
        kind, size = stream[0], int.from_bytes(stream[3:5])
        if kind == 23:
            assert stream[5 + size - 16 : 5 + size] == bytes(16)
            assert size <= 16384 + 16
            plain += stream[5 : 5 + size - 16]
        stream = stream[5 + size :]
    return plain


@pytest.mark.parametrize(("kind", "layout"), LAYOUTS)
@pytest.mark.parametrize("ip", ["192.0.2.7", "2001:db8::7"])
def test_scapy_reads_every_byte(tmp_path: Path, kind: str, layout: str, ip: str) -> None:
    path = tmp_path / f"file.{kind}"
    taker = Taker(path, kind, layout)
    steps = http1_steps("x")
    connection = taker.take(steps, ip=ip)
    taker.close()
    streams = payloads(path, kind)
    local, remote = connection.local, connection.remote
    assert local
    assert remote
    unwrap = records if layout == "null-tls" else bytes
    for direction, key in ((WRITE, (*local, *remote)), (READ, (*remote, *local))):
        passed = b"".join(what for d, what in steps if d is direction and isinstance(what, bytes))
        assert unwrap(streams[key]) == passed


def test_ip_checksums_are_right(tmp_path: Path) -> None:
    path = tmp_path / "file.pcap"
    taker = Taker(path, "pcap")
    for ip in ("255.255.255.254", "1.2.3.4", "192.168.77.201"):
        taker.take(http1_steps("x"), ip=ip)
    taker.close()
    out = tshark(path, "-o", "ip.check_checksum:TRUE", "-T", "fields", "-e", "ip.checksum.status")
    assert set(out.split()) == {"1"}


def test_long_transfer_in_one_direction_is_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    body = bytes(12 << 20)
    taker.take([(WRITE, get("/long")), (READ, answer(body))])
    taker.close()
    assert tshark_fields(path, "frame.number", only="tcp.analysis.flags") == []
    assert complaints(path) == []


def test_comments_and_interfaces_name_the_process(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    first = taker.open(process=Process(1234, "curl", 1000))
    second = taker.open(process=Process(77, "python3", 0), role=Side.SERVER, alpn=None)
    taker.pass_steps(first, [(WRITE, get("/a"))])
    taker.pass_steps(second, [(READ, get("/b")), (WRITE, answer(b"x"))])
    taker.end(second)
    taker.end(first)
    taker.close()
    rows = tshark_fields(
        path,
        "http.request.uri",
        "frame.interface_name",
        "frame.packet_flags_direction",
        only="http.request",
    )
    assert rows == [
        ["/a", "curl[1234]", "0x00000002"],  # outbound
        ["/b", "python3[77]", "0x00000001"],  # inbound
    ]
    comments = tshark_values(path, "frame.comment")
    assert "curl[1234], connection 1234-1, client by libssl.so.3, TLS 1.3" in comments[0]
    assert '"connection": "1234-1"' in comments[0]
    assert "python3[77], connection 1234-2, server by libssl.so.3" in comments[1]
    assert len(comments) == 2
    snis = tshark_values(path, "tls.handshake.extensions_server_name")
    assert snis == ["host1.example.org", "host2.example.org"]
    assert tshark_values(path, "tls.handshake.extensions_alpn_str") == ["http/1.1"] * 2


def test_times_are_those_of_the_chunks(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    connection = taker.open()
    opened_ns = taker.now_ns
    taker.pass_steps(connection, [(WRITE, get("/"))])
    request_ns = taker.now_ns
    taker.end(connection)
    taker.close()
    times = tshark_values(path, "frame.time_epoch", only="tcp")
    as_ns = [int(time.replace(".", "")) for time in times]
    assert as_ns[0] == opened_ns
    assert request_ns in as_ns
    assert as_ns[-1] == taker.now_ns


@pytest.mark.parametrize("layout", ["null-tls", "plain"])
def test_gap_is_filled_with_zeros_and_told(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path, layout=layout)
    whole = answer(BIG[:100_000])
    steps: list[Step] = [
        (WRITE, get("/gap")),
        (READ, whole[:20_000]),
        (READ, 50_000),
        (READ, whole[70_000:]),
        (WRITE, get("/after")),
        (READ, answer(b"ok", "204 No Content")),
    ]
    taker.take(steps)
    taker.close()
    assert tshark_values(path, "http.request.uri") == ["/gap", "/after"]
    assert tshark_values(path, "http.response.code") == ["200", "204"]
    assert complaints(path) == []
    comments = tshark_values(path, "frame.comment")
    assert sum("50000 bytes were not captured (ring full)" in text for text in comments) == 4
    exported = tmp_path / "objects"
    tshark(path, "-q", "--export-objects", f"http,{exported}")
    head = whole.index(b"\r\n\r\n") + 4
    filled = whole[head:20_000] + bytes(50_000) + whole[70_000:]
    assert (exported / "gap").read_bytes() == filled


def test_long_gap_begins_a_new_synthetic_connection(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    steps: list[Step] = [
        (WRITE, get("/before")),
        (READ, answer(BIG)[:1000]),
        (READ, 5_000_000),
        (READ, b"rest of a body"),
        (WRITE, get("/after")),
        (READ, answer(b"ok", "204 No Content")),
    ]
    taker.take(steps)
    taker.close()
    assert path.stat().st_size < 20_000
    assert tshark_values(path, "http.request.uri") == ["/before", "/after"]
    assert tshark_values(path, "http.response.code", only="http.response.code == 204") == ["204"]
    comments = tshark_values(path, "frame.comment")
    assert any("5000000 bytes before it were not captured (ring full)" in c for c in comments)
    assert complaints(path) == []


@pytest.mark.parametrize("layout", ["null-tls", "plain"])
def test_http1_joined_in_the_middle_of_a_body(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path, layout=layout)
    steps: list[Step] = [(READ, b"tail of a body " * 1000), *http1_steps("joined")]
    taker.take(steps, from_start=False)
    taker.close()
    assert tshark_values(path, "http.request.uri") == [f"/joined-{i}" for i in (1, 2, 3, 4)]
    assert tshark_values(path, "http.response.code") == ["200", "200", "200", "404"]
    assert complaints(path) == []
    (seen,) = replay(path)
    assert plaintext(seen, READ).startswith(b"tail of a body " * 1000 + b"HTTP/1.1 200")


@pytest.mark.parametrize("alpn", ["h2", None])
@pytest.mark.parametrize(("layout", "port"), [("null-tls", 8443), ("plain", 80)])
def test_http2_joined_without_its_preface(
    tmp_path: Path, layout: str, port: int, alpn: str | None
) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path, layout=layout)
    steps = http2_steps(4, b"body")
    first = next(i for i, (d, what) in enumerate(steps) if d is READ and what[3] == 1)  # type: ignore[index]
    taker.take(steps[first + 1 :], port, from_start=False, alpn=alpn)
    taker.close()
    assert tshark_values(path, "http2.headers.path") == ["/1", "/2", "/3"]
    assert complaints(path) == []
    (seen,) = replay(path)
    written = b"".join(what for d, what in steps[first + 1 :] if d is WRITE)  # type: ignore[misc]
    assert plaintext(seen, WRITE) == written


def test_http2_is_recognised_by_its_preface_where_alpn_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    taker.take(http2_steps(2, b"x"), alpn=None)
    taker.close()
    assert tshark_values(path, "http2.headers.path") == ["/0", "/1"]
    (seen,) = replay(path)
    assert seen.connection.alpn is None


def test_websocket_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    upgrade = b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
    request = b"GET /ws HTTP/1.1\r\nHost: h\r\n" + upgrade
    request += b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    accepted = b"HTTP/1.1 101 Switching Protocols\r\n" + upgrade
    accepted += b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
    taker.take([(WRITE, request), (READ, accepted), (READ, b"\x81\x05hello")])
    taker.close()
    assert tshark_values(path, "websocket.payload.text", only="websocket") == ["hello"]


def test_unknown_addresses_become_placeholders(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    for name in ("a", "b"):
        taker.take([(WRITE, get(f"/{name}"))], addressed=False)
    taker.take([(READ, get("/c"))], addressed=False, role=Side.SERVER)
    taker.close()
    rows = tshark_fields(path, "ip.src", "ip.dst", "tcp.dstport", only="http.request")
    assert rows == [[f"192.0.2.{i}", "198.51.100.1", "443"] for i in (1, 2, 3)]
    comments = tshark_values(path, "frame.comment")
    assert all("placeholders (RFC 5737)" in comment for comment in comments)


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


def test_what_waits_for_addresses_is_bounded(tmp_path: Path) -> None:
    taker = Taker(tmp_path / "file.pcapng")
    connection = taker.open(addressed=False)
    taker.pass_steps(connection, [(WRITE, bytes(HELD_BYTES))])
    assert taker.sink._held_bytes == HELD_BYTES
    taker.pass_steps(connection, [(WRITE, b"one more")])
    assert taker.sink._held_bytes == 0
    taker.close()


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
    assert seen.connection.role is None
    assert (seen.connection.local, seen.connection.remote) == (connection.local, connection.remote)


def test_losses_stand_in_the_statistics(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    taker.take(http1_steps("x"))
    taker.sink.summary(Summary(losses=[Loss(LossCause.RING_FULL, 3, 999)]))
    taker.close()
    assert b"Not captured: ring full: 3 times, 999 bytes" in path.read_bytes()
    assert complaints(path) == []


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
from sslsniff.errors import OutputError
from sslsniff.output import open_output
from tests.unit.captures import *
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
path = Path(sys.argv[1])
with open_output(path) as file:
    taker = Taker(file)
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


def test_file_is_whole_when_the_disk_is_full(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    out = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True
    ).stdout
    assert f"its first {path.stat().st_size} bytes are whole" in out
    assert 700_000 < path.stat().st_size <= 1_000_000
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


def test_file_is_readable_after_kill(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for _ in range(100):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
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


def test_chunk_of_an_unknown_connection_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    connection = taker.take([(WRITE, get("/"))])
    taker.pass_steps(connection, [(WRITE, get("/late"))])
    taker.end(connection)
    taker.close()
    assert tshark_values(path, "http.request.uri") == ["/"]


def test_chunk_without_bytes_is_no_packet(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    taker.take([(WRITE, get("/")), (READ, b""), (READ, answer(b"x"))])
    taker.close()
    assert len(tshark_values(path, "frame.number", only="tls.app_data")) == 2
    assert complaints(path) == []
