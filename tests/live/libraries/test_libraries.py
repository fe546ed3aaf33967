"""wolfSSL, Mbed TLS and s2n-tls, by all of their functions for data: each byte counts once."""

import subprocess
from pathlib import Path

import pytest

from tests.live.checks import Sniff, assert_passed, assert_whole, connections, run_under
from tests.live.libraries.cases import ALL, EVERY, FEW, Case
from tests.live.sniffer import Captured
from tests.workload.curl import Request, curl, results
from tests.workload.passed import EMPTY, Passed, sha256
from tests.workload.processes import PATIENCE_S
from tests.workload.python.server import pattern
from tests.workload.servers import Certificate, Server, running_server

SIZES = (1, 1000, 16384, 70_000, 3_000_000)
CONNECTIONS = 2
CASES = pytest.mark.parametrize(
    "case",
    EVERY if ALL else [pytest.param(each, marks=each.marks) for each in FEW],
    ids="-".join,
)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder for the programs."""
    return tmp_path_factory.mktemp("https")


def assert_captured(captured: Captured, passed: list[Passed], role: str, library: str) -> None:
    """All requests were captured, and nothing else."""
    assert len(passed) == 2 * len(SIZES) * CONNECTIONS
    assert_passed(captured, passed, role=role, library=library)
    assert_whole(captured)
    assert connections(captured, joined=False) == CONNECTIONS
    assert connections(captured, "closed") == CONNECTIONS


@CASES
def test_server(
    case: Case, built: Path, certificate: Certificate, tmp_path: Path, sniff: Sniff
) -> None:
    command = [*case.build(built), *case.arguments("server")]
    with (
        running_server(*command, certificate.certificate, certificate.key) as server,
        sniff("--pid", str(server.pid)) as sniffer,
    ):
        passed = ask(server, certificate, tmp_path)
        sniffer.until(len(passed))
        sniffer.until(2 * CONNECTIONS, "connection")
        captured = sniffer.stop()
    assert_captured(captured, passed, "server", case.library)


def ask(server: Server, certificate: Certificate, folder: Path) -> list[Passed]:
    """Make requests of all sizes over connections at the same time."""
    running = []
    for number in range(CONNECTIONS):
        own = folder / str(number)
        own.mkdir()
        asked = [Request(f"/bytes/{size}") for size in SIZES]
        asked += [Request("/echo", "POST", pattern(size)) for size in SIZES]
        command = curl(server.url, asked, certificate, own, "--http1.1")
        running.append((asked, subprocess.Popen(command, stdout=subprocess.PIPE, text=True)))
    passed = []
    for asked, process in running:
        stdout, _ = process.communicate(timeout=2 * PATIENCE_S)
        assert process.returncode == 0
        passed += results(stdout, asked)
    return passed


@pytest.mark.heavy
@CASES
def test_client(
    case: Case, built: Path, server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    command = [*case.build(built), *case.arguments("client")]
    for size in SIZES:
        (tmp_path / str(size)).write_bytes(pattern(size))
    asked = (server.port, tmp_path, CONNECTIONS, *SIZES)
    ran = run_under(tmp_path, *command, certificate.certificate, *map(str, asked))
    passed = [done(line, server, tmp_path) for line in ran.stdout.decode().splitlines()]
    assert_captured(ran.captured, passed, "client", case.library)


def done(line: str, server: Server, folder: Path) -> Passed:
    """Return what the client said of a request; what it got is in a file."""
    nonce, method, target, port = line.split()
    got = (folder / f"{nonce}.got").read_bytes()
    return Passed(
        nonce=nonce,
        protocol="http/1.1",
        method=method,
        target=target,
        status=200,
        client=("127.0.0.1", int(port)),
        server=(server.host, server.port),
        request_sha256=EMPTY if method == "GET" else sha256(pattern(len(got))),
        response_sha256=sha256(got),
    )
