"""HTTP/2 streams and HTTP/1 requests that began before the capture: what is known is shown."""

import sys
from pathlib import Path
from typing import Any

from tests.live.checks import Sniff, content, read
from tests.live.sniffer import Captured
from tests.workload.processes import PROGRAMS, next_line, say, started
from tests.workload.servers import Certificate, Server

HTTP1 = """
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
tls = context.wrap_socket(
    socket.create_connection(("127.0.0.1", int(sys.argv[1]))), server_hostname="localhost"
)
ask = lambda: tls.sendall(b"GET /bytes/10 HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
def take():
    data = b""
    while len(data.partition(b"\\r\\n\\r\\n")[2]) < 10:
        data += tls.recv(65536)
ask()
print(flush=True)
input()
take()
ask()
take()
print(flush=True)
input()
"""


def known(exchange: dict[str, Any]) -> tuple[Any, ...]:
    """Return what an exchange says: stream, target, status, body, number, trailers, error."""
    request, response = exchange["request"], exchange["response"]
    numbers = [value for name, value in response["headers"] if name in {"x-number", None}]
    return (
        exchange["stream"],
        request and request["target"],
        response["status"],
        content(response["body"]),
        [each for each in numbers if each is not None],
        response["trailers"],
        exchange["error"],
    )


EXPECTED = [
    (1, None, None, b"last", [], [["x-trailer", "done"]], None),
    (3, None, None, b"the rest", [], [], None),
    (5, None, 200, b"whole", ["5"], [], None),
    (7, None, None, b"more", [], [], "capture ended"),
    (9, "/9", 200, b"new", ["9"], [], None),
]


def assert_expected(captured: Captured) -> None:
    """Both ends show the same, and the summary counts what began before."""
    for role in ("client", "server"):
        ends = [each for each in captured.exchanges if each["role"] == role]
        assert sorted(map(known, ends)) == EXPECTED
    assert captured.summary["exchanges_without_request"] == 2 * 4
    assert captured.of("undecoded") == []
    assert captured.summary["lost_bytes"] == 0


def test_streams_of_http2(certificate: Certificate, tmp_path: Path, sniff: Sniff) -> None:
    program = PROGRAMS / "python/earlier_streams.py"
    files = certificate.certificate, certificate.key
    capture = tmp_path / "earlier.pcapng"
    with started(sys.executable, program, *files) as process:
        next_line(process)
        with sniff("--pid", str(process.pid), "--pcap", str(capture)) as sniffer:
            say(process, "go on")
            next_line(process)
            sniffer.until(8)
            captured = sniffer.stop()
    assert_expected(captured)
    assert_expected(read(capture))


def test_a_request_of_http1(server: Server, certificate: Certificate, sniff: Sniff) -> None:
    command = (sys.executable, "-c", HTTP1, str(server.port), certificate.certificate)
    with started(*command) as client:
        next_line(client)
        with sniff("--pid", str(client.pid)) as sniffer:
            say(client, "go on")
            next_line(client)
            sniffer.until(2)
            captured = sniffer.stop()
    first, second = captured.exchanges
    assert (first["request"], first["response"]["status"]) == (None, 200)
    assert second["request"]["target"] == "/bytes/10"
    assert captured.summary["exchanges_without_request"] == 1
