"""Goroutines whose stacks move while they read and write: each byte of each connection."""

import hashlib
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sslsniff.core.flows import Flows
from sslsniff.core.model import Chunk, Connection, Direction
from sslsniff.files.replay import ReplaySource
from tests.chunks_only import ChunksOnly
from tests.live.sniffer import SSLSNIFF
from tests.workload.go.fixtures import Fixture, fixtures
from tests.workload.processes import PATIENCE_S, next_line, say, started

CONNECTIONS = 250
"""Each has four goroutines."""

SECONDS = 60 if os.environ.get("SSLSNIFF_GO") == "all" else 10

Passed = dict[tuple[int, int], tuple[int, str]]
"""The ports of sender and receiver -> how many bytes, and their SHA-256."""


class Sums(ChunksOnly):
    """A ``flows.Listener`` that hashes what each end wrote or read."""

    def __init__(self) -> None:
        self._hashes: dict[tuple[Direction, int, int], Any] = {}
        self._bytes: dict[tuple[Direction, int, int], int] = {}

    def opened(self, connection: Connection, time_ns: int) -> None:
        assert connection.from_start

    def chunk(self, chunk: Chunk) -> None:
        assert chunk.missing == 0
        local, remote = chunk.connection.local, chunk.connection.remote
        assert local is not None
        assert remote is not None
        ports = (local.port, remote.port)
        key = (chunk.direction, *(ports if chunk.direction is Direction.WRITE else ports[::-1]))
        assert chunk.offset == self._bytes.get(key, 0)
        self._bytes[key] = chunk.offset + len(chunk.data)
        self._hashes.setdefault(key, hashlib.sha256()).update(chunk.data)

    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None:
        assert connection.missing == {}

    def handshake(self, handshake: object) -> None:
        """Ignore it."""

    def closed(self, connection: Connection, time_ns: int) -> None:
        assert connection.missing == {}

    def passed(self, direction: Direction) -> Passed:
        """Return what was seen written, or read."""
        return {
            (sender, receiver): (self._bytes[way, sender, receiver], sums.hexdigest())
            for (way, sender, receiver), sums in self._hashes.items()
            if way is direction
        }


def parse(line: str) -> tuple[tuple[int, int], tuple[int, str]]:
    """Return what an end says of a direction: the ports, how many bytes, and their SHA-256."""
    sender, receiver, size, sha256 = line.split()
    return (int(sender), int(receiver)), (int(size), sha256)


@pytest.mark.measured
@pytest.mark.parametrize("processors", ["1", "2"])
@pytest.mark.parametrize("fixture", fixtures("storm"), ids="-".join)
@pytest.mark.reliability("load", "goroutines whose stacks move, 1,000 of them")
def test_stacks_that_move(fixture: Fixture, processors: str, tmp_path: Path) -> None:
    """Output and end are those of a program that nobody watches, and nothing is lost."""
    capture = tmp_path / "capture.pcapng"
    environment = {**os.environ, "GOGC": "1", "GOMAXPROCS": processors}
    command = (fixture.path, str(CONNECTIONS), str(SECONDS))
    with started(*command, env=environment, stderr=subprocess.PIPE) as storm:
        assert next_line(storm) == "ready"
        sniffer = subprocess.Popen(
            [
                *(SSLSNIFF, "--pcap", capture, "--pid", str(storm.pid), "--ring-size", "128M"),
                *("--spill", "8G", "--end-within", str(int(PATIENCE_S))),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert sniffer.stderr is not None
        assert "watching" in sniffer.stderr.readline()
        say(storm, "go")
        told, errors = storm.communicate(timeout=SECONDS + 2 * PATIENCE_S)
        code = storm.returncode
    _, summary = sniffer.communicate(timeout=2 * PATIENCE_S)
    assert (code, errors) == (0, "")
    assert sniffer.returncode == 0
    lines = (
        rf"sslsniff: process {storm.pid} ended\n{2 * CONNECTIONS} connections, .*, 0 bytes lost\n"
    )
    assert re.fullmatch(lines, summary), summary

    source, sums = ReplaySource(capture), Sums()
    flows = Flows(source.libraries, sums)
    for event in source:
        flows.handle(event)
    assert (source.warnings, source.truncated) == ([], False)
    ends = {parse(line) for line in told.splitlines()}  # what was sent is what was received
    assert len(told.splitlines()) == 2 * len(ends) == 4 * CONNECTIONS
    assert sums.passed(Direction.WRITE) == sums.passed(Direction.READ) == dict(ends)
