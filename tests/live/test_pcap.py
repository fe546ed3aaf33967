"""Captures as others read them: tshark and scapy find every request and answer, and so do we."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from scapy.contrib.http2 import H2DataFrame, H2HeadersFrame, H2Seq, HPackHdrTable
from scapy.layers.http import HTTPRequest, HTTPResponse
from scapy.layers.inet import IP, TCP
from scapy.packet import Packet
from scapy.utils import PcapReader

from sslsniff.files.packing import BATCH_BYTES
from tests.live.checks import Sniff, assert_passed, assert_whole, read, run_under
from tests.live.sniffer import SSLSNIFF, divided
from tests.unit.captures import tshark, tshark_fields, tshark_values
from tests.workload.curl import Request, curl, gets, results
from tests.workload.passed import EMPTY, Passed, sha256
from tests.workload.processes import PATIENCE_S, held
from tests.workload.python.server import pattern
from tests.workload.servers import Certificate, Server

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Traffic:
    """Two curls, one for each protocol, as one command."""

    def __init__(self, server: Server, certificate: Certificate, folder: Path) -> None:
        self.requests = [
            *gets(12),
            Request("/echo", "POST", pattern(30_000)),
            Request("/bytes/100000"),
            Request("/bytes/0"),
        ]
        self._folders = [folder / "http1", folder / "http2"]
        lines = []
        for version, own in zip(("--http1.1", "--http2"), self._folders, strict=True):
            own.mkdir()
            lines.append(shlex.join(curl(server.url, self.requests, certificate, own, version)))
        self.command = ["sh", "-c", "; ".join(lines)]

    def passed(self, stdout: str) -> list[Passed]:
        lines = stdout.splitlines(keepends=True)
        half = len(lines) // 2
        return [
            each
            for some in (lines[:half], lines[half:])
            for each in results("".join(some), self.requests)
        ]


@pytest.fixture
def traffic(server: Server, certificate: Certificate, tmp_path: Path) -> Traffic:
    return Traffic(server, certificate, tmp_path)


def requests(passed: list[Passed], protocol: str) -> list[tuple[str, str]]:
    return [(each.method, each.target) for each in passed if each.protocol == protocol]


def assert_tshark_agrees(capture: Path, passed: list[Passed]) -> None:
    """Every request and status in order, every body, no complaint."""
    fields = ("http.request.method", "http.request.uri")
    rows = tshark_fields(capture, *fields, only="http.request")
    assert [tuple(row) for row in rows] == requests(passed, "http/1.1")
    fields = ("http2.headers.method", "http2.headers.path")
    rows = tshark_fields(capture, *fields, only="http2.headers.method")
    pairs = [pair for row in rows for pair in zip(*(each.split("|") for each in row), strict=True)]
    assert pairs == requests(passed, "http/2")
    for protocol, field in (("http/1.1", "http.response.code"), ("http/2", "http2.headers.status")):
        statuses = [str(each.status) for each in passed if each.protocol == protocol]
        assert tshark_values(capture, field) == statuses

    nonces = [each.nonce for each in passed if each.protocol == "http/2"]
    assert sorted(set(tshark_values(capture, "http2.header.value")) & set(nonces)) == sorted(nonces)
    objects = capture.with_suffix(".objects")
    tshark(capture, "-q", "--export-objects", f"http,{objects}")
    exported = sorted(sha256(each.read_bytes()) for each in objects.iterdir())
    bodies = [each for one in passed for each in (one.request_sha256, one.response_sha256)]
    assert set(exported) == set(bodies) - {EMPTY}
    assert tshark(capture, "-Y", "_ws.malformed || tcp.analysis.flags") == ""


def streams(capture: Path) -> dict[tuple[tuple[str, int], tuple[str, int]], bytes]:
    """Return what each end sent to the other, put together from scapy's packets."""
    found: dict[tuple[tuple[str, int], tuple[str, int]], dict[int, bytes]] = {}
    with PcapReader(str(capture)) as packets:
        for packet in packets:
            tcp = packet[TCP]
            key = ((packet[IP].src, tcp.sport), (packet[IP].dst, tcp.dport))
            if data := bytes(tcp.payload):
                found.setdefault(key, {})[tcp.seq] = data
    return {
        key: b"".join(data for _, data in sorted(parts.items())) for key, parts in found.items()
    }


def http1_messages(kind: type[Packet], data: bytes) -> list[tuple[Packet, bytes]]:
    """Return the messages of one direction, with their bodies, as scapy reads them."""
    found = []
    while data:
        message = kind(data)
        rest = bytes(message.payload)
        size = int(message.Content_Length or 0)
        found.append((message, rest[:size]))
        data = rest[size:]
    return found


def http2_messages(data: bytes) -> list[tuple[dict[str, str], bytes]]:
    """Return the messages of one direction in the order of their streams, as scapy reads them."""
    table = HPackHdrTable()
    headers: dict[int, dict[str, str]] = {}
    bodies: dict[int, bytes] = {}
    for frame in H2Seq(data.removeprefix(PREFACE)).frames:
        if frame.type == H2HeadersFrame.type_id:
            lines = table.gen_txt_repr(frame).splitlines()
            pairs = (re.fullmatch(r"(:?[^:\s]+):? (.*)", line) for line in lines)
            headers[frame.stream_id] = {pair[1]: pair[2] for pair in pairs if pair}
        elif frame.type == H2DataFrame.type_id:
            bodies[frame.stream_id] = bodies.get(frame.stream_id, b"") + bytes(frame.payload)
    return [(headers[stream], bodies.get(stream, b"")) for stream in sorted(headers)]


def assert_scapy_agrees(capture: Path, passed: list[Passed]) -> None:
    """The same of a capture in plain layout, by scapy's own HTTP/1 and HTTP/2."""
    found = streams(capture)
    ends = {(each.client, each.server): each.protocol for each in passed}
    assert set(found) == set(ends) | {(server, client) for client, server in ends}
    seen = []
    for (client, server), protocol in ends.items():
        sent, got = found[client, server], found[server, client]
        if protocol == "http/1.1":
            asked = [
                (one.Method.decode(), one.Path.decode(), sha256(body))
                for one, body in http1_messages(HTTPRequest, sent)
            ]
            told = [
                (int(one.Status_Code), sha256(body))
                for one, body in http1_messages(HTTPResponse, got)
            ]
        else:
            asked = [
                (one[":method"], one[":path"], sha256(body)) for one, body in http2_messages(sent)
            ]
            told = [(int(one[":status"]), sha256(body)) for one, body in http2_messages(got)]
        seen += [(protocol, *one, *two) for one, two in zip(asked, told, strict=True)]
    assert seen == [
        (
            *(each.protocol, each.method, each.target, each.request_sha256),
            *(each.status, each.response_sha256),
        )
        for each in passed
    ]


def test_with_json(traffic: Traffic, tmp_path: Path) -> None:
    """A capture and JSON lines of the same run; the capture read again says the same."""
    capture, plain = tmp_path / "capture.pcapng", tmp_path / "plain.pcap"
    ran = run_under(tmp_path, *traffic.command, options=("--pcap", str(capture)))
    passed = traffic.passed(ran.stdout.decode())
    assert len(passed) == 30
    assert_passed(ran.captured, passed, role="client")
    assert_whole(ran.captured)

    again = read(capture, "--pcap", plain, "--pcap-layout", "plain", "--print")
    assert again.exchanges == ran.captured.exchanges
    assert again.of("connection") == ran.captured.of("connection")
    # What a capture file does not tell.
    assert ran.captured.summary.pop("not_probed") == []
    assert ran.captured.summary.pop("handshakes") == ran.captured.summary["connections"]
    assert again.summary == ran.captured.summary
    assert_tshark_agrees(capture, passed)
    assert_scapy_agrees(plain, passed)


def test_capture_only(traffic: Traffic, tmp_path: Path) -> None:
    """Nothing is decoded while it runs; a classic pcap tells all but the process."""
    capture = tmp_path / "capture.pcap"
    done = subprocess.run(
        [SSLSNIFF, "--pcap", capture, "--", *traffic.command],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
    )
    passed = traffic.passed(done.stdout)
    assert done.returncode == 0
    said, _ = divided(done.stderr)
    assert re.fullmatch(r"2 connections, .* of plaintext in .*, 0 bytes lost\n", said)

    assert_passed(read(capture), passed, role="client", library="unknown")
    assert_tshark_agrees(capture, passed)


def test_both_ends(server: Server, certificate: Certificate, tmp_path: Path, sniff: Sniff) -> None:
    """Client and server of the same connections are watched: each keeps its own."""
    capture = tmp_path / "capture.pcapng"
    asked = gets(6)
    process = held(curl(server.url, asked, certificate, tmp_path))
    pids = ("--pid", str(process.pid), "--pid", str(server.pid))
    with sniff(*pids, "--pcap", str(capture)) as sniffer:
        passed = results(process.communicate("go\n", PATIENCE_S)[0], asked)
        sniffer.until(12)
        live = sniffer.stop()
    for captured in (live, read(capture)):
        assert_passed(captured, passed, role="client", pid=process.pid)
        assert_passed(captured, passed, role="server", pid=server.pid)
        assert_whole(captured)
    assert tshark(capture, "-Y", "_ws.malformed || tcp.analysis.flags") == ""


@pytest.mark.parametrize("decodes", [False, True], ids=["pcap alone", "with lines"])
def test_the_newest_files_have_the_last_exchanges(
    server: Server, certificate: Certificate, tmp_path: Path, decodes: bool
) -> None:
    """A capture in further files at full speed, whose records are written in C, or decoded."""
    kept, size = 3, 4 << 20
    requests = [Request(f"/bytes/{100_000 + number}") for number in range(300)]
    command = curl(server.url, requests, certificate, tmp_path, "--http1.1")
    options = ["--pcap", "out.pcapng", "--pcap-size", "4M", "--pcap-files", str(kept)]
    options += ["--json", "-o", "lines.jsonl"] if decodes else []
    done = subprocess.run(
        [SSLSNIFF, *options, "--", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert "0 bytes lost" in done.stderr or decodes
    files = sorted(tmp_path.glob("out_*.pcapng"))
    numbers = [int(each.stem.partition("_")[2]) for each in files]
    assert numbers[0] > 4
    assert numbers == [*range(numbers[0], numbers[0] + kept)]
    assert sum(each.stat().st_size for each in files) <= kept * size
    targets = [f"/bytes/{100_000 + number}" for number in range(300)]
    found = []
    for each in files:
        found += tshark_values(each, "http.request.uri")
        lost = "tcp.analysis.lost_segment || tcp.analysis.ack_lost_segment"
        assert tshark_fields(each, "frame.number", only=lost) == []
        assert read(each).summary["lost_bytes"] == 0
    assert found == targets[-len(found) :]
    free = BATCH_BYTES + (256 << 10)  # what a batch may need stays free in a file
    assert all(each.stat().st_size > size - free for each in files[:-1])
    assert len(found) > (kept - 1) * (size - free) // 110_000


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_only_what_is_around_a_failure(
    server: Server, certificate: Certificate, tmp_path: Path, version: str
) -> None:
    """Lines and file have one of 40 exchanges of a connection, and two on each side of it."""
    requests = [Request(f"/bytes/{5000 + number}") for number in range(40)]
    command = curl(server.url, requests, certificate, tmp_path, version)
    capture = tmp_path / "out.pcapng"
    options = ["--around", "2", "~u /bytes/5020", "--pcap", str(capture)]
    captured = run_under(tmp_path, *command, options=options).captured
    sizes = [*range(5018, 5023)]
    targets = [each["request"]["target"] for each in captured.exchanges]
    assert targets == [f"/bytes/{size}" for size in sizes]
    assert (captured.summary["shown"], captured.summary["exchanges"]) == (5, 40)
    assert capture.stat().st_size < 5 * 5000 + 10_000
    back = read(capture)
    assert_whole(back)
    assert [each["response"]["body"]["size"] for each in back.exchanges] == sizes
    field = "http2.headers.status" if version == "--http2" else "http.response.code"
    assert tshark_values(capture, field) == ["200"] * 5
    assert tshark_values(capture, "tcp.analysis.lost_segment") == []
