"""Peers of the programs that were built, which know what passed."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.live.checks import assert_passed, assert_whole, connections
from tests.live.sniffer import Captured
from tests.workload.curl import Request, curl, results
from tests.workload.passed import Passed
from tests.workload.processes import PATIENCE_S
from tests.workload.python.server import pattern
from tests.workload.servers import Certificate, Server

SIZES = (0, 1 << 10, 1 << 20)
CONNECTIONS = (("1", 9), ("1", 8), ("1", 8), ("2", 13), ("2", 12))
"""Protocol and count of requests: 50 over 5 connections, half of them HTTP/2, all at once."""
ALL_AT_ONCE = [f"{protocol}:{count}" for protocol, count in CONNECTIONS]
"""The same as arguments of our clients."""
TLS_VERSIONS = pytest.mark.parametrize("tls_version", ["1.2", "1.3"])
_OPTIONS = {
    "1": ("--http1.1",),
    "2": ("--http2", "--parallel", "--parallel-max", "20"),
}


def requests(count: int) -> list[Request]:
    """Return GETs and POSTs of bodies of all sizes."""
    sizes = [SIZES[number // 2 % len(SIZES)] for number in range(count)]
    return [
        Request("/echo", "POST", pattern(size)) if number % 2 else Request(f"/bytes/{size}")
        for number, size in enumerate(sizes)
    ]


def ask(
    server: Server,
    certificate: Certificate,
    folder: Path,
    *options: str,
    connections: Sequence[tuple[str, int]] = CONNECTIONS,
) -> list[Passed]:
    """Make requests with a curl for each of ``connections``, all at once; return what passed."""
    running = []
    for number, (protocol, count) in enumerate(connections):
        own = folder / f"curl-{number}"
        own.mkdir(parents=True)
        asked = requests(count)
        command = curl(server.url, asked, certificate, own, *_OPTIONS[protocol], *options)
        running.append((asked, subprocess.Popen(command, stdout=subprocess.PIPE, text=True)))
    passed = []
    for asked, process in running:
        stdout, _ = process.communicate(timeout=2 * PATIENCE_S)
        assert process.returncode == 0
        passed += results(stdout, asked)
    assert len({each.client for each in passed}) == len(connections)
    return passed


def assert_captured(
    captured: Captured, passed: list[Passed], role: str, library: str, tls_version: str
) -> None:
    """The 50 requests over 5 connections are what was captured, and nothing else is.

    A client of Go's opens one more if a request is not written 50 ms after its response came.
    """
    assert len(passed) == 50
    assert_passed(captured, passed, role=role, library=library)
    assert_whole(captured)
    made = len({(each.client, each.server) for each in passed})
    assert made == 5 or (library == "go" and made > 5)
    assert connections(captured, tls_version=f"TLS {tls_version}") == made
    assert connections(captured, "closed") == made
