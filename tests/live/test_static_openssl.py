"""Programs with OpenSSL linked in and stripped: every request, each byte."""

from pathlib import Path

import pytest

from tests import libraries
from tests.live.checks import assert_passed, assert_whole, connections, run_under
from tests.workload.passed import Passed, new_nonce, sha256
from tests.workload.processes import PROGRAMS, run
from tests.workload.python.server import pattern
from tests.workload.servers import Server

SERIES = ("openssl-1.1.1-static", "openssl-3.0-static")
REQUESTS = 20


@pytest.fixture(params=SERIES, scope="module")
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the client, with this release linked in and without symbols."""
    made = tmp_path_factory.mktemp("program") / "openssl_client"
    library = libraries.library(request.param)
    include = library.folder / "usr/include"
    headers = f"-I{include}", f"-I{include / 'x86_64-linux-gnu'}"
    linked = library.path, library.path.with_name("libcrypto.a"), "-ldl", "-lpthread"
    source = PROGRAMS / "c/openssl_client.c"
    run("gcc", "-O1", "-Wall", "-Werror", "-s", *headers, "-o", made, source, *linked)
    return made


@pytest.mark.parametrize("returns", ["instructions", "trampoline"])
@pytest.mark.parametrize("case", ["again", "other", "bio"])
def test_all_functions_for_data(
    program: Path, case: str, returns: str, server: Server, tmp_path: Path
) -> None:
    """SSL_read and SSL_write_ex, SSL_read_ex and SSL_write, a BIO; objects that follow another."""
    nonces = [new_nonce() for _ in range(REQUESTS)]
    port = str(server.port)
    ran = run_under(tmp_path, program, case, port, *nonces, options=("--returns", returns))
    ports = [int(line.split()[0]) for line in ran.stdout.decode().splitlines()]
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
    assert_passed(ran.captured, passed, role="client", library="openssl")
    assert_whole(ran.captured)
    assert connections(ran.captured) == len(set(ports))
