"""No byte is lost under load; where bytes must be lost, the count of them is exact."""

import contextlib
import hashlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslsniff.capture_files.replay import ReplaySource
from sslsniff.model import Chunk, Connection, Direction
from sslsniff.tracing.flows import Flows
from tests.chunks_only import ChunksOnly
from tests.live import checks
from tests.live.checks import Record, Sniff
from tests.live.sniffer import SSLSNIFF, Captured, Sniffer
from tests.workload.load import EndOfLoad, Load, Receiver, parse_end
from tests.workload.passed import sha256
from tests.workload.processes import PATIENCE_S, PROGRAMS, held, next_line, say, started
from tests.workload.servers import Certificate, Server

MIB = 1 << 20
CALL_LIMIT = 16 * MIB
STOPPED_MS = 10_000


@pytest.fixture
def receiver(load: Load, certificate: Certificate) -> Iterator[Receiver]:
    with load.receiver(certificate.certificate, certificate.key) as running:
        yield running


class Sums(ChunksOnly):
    """A ``flows.Listener`` that hashes: (process, direction) -> bytes and their SHA-256."""

    def __init__(self) -> None:
        self.bytes: dict[tuple[int, Direction], int] = {}
        self._hashes: dict[tuple[int, Direction], hashlib._Hash] = {}

    def opened(self, connection: Connection, time_ns: int) -> None:
        assert connection.from_start

    def chunk(self, chunk: Chunk) -> None:
        assert chunk.missing == 0
        key = (chunk.connection.process.pid, chunk.direction)
        assert chunk.offset == self.bytes.get(key, 0)
        self.bytes[key] = chunk.offset + len(chunk.data)
        self._hashes.setdefault(key, hashlib.sha256()).update(chunk.data)

    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None:
        assert connection.missing == {}

    def closed(self, connection: Connection, time_ns: int) -> None:
        assert connection.missing == {}

    def sha256(self, pid: int, direction: Direction) -> str:
        return self._hashes[pid, direction].hexdigest()


@pytest.mark.parametrize(
    ("calls", "size", "end"),
    [
        pytest.param(6_400, 16 << 10, "sender", id="100 MB sent"),
        pytest.param(6_400, 16 << 10, "receiver", id="100 MB received"),
        pytest.param(200_000, 64, "sender", id="200,000 calls"),
    ],
)
@pytest.mark.reliability("load", "100 MB, and 200,000 calls, at full speed")
def test_every_byte(
    calls: int,
    size: int,
    end: str,
    load: Load,
    receiver: Receiver,
    tmp_path: Path,
    record_property: Record,
) -> None:
    """The capture of an end, read back through the library, is what both ends hashed."""
    capture = tmp_path / "capture.pcapng"
    sender = held(load.sender(receiver.port, calls, (calls, size)))
    pid = sender.pid if end == "sender" else receiver.pid
    sniffer = subprocess.Popen(
        # room for all of it: on a busy machine the reader may wait long for its turn
        [
            *(SSLSNIFF, "--pcap", capture, "--pid", str(pid), "--ring-size", "128M"),
            *("--end-within", str(int(PATIENCE_S))),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert sniffer.stderr is not None
    sniffer.stderr.readline()
    sent = parse_end(sender.communicate("go\n", 4 * PATIENCE_S)[0])
    got = receiver.next()
    if end == "receiver":  # else it ends with the sender, and a signal may come too late for it
        sniffer.send_signal(signal.SIGINT)
    _, summary = sniffer.communicate(timeout=PATIENCE_S)

    assert sniffer.returncode == 0
    lost = re.fullmatch(r"1 connection, .*, (\d+) bytes lost\n", summary)
    assert lost is not None
    assert lost[1] == "0"
    assert sent.bytes == got.bytes == calls * size
    assert sent.sha256 == got.sha256
    source = ReplaySource(capture)
    sums = Sums()
    flows = Flows(source.libraries, sums)
    for event in source:
        flows.handle(event)
    assert (source.warnings, source.truncated) == ([], False)
    direction = Direction.WRITE if end == "sender" else Direction.READ
    assert sums.bytes == {(pid, direction): calls * size}
    assert sums.sha256(pid, direction) == sent.sha256
    record_property("lost_bytes", lost[1])


def assert_accounted(captured: Captured, sent: EndOfLoad) -> tuple[int, dict[str, int]]:
    """What was captured and what was reported lost are all that was sent, each at its place.

    Returns the bytes captured, and those lost by cause.
    """
    chunks = [each for each in captured.of("chunk") if each["pid"] == sent.pid]
    position = data_bytes = 0
    for chunk in chunks:
        assert chunk["direction"] == "write"
        assert chunk["offset"] == position + chunk["missing"]
        assert not (chunk["missing"] and chunk["data"]["size"])
        position = chunk["offset"] + chunk["data"]["size"]
        data_bytes += chunk["data"]["size"]
    lost: dict[str, int] = {}
    for loss in captured.of("loss"):
        if loss.get("pid") == sent.pid:
            lost[loss["cause"]] = lost.get(loss["cause"], 0) + loss["bytes"]
    assert position == sent.bytes == data_bytes + sum(lost.values())
    [closed] = [
        each
        for each in captured.of("connection")
        if each["event"] == "closed" and each["pid"] == sent.pid
    ]
    assert closed["bytes_written"] == sent.bytes
    assert closed["missing_bytes"] == sum(lost.values())
    assert closed["client"]["port"] == sent.port
    return data_bytes, lost


def under(
    load: Load, receiver: Receiver, folder: Path, size: int, *options: str
) -> tuple[Captured, EndOfLoad]:
    """Send ``size`` bytes with one call."""
    command = load.sender(receiver.port, size, (1, size))
    ran = checks.run_under(folder, *command, options=("--chunks", *options))
    sent = parse_end(ran.stdout.decode())
    assert receiver.next().sha256 == sent.sha256
    return ran.captured, sent


def test_large_calls(load: Load, receiver: Receiver, tmp_path: Path) -> None:
    """A call is kept whole; above the limit it is cut, and the rest counted."""
    for size in (MIB, CALL_LIMIT):
        captured, sent = under(load, receiver, tmp_path, size)
        assert assert_accounted(captured, sent) == (size, {})
        data = b"".join(checks.content(each["data"]) for each in captured.of("chunk"))
        assert sha256(data) == sent.sha256
        assert captured.summary["lost_bytes"] == 0

    captured, sent = under(load, receiver, tmp_path, 20 * MIB)
    assert assert_accounted(captured, sent) == (CALL_LIMIT, {"call limit": 4 * MIB})
    assert captured.summary["lost_bytes"] == 4 * MIB
    assert captured.summary["lost_events"] == 1

    captured, sent = under(load, receiver, tmp_path, MIB, "--max-call-bytes", "100000")
    assert assert_accounted(captured, sent) == (100_000, {"call limit": MIB - 100_000})


def test_a_call_of_more_than_4_gib(load: Load, receiver: Receiver, tmp_path: Path) -> None:
    """SSL_write_ex takes any size: what is beyond the limit is counted, however much it is."""
    size = 4096 * MIB + 12_345
    captured, sent = under(load, receiver, tmp_path, size)
    assert assert_accounted(captured, sent) == (CALL_LIMIT, {"call limit": size - CALL_LIMIT})
    assert captured.summary["lost_bytes"] == size - CALL_LIMIT


def until_caught_up(sniffer: Sniffer, markers: list["subprocess.Popen[str]"]) -> list[EndOfLoad]:
    """Let one after the other of ``markers`` send until one is shown; return what they sent.

    The ring is read in order: when that one is shown, all before it was read.
    """
    sent: list[EndOfLoad] = []
    deadline = time.monotonic() + PATIENCE_S
    for number, marker in enumerate(markers, start=1):
        sent.append(parse_end(marker.communicate("go\n", PATIENCE_S)[0]))
        next_at = min(deadline, time.monotonic() + PATIENCE_S / len(markers))
        while time.monotonic() < next_at:
            if f'"pid":{sent[-1].pid},' in sniffer.output.read_text("utf-8"):
                for unused in markers[number:]:
                    unused.kill()
                    unused.communicate()
                return sent
            time.sleep(0.05)
    raise TimeoutError("the reader has not caught up")


@pytest.mark.reliability("fault", "sslsniff is stopped for 10 s, and the ring fills")
def test_stopped_reader(
    load: Load,
    receiver: Receiver,
    certificate: Certificate,
    sniff: Sniff,
    record_property: Record,
) -> None:
    """Nobody reads the ring for ten seconds under load: what is lost is known exactly."""
    with contextlib.ExitStack() as ending:
        quick = ending.enter_context(load.receiver(certificate.certificate, certificate.key))
        # One that has its connection all the time, others that come and go meanwhile.
        burst = ((900, 4_000), (STOPPED_MS // 10, 0))
        long = held(load.sender(receiver.port, 1, (20, 1000), *burst * 10))
        short = [held(load.sender(quick.port, seed, (30, 700))) for seed in range(2, 7)]
        markers = [held(load.sender(quick.port, seed, (1, 700))) for seed in range(10, 40)]
        after = held(load.sender(quick.port, 99, (30, 700)))
        senders = [long, *short, *markers, after]
        pids = [part for each in senders for part in ("--pid", str(each.pid))]
        with sniff("--chunks", "--ring-size", "4M", *pids) as sniffer:
            sniffer.process.send_signal(signal.SIGSTOP)
            sent = [
                parse_end(each.communicate("go\n", 4 * PATIENCE_S)[0]) for each in (long, *short)
            ]
            sniffer.process.send_signal(signal.SIGCONT)
            sent += until_caught_up(sniffer, markers)
            sent.append(parse_end(after.communicate("go\n", PATIENCE_S)[0]))
            captured = sniffer.wait()

    assert captured.code == 0
    # The short ones ended while the ring was full: each a process with a connection, its only one.
    told_ends = re.search(r"the ends of (\d+) processes and (\d+) connections", captured.stderr)
    assert told_ends is not None, captured.stderr
    assert 0 < int(told_ends[1]) <= len(short)
    closed = sum(each["event"] == "closed" for each in captured.of("connection"))
    opened = sum(each["event"] == "opened" for each in captured.of("connection"))
    assert opened - closed <= int(told_ends[2])
    assert "were evicted" not in captured.stderr
    summary = captured.summary
    total = sum(each.bytes for each in sent)
    assert summary["bytes"] + summary["lost_bytes"] == total
    assert summary["lost_bytes"] > 30_000_000
    kept, lost = assert_accounted(captured, sent[0])
    assert set(lost) == {"ring full"}
    assert kept > 3 * MIB
    assert assert_accounted(captured, sent[-1]) == (21_000, {})
    record_property("lost_bytes", captured.summary["lost_bytes"])


@pytest.mark.parametrize(("spill", "causes"), [("64M", set()), ("6M", {"ring full"})])
def test_spill(spill: str, causes: set[str], load: Load, receiver: Receiver) -> None:
    """Nobody takes the output while 20 MB pass: a file has room for them, or as many as fit.

    They take four seconds: the ring has room for those of 1.6, in which the mover gets no CPU.
    """
    sender = held(load.sender(receiver.port, 1, *[(50, 4_000), (40, 0)] * 100))
    options = ("--chunks", "--ring-size", "8M", "--spill", spill, "--pid", str(sender.pid))
    with subprocess.Popen(
        [SSLSNIFF, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as sniffer:
        assert sniffer.stderr is not None
        sniffer.stderr.readline()
        sent = parse_end(sender.communicate("go\n", PATIENCE_S)[0])
        lines, errors = sniffer.communicate(timeout=4 * PATIENCE_S)

    captured = Captured([json.loads(line) for line in lines.splitlines()], errors, 0)
    assert (sniffer.returncode, errors) == (0, "")
    kept, lost = assert_accounted(captured, sent)
    assert lost.keys() == causes
    assert kept > 6 * MIB
    assert captured.summary["lost_bytes"] == sum(lost.values())


def test_addresses_come_later(certificate: Certificate, server: Server, sniff: Sniff) -> None:
    """The ring is full when a connection's socket is found: it is told with what follows."""
    files = (certificate.certificate, certificate.key)
    program = (sys.executable, PROGRAMS / "python/full_ring.py", str(server.port), *files)
    with started(*program) as client:
        assert next_line(client) == "ready"
        with sniff("--chunks", "--ring-size", "4M", "--pid", str(client.pid)) as sniffer:
            sniffer.process.send_signal(signal.SIGSTOP)
            say(client, "go")
            port = int(next_line(client))
            sniffer.process.send_signal(signal.SIGCONT)
            sniffer.until(60, "chunk")
            say(client, "go")
            captured = sniffer.wait()

    [last] = [each for each in captured.of("chunk") if each["data"].get("text") == "z"]
    [closed] = [
        each
        for each in captured.of("connection")
        if each["event"] == "closed" and each["connection"] == last["connection"]
    ]
    assert closed["missing_bytes"] == 1
    assert closed["client"]["port"] == port
