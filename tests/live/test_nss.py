"""NSS, as client and as server: each byte once, whichever way a program writes and reads."""

import contextlib
import http.client
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import libraries
from tests.live.checks import Sniff, assert_passed, assert_whole, connections, seen
from tests.workload.passed import Passed, new_nonce, sha256
from tests.workload.processes import PROGRAMS, next_line, released, run, say, started
from tests.workload.python.server import pattern
from tests.workload.servers import Certificate, Server

WAYS = ("read", "send", "peek", "vector", "waiting", "layer", "bytes")
SIZES = {"bytes": 2000, "peek": 40_000}
USUAL = 3_000_000
NEWEST = libraries.NSS[-1]
HEADERS = ("-I/usr/include/nss", "-I/usr/include/nspr")
FLAGS = ("-O1", "-Wall", "-Werror", "-D_GNU_SOURCE", *HEADERS)


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return tests/workload/c/nss_peer.c, ready to run with any NSS."""
    made = tmp_path_factory.mktemp("nss") / "nss_peer"
    run("gcc", *FLAGS, "-o", made, PROGRAMS / "c/nss_peer.c", "-lssl3", "-lnss3", "-lnspr4")
    return made


@pytest.fixture(scope="session")
def der(certificate: Certificate, tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """Return the certificate and its key in the form that NSS reads."""
    folder = tmp_path_factory.mktemp("der")
    made = Certificate(folder / "certificate.der", folder / "key.der")
    run(
        "openssl",
        "x509",
        "-in",
        certificate.certificate,
        "-outform",
        "DER",
        "-out",
        made.certificate,
    )
    form = ("-topk8", "-nocrypt", "-outform", "DER")
    run("openssl", "pkcs8", *form, "-in", certificate.key, "-out", made.key)
    return made


def peer(series: str, program: Path, folder: Path, *arguments: str | Path) -> list[str]:
    """Return the command for the program with this NSS, in a folder that it may write to."""
    loader = libraries.library(series).loader
    return [*map(str, ("env", "-C", folder, *loader, program, *arguments))]


def body(size: int) -> bytes:
    """Return what the client sends."""
    return bytes((each * 2654435761 & 0xFFFFFFFF) >> 24 for each in range(size))


@contextlib.contextmanager
def proxy() -> Iterator[int]:
    """Run a proxy that takes CONNECT in plaintext, for one connection; yield its port."""

    def pass_on(source: socket.socket, target: socket.socket) -> None:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)

    def serve() -> None:
        with listener.accept()[0] as client:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += client.recv(1)
            port = int(re.match(rb"CONNECT localhost:(\d+) ", head)[1])  # type: ignore[index]
            with socket.create_connection(("127.0.0.1", port)) as upstream:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=pass_on, args=(upstream, client))
                back.start()
                pass_on(client, upstream)
                back.join()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


@pytest.mark.heavy
@pytest.mark.parametrize("series", libraries.NSS)
@pytest.mark.parametrize("way", [*WAYS, "later"])
def test_a_client(
    way: str, series: str, program: Path, server: Server, sniff: Sniff, tmp_path: Path
) -> None:
    size = SIZES.get(way, USUAL if series == NEWEST else 300_000)
    nonces = [new_nonce() for _ in range(2)]
    with contextlib.ExitStack() as ending:
        ports, to = str(server.port), server.port
        if way == "later":
            to = ending.enter_context(proxy())
            ports = f"{to}:{server.port}"
        given = ("client", way, ports, str(size), *nonces)
        client = ending.enter_context(released(peer(series, program, tmp_path, *given)))
        given_library = str(libraries.library(series).path)
        with sniff("--pid", str(client.pid), "--lib", given_library) as sniffer:
            say(client, "go")
            local = int(next_line(client))
            assert client.wait() == 0
            captured = sniffer.stop()
    passed = [
        Passed(
            nonce=nonce,
            protocol="http/1.1",
            method="POST",
            target="/slow" if way == "waiting" else "/echo",
            status=200,
            client=("127.0.0.1", local),
            server=("127.0.0.1", to),
            request_sha256=sha256(body(size)),
            response_sha256=sha256(body(size)),
        )
        for nonce in nonces
    ]
    assert_passed(captured, passed, role="client", library="nss")
    assert_whole(captured)
    assert connections(captured, joined=False, role="client") == 1
    assert connections(captured, "closed") == 1
    assert len(captured.exchanges) == len(nonces)
    assert "/plain" not in sniffer.output.read_text()


def connection(port: int) -> contextlib.closing[http.client.HTTPSConnection]:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    made = http.client.HTTPSConnection("127.0.0.1", port, context=trusting, timeout=60)
    return contextlib.closing(made)


def post(port: int, size: int, nonce: str) -> Passed:
    """Send a request on a connection of its own; return what passed."""
    with connection(port) as client:
        return post_one(client, pattern(size), nonce)


def post_one(client: http.client.HTTPSConnection, data: bytes, nonce: str) -> Passed:
    client.request("POST", "/echo", data, {"x-nonce": nonce})
    response = client.getresponse()
    answer = response.read()
    assert answer == data
    return Passed(
        nonce=nonce,
        protocol="http/1.1",
        method="POST",
        target="/echo",
        status=200,
        client=client.sock.getsockname(),
        server=client.sock.getpeername(),
        request_sha256=sha256(data),
        response_sha256=sha256(answer),
    )


@contextlib.contextmanager
def serving(
    way: str, series: str, program: Path, der: Certificate, folder: Path
) -> Iterator[Server]:
    """Run the server, with the NSS of this series."""
    files = (der.certificate, der.key)
    with started(*peer(series, program, folder, "server", way, *files)) as process:
        yield Server(process.pid, int(next_line(process)))


@pytest.mark.heavy
@pytest.mark.parametrize("series", libraries.NSS)
@pytest.mark.parametrize("way", WAYS)
def test_a_server(
    way: str, series: str, program: Path, der: Certificate, sniff: Sniff, tmp_path: Path
) -> None:
    """It begins before sslsniff does."""
    with (
        serving(way, series, program, der, tmp_path) as served,
        sniff("--pid", str(served.pid)) as sniffer,
    ):
        sizes = (1, 16_384, 16_385, SIZES.get(way, USUAL if series == NEWEST else 300_000))
        passed = [post(served.port, size, new_nonce()) for size in sizes]
        sniffer.until(len(sizes))
        sniffer.until(2 * len(sizes), "connection")
        captured = sniffer.stop()
    assert_passed(captured, passed, role="server", library="nss")
    assert_whole(captured)
    assert connections(captured, joined=False, role="server") == len(sizes)
    assert connections(captured, "closed") == len(sizes)
    assert "/plain" not in sniffer.output.read_text()


def test_a_connection_that_is_joined(
    program: Path, der: Certificate, sniff: Sniff, tmp_path: Path
) -> None:
    """The server polls, and so is in no call when the probes are placed."""
    with (
        serving("waiting", NEWEST, program, der, tmp_path) as served,
        connection(served.port) as client,
    ):
        post_one(client, b"before", new_nonce())
        with sniff("--pid", str(served.pid)) as sniffer:
            passed = post_one(client, b"after", new_nonce())
            sniffer.until(1)
            captured = sniffer.stop()
    assert_passed(captured, [passed], role="server", library="nss")
    assert_whole(captured)
    assert connections(captured, joined=True, role="server") == 1
    assert captured.not_probed == []


@pytest.mark.heavy
@pytest.mark.parametrize("series", libraries.NSS)
def test_early_data(
    series: str, program: Path, der: Certificate, sniff: Sniff, tmp_path: Path
) -> None:
    """It is read before the handshake is done, by a function that ends elsewhere."""
    session, early = tmp_path / "session", tmp_path / "early"
    bodies = [pattern(size).hex().encode() for size in (250, 4500)]  # openssl prints it
    nonces = [new_nonce() for _ in bodies]
    with (
        serving("early", series, program, der, tmp_path) as served,
        sniff("--pid", str(served.pid)) as sniffer,
    ):
        first = post(served.port, len(bodies[0]), nonces[0])
        client = f"sleep 1 | openssl s_client -connect 127.0.0.1:{served.port}"
        run("sh", "-c", f"{client} -sess_out {session}")
        head = f"POST /echo HTTP/1.1\r\nx-nonce: {nonces[1]}\r\n"
        early.write_bytes(f"{head}Content-Length: {len(bodies[1])}\r\n\r\n".encode() + bodies[1])
        told = run("sh", "-c", f"{client} -sess_in {session} -early_data {early}")
        assert "Early data was accepted" in told
        sniffer.until(2)
        captured = sniffer.stop()
    digest = sha256(bodies[1])
    whole, resumed = map(seen, captured.exchanges)
    assert whole == first
    assert (resumed.nonce, resumed.target) == (nonces[1], "/echo")
    assert (resumed.request_sha256, resumed.response_sha256) == (digest, digest)
    assert_whole(captured)
