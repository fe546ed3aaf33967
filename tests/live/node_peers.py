"""Runs tests/workload/node/node_http.js as server and client, under sslsniff."""

from pathlib import Path
from typing import NamedTuple

from tests.live.checks import Sniff, assert_passed, assert_whole, connections
from tests.live.sniffer import Captured
from tests.workload.passed import told
from tests.workload.processes import PATIENCE_S, PROGRAMS, started
from tests.workload.servers import Certificate

PROGRAM = PROGRAMS / "node/node_http.js"
_ROOM = ("--ring-size", "64M")  # servers send faster than JSON is written


class Peers(NamedTuple):
    """What was captured of both, and their numbers."""

    captured: Captured
    server: int
    client: int


def watch_peers(
    command: tuple[str | Path, ...],
    certificate: Certificate,
    sniff: Sniff,
    *options: str,
    count: int = 24,
    library: str = "openssl",
) -> Peers:
    """Let ``command`` make ``count`` requests by HTTP/1.1 and as many by HTTP/2, to itself.

    All of them are captured, of both processes.
    """
    files = (certificate.certificate, certificate.key)
    with started(*command, "server", *files) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        pids = ("--pid", str(server.pid))
        with (
            started(*command, "client", files[0], port, str(count)) as client,
            sniff(*pids, "--pid", str(client.pid), *options, *_ROOM) as sniffer,
        ):
            stdout, _ = client.communicate("go\n", 2 * PATIENCE_S)
            sniffer.until(4 * count)
            captured = sniffer.stop()
    passed = told(stdout)
    assert len(passed) == 2 * count
    assert len({each.client for each in passed}) == 6
    assert_passed(captured, passed, role="client", pid=client.pid, library=library)
    assert_passed(captured, passed, role="server", pid=server.pid, library=library)
    assert_whole(captured)
    assert connections(captured) == 2 * 6
    return Peers(captured, server.pid, client.pid)


def assert_known(peers: Peers) -> None:
    """The library says the roles, and the name that the client asks for."""
    opened = [each for each in peers.captured.of("connection") if each["event"] == "opened"]
    assert {(each["pid"], each["role"]) for each in opened} == {
        (peers.server, "server"),
        (peers.client, "client"),
    }
    assert {each["sni"] for each in opened if each["pid"] == peers.client} == {"localhost"}


def assert_protocols(peers: Peers) -> None:
    """Four connections of HTTP/1.1 offer no protocol, two agree on h2; at both ends."""
    closed = [each for each in peers.captured.of("connection") if each["event"] == "closed"]
    assert sorted((each["alpn"] for each in closed), key=str) == [None] * 8 + ["h2"] * 4
