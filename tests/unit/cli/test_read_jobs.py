"""``sslsniff read --jobs N`` writes what one process writes, in the same order."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from scapy.layers.inet import IP, TCP, fragment
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import wrpcap

from tests.unit.captures import (
    READ,
    WRITE,
    Step,
    Taker,
    answer,
    get,
    http1_steps,
    http2_steps,
)
from tests.unit.files.foreign import FAR, NEAR, Wire
from tests.unit.outputs.report.many import write_many

SSLSNIFF = Path(sys.executable).with_name("sslsniff")
PCAPS = [*sorted((Path(__file__).parents[3] / "pcaps").glob("*.pcapng"))]
FORMS = [
    [],
    ["-v"],
    ["-vv", "--color", "always"],
    ["--json"],
    ["--json", "--frames", "--chunks"],
    ["--frames", "--stream", "1"],
    ["--hexdump"],
    ["--quiet"],
    ["~u item"],
    ["--json", "--frames", "~c 200"],
]

# HTTP/2: the client's windows have room for no byte of the body (RFC 9113 section 6.5.2).
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = bytes.fromhex("000000040000000000")
HEADERS_200 = bytes.fromhex("00000101040000000188")


def read(path: Path, *options: str, jobs: int) -> tuple[int, bytes, bytes]:
    """Return the exit code, standard output and standard error."""
    command: list[str | Path] = [SSLSNIFF, "read", path, "--jobs", str(jobs), *options]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


def stalled(size: int = 65_535) -> list[Step]:
    """Return an HTTP/2 connection whose server has sent all that the windows allow."""
    frames = [(READ, b"\x00\x40\x00\x00\x00\x00\x00\x00\x01" + bytes(0x4000)) for _ in range(3)]
    rest = size - 3 * 0x4000
    frames.append((READ, rest.to_bytes(3) + b"\x00\x00\x00\x00\x00\x01" + bytes(rest)))
    request = bytes.fromhex("000003010500000001828684")
    return [(WRITE, PREFACE + SETTINGS + request), (READ, SETTINGS + HEADERS_200), *frames]


def kinds(random: Random) -> list[Callable[[], list[Step]]]:
    """Return what makes the steps of connections of several protocols."""
    return [
        lambda: [(WRITE, get(f"/items/{random.randrange(9)}")), (READ, answer(b"yes"))] * 3,
        lambda: http1_steps("a"),
        lambda: http2_steps(2, random.randbytes(3_000)),
        lambda: stalled(),
        lambda: [(side, random.randbytes(20)) for side in (WRITE, READ, WRITE)],
        lambda: [(WRITE, b"\x16\x03\x01\x00\x40" + bytes(64)), (READ, b"\x16\x03\x03\x00\x08")],
        lambda: [(WRITE, get("/never-answered"))],
    ]


def packets_of(random: Random, port: int) -> Iterator[Packet]:
    """Yield the packets of a connection: damaged, joined, cut off or left open, as it comes."""
    wire = Wire()
    if random.random() < 0.8:
        wire.handshake()
    of_each = kinds(random)
    for step, data in (of_each[port] if port < len(of_each) else random.choice(of_each))():
        assert isinstance(data, bytes)
        for start in range(0, len(data), 1400):
            wire.send(NEAR if step is WRITE else FAR, data[start : start + 1400])
    if random.random() < 0.6 and port >= len(of_each):
        wire.end()
    elif random.random() < 0.5:
        wire.send(FAR, flags="R")
    for packet in wire.packets:
        packet[TCP].sport += port if packet[TCP].dport == FAR[1] else 0
        packet[TCP].dport += port if packet[TCP].sport == FAR[1] else 0
        chance = random.random()
        if chance < 0.03:
            continue
        if chance < 0.06:
            yield from fragment(packet, 400)  # type: ignore[no-untyped-call]
        else:
            yield packet


def mixed(path: Path, seed: int) -> Path:
    """Write a capture of many connections at once, over some seconds."""
    random = Random(seed)
    connections = [packets_of(random, port) for port in range(40)]
    packets: list[Packet] = []
    time = 1_700_000_000.0
    while connections:
        connection = random.choice(connections[: random.choice((3, 40))])
        time += random.choice((0, 0, 0.0001, 0.02, 0.3 if random.random() < 0.1 else 0))
        for packet in (next(connection, None) for _ in range(random.randrange(4))):
            if packet is None:
                connections.remove(connection)
                break
            packet.time = time
            packets.append(packet)
    for packet in (Ether() / IPv6(dst="2001:db8::1", nh=50), Ether() / IP(proto=50)):
        packet.time = time
        packet.src = packet.dst = "02:00:00:00:00:01"
    wrpcap(str(path), packets)
    return path


@pytest.mark.measured
@pytest.mark.parametrize("seed", range(2))
def test_many_connections(seed: int, tmp_path: Path) -> None:
    capture = mixed(tmp_path / "mixed.pcap", seed)
    for form in FORMS:
        alone = read(capture, *form, jobs=1)
        assert alone[0] == 0
        for jobs in (2, 3):
            assert read(capture, *form, jobs=jobs) == alone, form
    lines = read(capture, "--json", "--frames", jobs=2)[1]
    for kind in (b'"wait"', b'"undecoded"', b'"loss"', b'"exchange"', b'"capture ended"'):
        assert kind in lines


@pytest.mark.heavy
@pytest.mark.parametrize("capture", PCAPS, ids=lambda path: path.stem)
def test_own_captures(capture: Path) -> None:
    for form in ([], ["--json", "--frames", "--chunks"]):
        assert read(capture, *form, jobs=3) == read(capture, *form, jobs=1)


@pytest.mark.heavy
@pytest.mark.parametrize("layout", ["plain", "null-tls"])
def test_connections_with_several_parts(layout: str, tmp_path: Path) -> None:
    """A loss ends a TCP connection of the file; the connection goes on with other ports."""
    path = tmp_path / "own.pcapng"
    taker = Taker(path, layout=layout)
    opened = [taker.open() for _ in range(8)]
    for number, connection in enumerate(opened):
        steps: list[Step] = [(WRITE, get(f"/{number}")), (READ, answer(b"a"))]
        taker.pass_steps(
            connection, [*steps, (READ, 3_000_000_000), (WRITE, 3_000_000_000), *steps]
        )
    for connection in opened[:4]:
        taker.end(connection)
    taker.close()
    for form in ([], ["--json", "--frames", "--chunks"]):
        assert read(path, *form, jobs=3) == read(path, *form, jobs=1)


@pytest.mark.heavy
def test_what_only_one_process_can_do(tmp_path: Path) -> None:
    for options, said in (
        (["--har", str(tmp_path / "a.har")], b"leave out --har"),
        (["--redact"], b"leave out --redact"),
        (["--stats"], b"leave out --stats"),
    ):
        code, _, error = read(PCAPS[0], *options, jobs=2)
        assert (code, error.splitlines()[-1].endswith(said)) == (2, True)
    code, _, error = read(Path("-"), jobs=2)
    assert code == 2
    assert b"--jobs needs a file" in error
    code, _, error = read(tmp_path / "none", jobs=2)
    assert (code, error.count(b"\n")) == (1, 1)
    assert not (tmp_path / "a.har").exists()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture that takes some seconds to read."""
    path = tmp_path_factory.mktemp("large") / "large.pcap"
    small = mixed(path, 1).read_bytes()
    path.write_bytes(small + small[24:] * 200)
    return path


@pytest.mark.heavy
def test_ctrl_c_ends_all_with_a_summary(large: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with subprocess.Popen([SSLSNIFF, "read", large, "--jobs", "2", "--json", "-o", out]) as process:
        while not out.exists() or not out.stat().st_size:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    assert b'"type":"summary"' in out.read_bytes().splitlines()[-1]


@pytest.mark.slow
def test_a_killed_process_is_told(large: Path, tmp_path: Path) -> None:
    with subprocess.Popen(
        [SSLSNIFF, "read", large, "--jobs", "2", "-o", tmp_path / "out"], stderr=subprocess.PIPE
    ) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while len(found := children.read_text().split()) < 2:
            assert process.poll() is None
        os.kill(int(found[0]), signal.SIGKILL)
        _, error = process.communicate(timeout=20)
    assert process.returncode == 1
    assert error == b"sslsniff: a process of --jobs was ended from outside: use fewer, or none\n"


@pytest.mark.heavy
def test_nobody_reads_any_more(large: Path) -> None:
    with subprocess.Popen(
        [SSLSNIFF, "read", large, "--jobs", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(20) == 0


def test_model_calls_have_costs_and_no_runs(tmp_path: Path) -> None:
    """A process that decodes a share does not see the calls before."""
    capture, prices = tmp_path / "many.pcapng", tmp_path / "prices.toml"
    write_many(capture, 100)
    prices.write_text('currency = "EUR"\n[models."*"]\ninput = 1\noutput = 10\n')
    found = []
    for jobs in (1, 2):
        code, out, _ = read(capture, "--json", "--prices", str(prices), "~model .", jobs=jobs)
        assert code == 0
        lines = map(json.loads, out.splitlines())
        found.append([each["llm"] for each in lines if each["type"] == "exchange"])
    assert [each["run"]["position"] for each in found[0]] == [1, 2, 3]
    assert [{**each, "run": None} for each in found[0]] == found[1]
    assert [each["cost"] for each in found[1]] == [0.00041, 0.00061, 0.00081]
