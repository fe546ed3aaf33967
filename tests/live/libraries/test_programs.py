"""Programs of others with wolfSSL, Mbed TLS and s2n-tls: every request, each byte, all ends."""

import contextlib
import http.server
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import libraries
from tests.live.checks import Sniff, assert_passed, assert_whole, connections, run_under
from tests.live.libraries.cases import ALL
from tests.live.running import ask
from tests.workload.debian import CACHE
from tests.workload.passed import Passed, new_nonce, sha256
from tests.workload.processes import PATIENCE_S, PROGRAMS, started
from tests.workload.python.server import Http1Handler, pattern
from tests.workload.servers import Certificate, Server

LIGHTTPD = ("1.4.69", "1.4.79") if ALL else ("1.4.69",)
STREAMS = ("--parallel-max", "8")
"""lighttpd allows eight at once; for more curl opens another connection."""
WHEELS = CACHE / "wheels/bin/python"

CONFIGURATION = """
server.document-root = "{folder}"
server.bind = "127.0.0.1"
server.port = {port}
server.upload-dirs = ("{folder}")
server.modules = ("mod_{library}", "mod_proxy")
ssl.engine = "enable"
ssl.pemfile = "{certificate}"
ssl.privkey = "{key}"
proxy.server = ("" => (("host" => "127.0.0.1", "port" => {behind})))
"""


@contextlib.contextmanager
def plain_server() -> Iterator[int]:
    """Serve HTTP/1.1 without TLS, in this process; yield the port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Http1Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def lighttpd(
    release: str, library: str, certificate: Certificate, folder: Path
) -> Iterator[Server]:
    """Run lighttpd with TLS by ``library``, as a proxy before a server without TLS."""
    found = libraries.library(f"lighttpd-{release}")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    file = folder / "lighttpd.conf"
    with plain_server() as behind:
        file.write_text(
            CONFIGURATION.format(
                folder=folder,
                port=port,
                library=library,
                certificate=certificate.certificate,
                key=certificate.key,
                behind=behind,
            )
        )
        program = found.folder / "usr/sbin/lighttpd"
        modules = found.folder / "usr/lib/lighttpd"
        with started(*found.loader, program, "-D", "-m", modules, "-f", file) as process:
            until_open(port)
            yield Server(process.pid, port)


def until_open(port: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.heavy
@pytest.mark.parametrize("library", ["wolfssl", "mbedtls"])
@pytest.mark.parametrize("release", LIGHTTPD)
def test_lighttpd(
    release: str, library: str, certificate: Certificate, tmp_path: Path, sniff: Sniff
) -> None:
    """HTTP/1.1 and HTTP/2; what it fetches from the server behind it has no TLS."""
    with (
        lighttpd(release, library, certificate, tmp_path) as server,
        sniff("--pid", str(server.pid)) as sniffer,
    ):
        passed = ask(server, certificate, tmp_path, *STREAMS)
        sniffer.until(50)
        sniffer.until(2 * 5, "connection")
        captured = sniffer.stop()
    assert_passed(captured, passed, role="server", library=library)
    assert_whole(captured)
    assert {each.protocol for each in passed} == {"http/1.1", "http/2"}
    assert connections(captured, joined=False) == 5
    assert connections(captured, "closed") == 5


@pytest.mark.parametrize(
    ("script", "protocol", "library", "sizes"),
    [
        ("awscrt_client.py", "1", "s2n", (0, 1, 70_000, 3_000_000)),
        ("awscrt_client.py", "2", "s2n", (0, 1, 70_000, 3_000_000)),
        ("mbedtls_client.py", "1", "mbedtls", (0, 1, 3000)),
    ],
)
def test_client(
    script: str,
    protocol: str,
    library: str,
    sizes: tuple[int, ...],
    server: Server,
    certificate: Certificate,
    tmp_path: Path,
) -> None:
    """Clients whose libraries pass records to them through memory."""
    bodies = {new_nonce(): pattern(size) for size in sizes}
    for nonce, body in bodies.items():
        (tmp_path / nonce).write_bytes(body)
    asked = (server.port, certificate.certificate, tmp_path, protocol, *bodies)
    program = PROGRAMS / "python" / script
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
    assert_passed(ran.captured, passed, role="client", library=library)
    assert_whole(ran.captured)
    assert connections(ran.captured, joined=False) == 1
