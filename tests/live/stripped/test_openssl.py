"""Programs with OpenSSL linked in and stripped: every request, each byte."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests import libraries
from tests.live.checks import Sniff, assert_passed, assert_whole, connections, run_under
from tests.live.node_peers import PROGRAM as NODE_PROGRAM
from tests.live.node_peers import assert_known, assert_protocols, watch_peers
from tests.workload.node import NODE
from tests.workload.passed import Passed, new_nonce, sha256, told
from tests.workload.processes import PROGRAMS, run
from tests.workload.python.server import pattern
from tests.workload.rust.fixtures import STRIPPED, Fixture, fixtures
from tests.workload.servers import Certificate, Server

pytestmark = pytest.mark.heavy

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


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Node.js without symbols."""
    made = tmp_path_factory.mktemp("node") / "node"
    shutil.copy(NODE, made)
    run("strip", made)
    return made


@pytest.mark.parametrize("count", [24, 1000])
def test_node(node: Path, count: int, certificate: Certificate, sniff: Sniff) -> None:
    command = (node, NODE_PROGRAM)
    peers = watch_peers(command, certificate, sniff, "--lib", str(node), count=count)
    assert_known(peers)
    assert_protocols(peers)


@pytest.mark.parametrize("program", fixtures("two-libraries", builds=STRIPPED), ids="-".join)
def test_rustls_and_openssl_in_one_file(
    program: Fixture, server: Server, certificate: Certificate, tmp_path: Path
) -> None:
    asked = (str(server.port), str(certificate.certificate), str(REQUESTS))
    ran = run_under(tmp_path, program.path, *asked)
    passed = told(ran.stdout.decode())
    assert len(passed) == 2 * REQUESTS
    assert_whole(ran.captured)
    assert connections(ran.captured) == 2
    for library, own in (("rustls", passed[::2]), ("openssl", passed[1::2])):
        exchanges = [each for each in ran.captured.exchanges if each["library"] == library]
        captured = replace(ran.captured, objects=exchanges)
        assert_passed(captured, own, role="client", library=library)
