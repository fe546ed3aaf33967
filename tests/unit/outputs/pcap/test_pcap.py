"""Captures as tshark and scapy see them."""

import hashlib
import itertools
from collections import Counter
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.utils import PcapNgReader, PcapReader

from sslsniff.core.process import Process
from sslsniff.decoders.messages import Side
from tests.unit.captures import (
    BIG,
    READ,
    RESPONSE,
    WRITE,
    Step,
    Taker,
    answer,
    complaints,
    get,
    http1_steps,
    http2_steps,
    plaintext,
    replay,
    tshark,
    tshark_fields,
    tshark_values,
)

PORTS = (80, 443, 8443, 12345)


def mirrored(steps: list[Step]) -> list[Step]:
    return [(READ if direction is WRITE else WRITE, what) for direction, what in steps]


LAYOUTS = [(kind, layout) for kind in ("pcapng", "pcap") for layout in ("null-tls", "plain")]


@pytest.mark.tools
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


@pytest.mark.tools
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


@pytest.mark.tools
def test_ip_checksums_are_right(tmp_path: Path) -> None:
    path = tmp_path / "file.pcap"
    taker = Taker(path, "pcap")
    for ip in ("255.255.255.254", "1.2.3.4", "192.168.77.201"):
        taker.take(http1_steps("x"), ip=ip)
    taker.close()
    out = tshark(path, "-o", "ip.check_checksum:TRUE", "-T", "fields", "-e", "ip.checksum.status")
    assert set(out.split()) == {"1"}


@pytest.mark.heavy
def test_long_transfer_in_one_direction_is_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    body = bytes(12 << 20)
    taker.take([(WRITE, get("/long")), (READ, answer(body))])
    taker.close()
    assert tshark_fields(path, "frame.number", only="tcp.analysis.flags") == []
    assert complaints(path) == []


@pytest.mark.heavy
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
    made_up = [each for each in comments if each.startswith("made up by sslsniff")]
    assert (len(comments), len(made_up)) == (6, 4)  # both ends of both connections
    snis = tshark_values(path, "tls.handshake.extensions_server_name")
    assert snis == ["host1.example.org", "host2.example.org"]
    assert tshark_values(path, "tls.handshake.extensions_alpn_str") == ["http/1.1"] * 2


@pytest.mark.heavy
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


@pytest.mark.heavy
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


@pytest.mark.heavy
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


@pytest.mark.heavy
def test_one_direction_ends_before_the_other(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    connection = taker.open()
    answer_until_end = b"HTTP/1.0 200 OK\r\n\r\nto the end"
    taker.pass_steps(connection, [(WRITE, get("/a")), (READ, answer_until_end)])
    taker.end_direction(connection, READ)
    ended_ns = taker.now_ns
    taker.pass_steps(connection, [(WRITE, get("/b"))])
    taker.end(connection)
    taker.close()
    [seen] = replay(path)
    assert seen.ended_ns[READ] == ended_ns
    assert (plaintext(seen, WRITE), plaintext(seen, READ)) == (
        get("/a") + get("/b"),
        answer_until_end,
    )
    assert tshark_values(path, "tcp.srcport", only="tcp.flags.fin == 1") == [
        "8443",
        str(connection.local.port),  # type: ignore[union-attr]
    ]
    assert complaints(path) == []
    assert tshark(path, "-Y", "tcp.analysis.flags") == ""


@pytest.mark.heavy
def test_bytes_behind_an_end_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    connection = taker.open()
    taker.pass_steps(connection, [(WRITE, get("/a")), (READ, answer(b"a"))])
    taker.end_direction(connection, READ)
    taker.pass_steps(connection, [(READ, answer(b"b"))])
    taker.end(connection)
    taker.close()
    [seen] = replay(path)
    assert plaintext(seen, READ) == answer(b"a") + answer(b"b")
    assert complaints(path) == []


BODY = b"tail of a body " * 1000


@pytest.mark.heavy
@pytest.mark.parametrize(
    "before",
    [[(READ, BODY)], [(READ, BODY)] * 20, [(READ, BODY)] * 20 + [(READ, 2 << 20), (READ, BODY)]],
    ids=["a piece", "more than are looked at", "a long gap behind these"],
)
@pytest.mark.parametrize("layout", ["null-tls", "plain"])
def test_http1_joined_in_the_middle_of_a_body(
    tmp_path: Path, layout: str, before: list[Step]
) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path, layout=layout)
    taker.take([*before, *http1_steps("joined")], from_start=False)
    taker.close()
    assert tshark_values(path, "http.request.uri") == [f"/joined-{i}" for i in (1, 2, 3, 4)]
    assert tshark_values(path, "http.response.code") == ["200", "200", "200", "404"]
    assert complaints(path) == []
    (seen,) = replay(path)
    gone = [bytes(piece) for _, piece in before]  # zeros in the place of what was lost
    assert plaintext(seen, READ).startswith(b"".join(gone) + b"HTTP/1.1 200")


@pytest.mark.heavy
def test_message_is_found_where_the_sides_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    tails: list[Step] = [*[(READ, BODY)] * 20, (WRITE, BODY)]
    taker.take([*tails, (READ, RESPONSE), *http1_steps("next")], from_start=False)
    taker.close()
    assert tshark_values(path, "http.response.code") == ["200", "200", "200", "200", "404"]
    assert complaints(path) == []


@pytest.mark.heavy
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


@pytest.mark.heavy
def test_http2_is_recognised_by_its_preface_where_alpn_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    taker.take(http2_steps(2, b"x"), alpn=None)
    taker.close()
    assert tshark_values(path, "http2.headers.path") == ["/0", "/1"]
    (seen,) = replay(path)
    assert seen.connection.alpn is None


@pytest.mark.heavy
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
