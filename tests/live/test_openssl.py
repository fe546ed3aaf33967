"""OpenSSL used in other ways than curl's and Python's: see tests/workload/c/openssl_client.c."""

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.live.checks import (
    Sniff,
    assert_passed,
    assert_whole,
    connections,
    content,
    run_under,
    seen,
)
from tests.workload.passed import Passed, new_nonce, sha256
from tests.workload.processes import PROGRAMS, next_line, run, say, started
from tests.workload.python.server import pattern
from tests.workload.servers import Certificate, Server


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("program") / "openssl_client"
    source = PROGRAMS / "c/openssl_client.c"
    run("gcc", "-O1", "-Wall", "-Werror", "-o", made, source, "-lssl", "-lcrypto")
    return made


@dataclass(frozen=True)
class Told:
    """What the program tells of a request."""

    port: int
    object_address: str
    repeats: int


def told(stdout: bytes) -> list[Told]:
    rows = (line.split() for line in stdout.decode().splitlines())
    return [Told(int(port), address, int(repeats)) for port, address, repeats in rows]


def got(server: Server, nonce: str, row: Told) -> Passed:
    """Return the GET that the program made."""
    return Passed(
        nonce=nonce,
        protocol="http/1.1",
        method="GET",
        target="/bytes/5000",
        status=200,
        client=("127.0.0.1", row.port),
        server=(server.host, server.port),
        response_sha256=sha256(pattern(5000)),
    )


def test_peek(program: Path, server: Server, tmp_path: Path) -> None:
    """What SSL_peek shows is shown again by SSL_read, and counts once."""
    nonces = [new_nonce() for _ in range(4)]
    ran = run_under(tmp_path, program, "peek", str(server.port), *nonces)
    rows = told(ran.stdout)
    passed = [got(server, nonce, row) for nonce, row in zip(nonces, rows, strict=True)]

    assert_passed(ran.captured, passed, role="client")
    assert_whole(ran.captured)
    assert connections(ran.captured) == 1


def test_other_sockets_inside_of_calls(program: Path, server: Server, tmp_path: Path) -> None:
    """The addresses are those of the TCP socket, and of each connection its own."""
    nonces = [new_nonce() for _ in range(4)]
    ran = run_under(tmp_path, program, "log", str(server.port), *nonces)
    rows = told(ran.stdout)
    assert len({row.port for row in rows}) == 4
    passed = [got(server, nonce, row) for nonce, row in zip(nonces, rows, strict=True)]

    assert_passed(ran.captured, passed, role="client")
    assert_whole(ran.captured)
    assert connections(ran.captured) == 4


@pytest.mark.parametrize("case", ["partial", "whole"])
def test_repeated_writes(case: str, program: Path, server: Server, tmp_path: Path) -> None:
    """Calls that had to be repeated: their bytes count once."""
    nonces = [new_nonce() for _ in range(2)]
    ran = run_under(tmp_path, program, case, str(server.port), *nonces)
    rows = told(ran.stdout)
    assert min(row.repeats for row in rows) > 3  # or nothing was tried
    body = sha256(bytes((index * 2654435761 & 0xFFFFFFFF) >> 24 for index in range(1_000_000)))
    passed = [
        Passed(
            nonce=nonce,
            protocol="http/1.1",
            method="POST",
            target="/slow",
            status=200,
            client=("127.0.0.1", row.port),
            server=(server.host, server.port),
            request_sha256=body,
            response_sha256=body,
        )
        for nonce, row in zip(nonces, rows, strict=True)
    ]
    assert_passed(ran.captured, passed, role="client")
    assert_whole(ran.captured)
    assert connections(ran.captured) == 1


@pytest.mark.parametrize("case", ["clear", "again"])
def test_same_address(case: str, program: Path, server: Server, tmp_path: Path) -> None:
    """Connections one after the other, their objects at the same address: they stay apart."""
    nonces = [new_nonce() for _ in range(5)]
    ran = run_under(tmp_path, program, case, str(server.port), *nonces)
    rows = told(ran.stdout)
    assert len({row.object_address for row in rows}) < 5  # or nothing was tried
    assert len({row.port for row in rows}) == 5
    passed = [got(server, nonce, row) for nonce, row in zip(nonces, rows, strict=True)]

    assert_passed(ran.captured, passed, role="client")
    assert_whole(ran.captured)
    assert connections(ran.captured, tls_version="TLS 1.3", sni="localhost") == 5
    assert len({each["connection"] for each in ran.captured.exchanges}) == 5
    assert connections(ran.captured, "closed") == 5


def test_shutdown_without_free(certificate: Certificate, sniff: Sniff) -> None:
    """Where objects live on, close_notify ends the answer, on both sides."""
    nonce = new_nonce()
    command = (PROGRAMS / "python/leaking.py", certificate.certificate, certificate.key, nonce)
    with (
        started(sys.executable, *command) as process,
        sniff("--pid", str(process.pid)) as sniffer,
    ):
        say(process, "go")
        body = next_line(process)
        sniffer.until(2)
        captured = sniffer.stop()
        assert process.poll() is None

    assert body == "until the end"
    assert {each["role"] for each in captured.exchanges} == {"client", "server"}
    for exchange in captured.exchanges:
        assert seen(exchange).nonce == nonce
        assert content(exchange["response"]["body"]) == body.encode()
    assert_whole(captured)
    assert connections(captured, sni="localhost", joined=False) == 2
    assert connections(captured, "closed") == 0
