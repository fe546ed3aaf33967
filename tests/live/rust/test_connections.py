"""rustls connections: from before, one after the other, with new keys, with early data."""

import re
import signal
import ssl
import sys
import time
from collections import Counter
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from tests.live.checks import (
    Sniff,
    address,
    assert_passed,
    assert_whole,
    connections,
    content,
    run_under,
)
from tests.live.running import assert_captured
from tests.live.test_http2_joined import assert_request, find_nonce
from tests.workload.clients import ask
from tests.workload.curl import Request, curl, results
from tests.workload.passed import sha256, told
from tests.workload.processes import PATIENCE_S, PROGRAMS, run, started
from tests.workload.rust.fixtures import Fixture, fixtures
from tests.workload.servers import Certificate, Server, built_server

AFTER_EACH_OTHER = 200
[SERVER] = [each for each in fixtures("server") if each[1:] == ("rustls-0-23-ring", "release")]
FIFTY = ["10"] * 5
FILLING = [8_000_000, *[4_000, 1_000, 0] * 20, *[0] * 20]
"""Bodies that fill a ring of 4 MiB, so that 312 bytes have no room."""
WITH_KEY_UPDATES = [each for each in fixtures("blocking") if each.tls.startswith("rustls-0-23")]


def each(*programs: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("fixture", fixtures(*programs), ids="-".join)


@pytest.mark.heavy
@each("server")
def test_joined_http1(fixture: Fixture, certificate: Certificate, sniff: Sniff) -> None:
    with built_server(fixture.path, certificate) as server:
        command = (PROGRAMS / "python/python_client.py", "http.client", str(server.port))
        with started(sys.executable, *command, certificate.certificate) as client:
            ask(client, 5)
            with sniff("--pid", str(server.pid)) as sniffer:
                passed = ask(client, 9) + ask(client, 8)
                client.communicate(timeout=PATIENCE_S)
                sniffer.until(2, "connection")
                captured = sniffer.stop()
    assert_passed(captured, passed, role="server", library="rustls")
    assert_whole(captured)
    assert connections(captured, joined=True) == connections(captured, "closed") == 1
    assert captured.summary["joined_connections"] == 1


@pytest.mark.heavy
@each("server")
def test_joined_http2(fixture: Fixture, certificate: Certificate, sniff: Sniff) -> None:
    """The HPACK tables of before are unknown: what they tell is left out, none of it is wrong."""
    with built_server(fixture.path, certificate) as server:
        command = (PROGRAMS / "python/h2_client.py", str(server.port), certificate.certificate)
        with started(sys.executable, *command) as client:
            ask(client, 5)
            with sniff("--pid", str(server.pid)) as sniffer:
                passed = {each.nonce: each for each in ask(client, 9) + ask(client, 8)}
                client.communicate(timeout=PATIENCE_S)
                sniffer.until(2, "connection")
                captured = sniffer.stop()
    for exchange in captured.exchanges:
        response = exchange["response"]
        true = passed.pop(find_nonce(response, passed))
        assert (exchange["protocol"], exchange["error"]) == ("http/2", None)
        assert address(exchange["client"]) == true.client
        assert address(exchange["server"]) == true.server
        assert response["status"] in {true.status, None}
        assert sha256(content(response["body"])) == true.response_sha256
        assert_request(exchange["request"], true)
    assert passed == {}
    assert_whole(captured)
    assert connections(captured, joined=True) == connections(captured, "closed") == 1


@pytest.mark.heavy
@each("server")
def test_one_after_the_other(
    fixture: Fixture, certificate: Certificate, tmp_path: Path, sniff: Sniff
) -> None:
    """Each has its ciphers where those of one before it were."""
    asked = [Request(f"/bytes/{number}") for number in range(AFTER_EACH_OTHER)]
    with (
        built_server(fixture.path, certificate) as server,
        sniff("--pid", str(server.pid)) as sniffer,
    ):
        command = curl(
            server.url, asked, certificate, tmp_path, "--http1.1", "-H", "connection: close"
        )
        passed = results(run(*command), asked)
        sniffer.until(2 * AFTER_EACH_OTHER, "connection")
        captured = sniffer.stop()
    assert_passed(captured, passed, role="server", library="rustls")
    assert_whole(captured)
    assert connections(captured) == connections(captured, "closed") == AFTER_EACH_OTHER


@pytest.mark.heavy
@pytest.mark.parametrize("fixture", WITH_KEY_UPDATES, ids="-".join)
def test_client_with_key_updates(
    fixture: Fixture,
    server: Server,
    certificate: Certificate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each request and answer has keys of its own."""
    monkeypatch.setenv("KEY_UPDATES", "1")
    ran = run_under(tmp_path, fixture.path, str(server.port), certificate.certificate, *FIFTY)
    assert_captured(ran.captured, told(ran.stdout.decode()), "client", "rustls", "1.3")
    assert connections(ran.captured, joined=False) == 5


@pytest.mark.heavy
@pytest.mark.parametrize("fixture", WITH_KEY_UPDATES, ids="-".join)
def test_server_with_key_updates(fixture: Fixture, certificate: Certificate, sniff: Sniff) -> None:
    with (
        built_server(SERVER.path, certificate) as server,
        sniff("--pid", str(server.pid)) as sniffer,
    ):
        client = (str(fixture.path), str(server.port), str(certificate.certificate), *FIFTY)
        passed = told(run(*client, KEY_UPDATES="1"))
        sniffer.until(2 * 5, "connection")
        captured = sniffer.stop()
    assert_captured(captured, passed, "server", "rustls", "1.3")
    assert connections(captured, joined=False) == 5


@pytest.mark.heavy
@each("early-data")
def test_early_data(fixture: Fixture, certificate: Certificate, tmp_path: Path) -> None:
    """What the client sends before the handshake ends has keys of its own; of both ends."""
    ran = run_under(tmp_path, fixture.path, certificate.certificate, certificate.key, "12")
    passed = told(ran.stdout.decode())
    assert len(passed) == 12
    for role in ("client", "server"):
        assert_passed(ran.captured, passed, role=role, library="rustls")
    assert_whole(ran.captured)
    assert connections(ran.captured, joined=False) == connections(ran.captured, "closed") == 2 * 12


class Clients:
    """Connections to a server, one request after the other on each."""

    def __init__(self, server: Server, certificate: Certificate, count: int) -> None:
        context = ssl.create_default_context(cafile=certificate.certificate)
        self._server = server
        self._before = self._server_files()
        self.open = [
            HTTPSConnection("localhost", server.port, context=context) for _ in range(count)
        ]

    def ask(self, client: HTTPSConnection, size: int) -> None:
        client.request("GET", f"/bytes/{size}")
        assert len(client.getresponse().read()) == size

    def close(self, clients: list[HTTPSConnection]) -> None:
        """Close some, and wait until the server has, too."""
        for client in clients:
            client.close()
            self.open.remove(client)
        deadline = time.monotonic() + PATIENCE_S
        while self._server_files() > self._before + len(self.open):
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def _server_files(self) -> int:
        return len(list(Path(f"/proc/{self._server.pid}/fd").iterdir()))


@pytest.mark.heavy
def test_lost_ends(certificate: Certificate, sniff: Sniff) -> None:
    """The ring is full when connections end: each counts once, though it has two halves."""
    with built_server(SERVER.path, certificate) as server:
        clients = Clients(server, certificate, 30)
        long, marker, *short = clients.open
        with sniff("--pid", str(server.pid), "--ring-size", "4M", "--max-body", "0") as sniffer:
            for client in clients.open:
                clients.ask(client, 0)
            sniffer.until(len(clients.open))
            sniffer.process.send_signal(signal.SIGSTOP)
            for size in FILLING:
                clients.ask(long, size)
            clients.close(short)
            sniffer.process.send_signal(signal.SIGCONT)
            deadline = time.monotonic() + PATIENCE_S
            while '"/bytes/77"' not in sniffer.output.read_text():
                assert time.monotonic() < deadline
                clients.ask(marker, 77)
                time.sleep(0.05)
            clients.close([long, marker])
            captured = sniffer.stop()

    told_ends = re.search(r"the ends of 0 processes and (\d+) connections", captured.stderr)
    assert told_ends is not None, captured.stderr
    events = Counter(each["event"] for each in captured.of("connection"))
    assert events["opened"] == 30
    assert int(told_ends[1]) == events["opened"] - events["closed"] > len(short) - 4
    assert "were evicted" not in captured.stderr
