"""Programs with BoringSSL linked in and stripped: every request, each byte, at both ends."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.live.checks import Sniff, assert_passed, assert_whole, connections, run_under
from tests.live.node_peers import PROGRAM as NODE_PROGRAM
from tests.live.node_peers import assert_known, watch_peers
from tests.live.refusals import sniff as sniff_once
from tests.workload.debian import CACHE
from tests.workload.passed import Passed, new_nonce, sha256, told
from tests.workload.processes import PROGRAMS, run, started
from tests.workload.python.server import pattern
from tests.workload.servers import Certificate, Server

BUN = CACHE / "bun/node_modules/@oven/bun-linux-x64/bin/bun"
WHEELS = CACHE / "wheels/bin/python"
GRPC = importlib.util.find_spec("grpc")
PYTHON = Path(sys.executable).resolve().name
REQUESTS = 20
ROOM = ("--ring-size", "64M")  # servers send faster than JSON is written
SIZES = (0, 1, 1 << 10, 1 << 14, 100_000)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a program that Bun made of its own executable and a script."""
    made = tmp_path_factory.mktemp("compiled") / "node_http"
    run(BUN, "build", "--compile", "--outfile", made, NODE_PROGRAM)
    return made


@pytest.mark.heavy
@pytest.mark.parametrize("count", [24, 1000])
@pytest.mark.parametrize("kind", ["bun", "compiled"])
def test_bun_as_client_and_server(
    kind: str, count: int, certificate: Certificate, sniff: Sniff, request: pytest.FixtureRequest
) -> None:
    command = (BUN, NODE_PROGRAM) if kind == "bun" else (request.getfixturevalue(kind),)
    options = ("--lib", str(command[0]))
    assert_known(
        watch_peers(command, certificate, sniff, *options, count=count, library="boringssl")
    )


@pytest.mark.heavy
def test_bun_that_was_not_seen_before(certificate: Certificate, tmp_path: Path) -> None:
    """sslsniff says what it looks for, and the program waits for it."""
    program = tmp_path / "bun"
    shutil.copy(BUN, program)
    with started(BUN, NODE_PROGRAM, "server", certificate.certificate, certificate.key) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        asked = (program, NODE_PROGRAM, "client", certificate.certificate, port)
        ran = run_under(tmp_path, *asked, stdin=b"go\n")
    size_mb = program.stat().st_size // 10**6
    assert f"sslsniff: looking for SSL_read in bun ({size_mb} MB)\n" in ran.captured.stderr
    passed = told(ran.stdout.decode())
    assert len(passed) == 48
    assert_passed(ran.captured, passed, role="client", library="boringssl")
    assert_whole(ran.captured)


@pytest.mark.parametrize("count", [10, 1000])
def test_grpcio_as_client_and_server(count: int, certificate: Certificate, sniff: Sniff) -> None:
    """Calls over two connections, half of them streams of messages."""
    assert GRPC is not None
    assert GRPC.origin is not None
    [module] = Path(GRPC.origin).parent.glob("_cython/cygrpc*.so")
    files = (certificate.certificate, certificate.key)
    with (
        started(sys.executable, PROGRAMS / "python/grpcio_echo.py", *files) as server,
        sniff("--comm", PYTHON, "--lib", str(module), *ROOM) as sniffer,
    ):
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        client = (sys.executable, PROGRAMS / "python/grpc_client.py", port)
        passed = told(run(*client, certificate.certificate, str(count), str(count)))
        sniffer.until(4 * count)
        captured = sniffer.stop()
    assert len(passed) == 2 * count
    for role in ("client", "server"):
        assert_passed(captured, passed, role=role, library="boringssl")
    assert_whole(captured)
    assert connections(captured, alpn="h2") == 4


@pytest.mark.heavy
@pytest.mark.parametrize("protocol", ["1", "2"])
def test_curl_cffi_without_its_symbols(
    protocol: str,
    server: Server,
    certificate: Certificate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [package] = WHEELS.parents[1].glob("lib/python*/site-packages/curl_cffi")
    shutil.copytree(package, tmp_path / "curl_cffi")
    run("strip", tmp_path / "curl_cffi/_wrapper.abi3.so")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    bodies = {new_nonce(): pattern(SIZES[at % len(SIZES)]) for at in range(REQUESTS)}
    for nonce, body in bodies.items():
        (tmp_path / nonce).write_bytes(body)
    asked = (server.port, certificate.certificate, tmp_path, protocol, *bodies)
    program = PROGRAMS / "python/curl_cffi_client.py"
    ran = run_under(tmp_path, WHEELS, program, *map(str, asked))
    passed = [
        Passed(
            nonce=nonce,
            protocol="http/2" if protocol == "2" else "http/1.1",
            method="POST",
            target="/echo",
            status=200,
            client=("127.0.0.1", int(ran.stdout)),
            server=(server.host, server.port),
            request_sha256=sha256(body),
            response_sha256=sha256((tmp_path / f"{nonce}.got").read_bytes()),
        )
        for nonce, body in bodies.items()
    ]
    assert_passed(ran.captured, passed, role="client", library="boringssl")
    assert_whole(ran.captured)


@pytest.mark.heavy
def test_the_list_says_how_it_was_found() -> None:
    with started(BUN, "-e", "setTimeout(() => {}, 60000)") as process:
        listed = sniff_once("list", "--pid", str(process.pid)).stdout
    [row] = [each for each in listed.splitlines()[1:] if "BoringSSL" in each]
    assert "errors in its code" in " ".join(row.split())
    assert "not probed" not in row
