"""Every release of OpenSSL that Debian has: its functions for data, returns seen in both ways."""

from pathlib import Path

import pytest

from tests import libraries
from tests.live.checks import Sniff, assert_passed, assert_whole, connections
from tests.workload.passed import Passed, new_nonce, sha256
from tests.workload.processes import PROGRAMS, run
from tests.workload.python.server import pattern
from tests.workload.servers import Server

pytestmark = pytest.mark.heavy


@pytest.fixture(params=libraries.OPENSSL, scope="module")
def library(request: pytest.FixtureRequest) -> libraries.Library:
    return libraries.library(str(request.param))


@pytest.fixture(scope="module")
def program(library: libraries.Library, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the client, linked with this library."""
    made = tmp_path_factory.mktemp("program") / "openssl_client"
    ssl = library.path
    linked = ssl, ssl.with_name(ssl.name.replace("ssl", "crypto")), "-Wl,--allow-shlib-undefined"
    run("gcc", "-O1", "-Wall", "-Werror", "-o", made, PROGRAMS / "c/openssl_client.c", *linked)
    return made


@pytest.mark.parametrize("returns", ["instructions", "trampoline"])
@pytest.mark.parametrize("case", ["again", "other", "bio"])
def test_all_functions_for_data(
    library: libraries.Library,
    program: Path,
    case: str,
    returns: str,
    server: Server,
    sniff: Sniff,
) -> None:
    nonces = [new_nonce() for _ in range(3)]
    with sniff("--returns", returns, "--lib", str(library.path)) as sniffer:
        told = run(*library.loader, program, case, str(server.port), *nonces)
        sniffer.until(len(nonces))
        captured = sniffer.stop()

    ports = [int(line.split()[0]) for line in told.splitlines()]
    passed = [
        Passed(
            nonce=nonce,
            protocol="http/1.1",
            method="GET",
            target="/bytes/5000",
            status=200,
            client=("127.0.0.1", port),
            server=(server.host, server.port),
            response_sha256=sha256(pattern(5000)),
        )
        for nonce, port in zip(nonces, ports, strict=True)
    ]
    assert_passed(captured, passed, role="client")
    assert_whole(captured)
    assert connections(captured) == len(set(ports))
