"""No byte is lost under load; where bytes must be lost, the count of them is exact."""

import hashlib
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sslsniff.core.flows import Flows
from sslsniff.core.model import Chunk, Connection, Direction
from sslsniff.files.replay import ReplaySource
from tests.chunks_only import ChunksOnly
from tests.live import checks
from tests.live.checks import Record
from tests.live.sniffer import READY, SSLSNIFF, Captured, Sniffer
from tests.live.watching import Watch
from tests.workload.load import EndOfLoad, Load, Receiver, parse_end
from tests.workload.passed import sha256
from tests.workload.processes import PATIENCE_S, PROGRAMS, held, next_line, run, say, wait_until
from tests.workload.servers import Certificate, Server

MIB = 1 << 20
CALL_LIMIT = 16 * MIB
STOPPED_MS = 10_000
SHORT = 30
MOST_MARKERS = 30
RUN_EACH_LINE = 'while read -r line; do eval "$line"; done'


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

    def handshake(self, handshake: object) -> None:
        """Ignore it."""

    def closed(self, connection: Connection, time_ns: int) -> None:
        assert connection.missing == {}

    def sha256(self, pid: int, direction: Direction) -> str:
        return self._hashes[pid, direction].hexdigest()


AT_FULL_SPEED = {
    "100 MB sent": (6_400, 16 << 10, "sender"),
    "100 MB received": (6_400, 16 << 10, "receiver"),
    "200,000 calls": (200_000, 64, "sender"),
}
"""Calls, their size, and the end that is watched."""


@pytest.mark.heavy
@pytest.mark.parametrize("case", AT_FULL_SPEED)
@pytest.mark.reliability("load", "100 MB, and 200,000 calls, at full speed")
def test_every_byte(
    case: str,
    load: Load,
    certificate: Certificate,
    watch: Watch,
    record_property: Record,
) -> None:
    """The capture of an end, read back through the library, is what both ends hashed."""
    calls, size, end = AT_FULL_SPEED[case]
    capture = watch.folder / "capture.pcapng"
    # room for all of it: on a busy machine the reader may wait long for its turn
    options = ("--pcap", capture, "--ring-size", "128M", "--")
    files = (certificate.certificate, certificate.key)
    if end == "sender":
        with load.receiver(*files) as receiver:
            command = load.sender(receiver.port, calls, (calls, size))
            with watch.started(*options, *command, stderr=subprocess.PIPE) as sniffer:
                sent = parse_end(next_line(sniffer))
                got = receiver.next()
                _, errors = sniffer.communicate(timeout=PATIENCE_S)
    else:
        command = load.receive(*files)
        with watch.started(*options, *command, stderr=subprocess.PIPE) as sniffer:
            port = int(next_line(sniffer))
            sent = parse_end(run(*load.sender(port, calls, (calls, size))))
            got = parse_end(next_line(sniffer))
            os.kill(got.pid, signal.SIGKILL)
            _, errors = sniffer.communicate(timeout=PATIENCE_S)

    assert sniffer.returncode == (0 if end == "sender" else 128 + signal.SIGKILL)
    lost = re.fullmatch(rf"({READY}.*\n)?1 connection, .*, (\d+) bytes lost\n", errors)
    assert lost is not None, errors
    assert lost[2] == "0"
    assert sent.bytes == got.bytes == calls * size
    assert sent.sha256 == got.sha256
    source = ReplaySource(capture)
    sums = Sums()
    flows = Flows(source.libraries, sums)
    for event in source:
        flows.handle(event)
    assert (source.warnings, source.truncated) == ([], False)
    direction = Direction.WRITE if end == "sender" else Direction.READ
    pid = sent.pid if end == "sender" else got.pid
    assert sums.bytes == {(pid, direction): calls * size}
    assert sums.sha256(pid, direction) == sent.sha256
    record_property("lost_bytes", lost[2])


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
    load: Load, receiver: Receiver, watch: Watch, size: int, *options: str
) -> tuple[Captured, EndOfLoad]:
    """Send ``size`` bytes with one call."""
    command = load.sender(receiver.port, size, (1, size))
    with watch.json(*command, options=("--chunks", *options)) as sniffer:
        sent = parse_end(next_line(sniffer.process))
        captured = sniffer.wait()
    assert receiver.next().sha256 == sent.sha256
    return captured, sent


@pytest.mark.heavy
def test_large_calls(load: Load, receiver: Receiver, watch: Watch) -> None:
    """A call is kept whole; above the limit it is cut, and the rest counted."""
    for size in (MIB, CALL_LIMIT):
        captured, sent = under(load, receiver, watch, size)
        assert assert_accounted(captured, sent) == (size, {})
        data = b"".join(checks.content(each["data"]) for each in captured.of("chunk"))
        assert sha256(data) == sent.sha256
        assert captured.summary["lost_bytes"] == 0

    captured, sent = under(load, receiver, watch, 20 * MIB)
    assert assert_accounted(captured, sent) == (CALL_LIMIT, {"call limit": 4 * MIB})
    assert captured.summary["lost_bytes"] == 4 * MIB
    assert captured.summary["lost_events"] == 1

    captured, sent = under(load, receiver, watch, MIB, "--max-call-bytes", "100000")
    assert assert_accounted(captured, sent) == (100_000, {"call limit": MIB - 100_000})


@pytest.mark.measured
def test_a_call_of_more_than_4_gib(load: Load, receiver: Receiver, watch: Watch) -> None:
    """SSL_write_ex takes any size: what is beyond the limit is counted, however much it is."""
    size = 4096 * MIB + 12_345
    captured, sent = under(load, receiver, watch, size)
    assert assert_accounted(captured, sent) == (CALL_LIMIT, {"call limit": size - CALL_LIMIT})
    assert captured.summary["lost_bytes"] == size - CALL_LIMIT


def until_caught_up(sniffer: Sniffer, send: Callable[[], EndOfLoad]) -> list[EndOfLoad]:
    """Send again and again until what was sent is shown; return what was sent.

    The ring is read in order: when that one is shown, all before it was read.
    """
    sent: list[EndOfLoad] = []
    deadline = time.monotonic() + PATIENCE_S
    while True:
        sent.append(send())
        next_at = time.monotonic() + PATIENCE_S / MOST_MARKERS
        while time.monotonic() < next_at:
            if f'"pid":{sent[-1].pid},' in sniffer.output.read_text("utf-8"):
                return sent
            time.sleep(0.05)
        assert time.monotonic() < deadline, "the reader has not caught up"


@pytest.mark.heavy
@pytest.mark.reliability("fault", "sslsniff is stopped for 10 s, and the ring fills")
def test_stopped_reader(
    load: Load,
    receiver: Receiver,
    certificate: Certificate,
    watch: Watch,
    record_property: Record,
) -> None:
    """Nobody reads the ring for ten seconds under load: what is lost is known exactly."""
    # Each process that has loaded the library has a part of the room: the shell the other half.
    shells = 0 if watch.has_probes else 1
    options = ("--chunks", "--ring-size", f"{4 * (1 + shells)}M")
    seeds = itertools.count(2)
    with (
        load.receiver(certificate.certificate, certificate.key) as quick,
        watch.json("sh", "-c", RUN_EACH_LINE, options=options) as sniffer,
    ):

        def send(port: int, seed: int, *calls: tuple[int, int]) -> EndOfLoad:
            say(sniffer.process, shlex.join(load.sender(port, seed, *calls)))
            return parse_end(next_line(sniffer.process))

        def send_little() -> EndOfLoad:
            return send(quick.port, next(seeds), (30, 700))

        first = send_little()
        wait_until(lambda: f'"pid":{first.pid},' in sniffer.output.read_text("utf-8"))
        maps = Path(f"/proc/{sniffer.process.pid}/maps")
        wait_until(lambda: maps.read_text().count("/memfd:sslsniff ") == shells)
        sniffer.process.send_signal(signal.SIGSTOP)
        # One that has its connection all the time, others that come and go meanwhile.
        burst = ((900, 4_000), (STOPPED_MS // 10, 0))
        sent = [send(receiver.port, 1, (20, 1000), *burst * 10)]
        sent += [send_little() for _ in range(SHORT)]
        sniffer.process.send_signal(signal.SIGCONT)
        sent += until_caught_up(sniffer, lambda: send(quick.port, next(seeds), (1, 700)))
        sent.append(send_little())
        assert sniffer.process.stdin is not None
        sniffer.process.stdin.close()
        captured = sniffer.wait()

    assert captured.code == 0
    # The short ones ended while the ring was full: each a process with a connection, its only one.
    told_ends = re.search(r"the ends of (\d+) processes and (\d+) connections?", captured.stderr)
    closed = sum(each["event"] == "closed" for each in captured.of("connection"))
    opened = sum(each["event"] == "opened" for each in captured.of("connection"))
    if watch.has_probes:
        assert told_ends is not None, captured.stderr
        assert int(told_ends[1]) > 0
        assert opened - closed <= int(told_ends[2])
    else:  # each has a ring of its own, with room for the end
        assert told_ends is None
        assert opened == closed
    assert "were evicted" not in captured.stderr
    summary = captured.summary
    total = sum(each.bytes for each in sent) + 21_000
    assert summary["bytes"] + summary["lost_bytes"] == total
    assert summary["lost_bytes"] > 30_000_000
    kept, lost = assert_accounted(captured, sent[0])
    assert set(lost) == {"ring full"}
    assert kept > 3 * MIB
    assert assert_accounted(captured, sent[-1]) == (21_000, {})
    record_property("lost_bytes", captured.summary["lost_bytes"])


@pytest.mark.heavy
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
    assert (sniffer.returncode, captured.stderr) == (0, "")
    kept, lost = assert_accounted(captured, sent)
    assert lost.keys() == causes
    assert kept > 6 * MIB
    assert captured.summary["lost_bytes"] == sum(lost.values())


def test_addresses_come_later(certificate: Certificate, server: Server, watch: Watch) -> None:
    """The ring is full when a connection's socket is found: it is told with what follows."""
    files = (certificate.certificate, certificate.key)
    program = (sys.executable, PROGRAMS / "python/full_ring.py", str(server.port), *files)
    with watch.json(*program, options=("--chunks", "--ring-size", "4M")) as sniffer:
        client = sniffer.process
        assert next_line(client) == "ready"
        client.send_signal(signal.SIGSTOP)
        say(client, "go")
        port = int(next_line(client))
        client.send_signal(signal.SIGCONT)
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
