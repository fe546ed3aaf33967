"""An HTTP/2 connection that is joined in the middle: the HPACK tables of before are unknown."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.live.checks import Sniff, address, connections, content
from tests.workload.clients import ask
from tests.workload.passed import Passed, sha256
from tests.workload.processes import PATIENCE_S, PROGRAMS, started
from tests.workload.servers import Certificate, Server


def find_nonce(half: dict[str, Any], nonces: Iterable[str]) -> str:
    """Return the nonce in a request or response; the header's name may be unknown."""
    values: set[str] = {value for _, value in half["headers"]}
    [nonce] = values.intersection(nonces)
    assert {name for name, value in half["headers"] if value == nonce} <= {"x-nonce", None}
    return nonce


def assert_request(request: dict[str, Any], true: Passed) -> None:
    """What cannot be known is None, never something else."""
    assert find_nonce(request, [true.nonce]) == true.nonce
    assert request["method"] in {true.method, None}
    assert request["target"] in {true.target, None}
    assert sha256(content(request["body"])) == true.request_sha256


def test_joined_in_the_middle(server: Server, certificate: Certificate, sniff: Sniff) -> None:
    command: list[str | Path] = [
        PROGRAMS / "python/h2_client.py",
        str(server.port),
        certificate.certificate,
    ]
    with started(sys.executable, *command) as client:
        ask(client, 5)
        pids = ("--pid", str(client.pid), "--pid", str(server.pid))
        with sniff(*pids) as sniffer:
            first, second = ask(client, 9), ask(client, 8)
            client.communicate(timeout=PATIENCE_S)
            sniffer.until(2 * 17)
            captured = sniffer.stop()

    passed = {each.nonce: each for each in first + second}
    # The server's thread waited inside SSL_read before there were probes: what this one call
    # brought cannot be seen, so that some of its first requests are missing, not their answers.
    partly = {each.nonce for each in first}
    for pid, unseen in ((client.pid, set()), (server.pid, partly)):
        found = set()
        for exchange in captured.exchanges:
            if exchange["pid"] != pid:
                continue
            response = exchange["response"]
            nonce = find_nonce(response, passed)
            found.add(nonce)
            true = passed[nonce]
            assert exchange["protocol"] == "http/2"
            assert address(exchange["client"]) == true.client
            assert address(exchange["server"]) == true.server
            assert response["status"] in {true.status, None}
            assert sha256(content(response["body"])) == true.response_sha256
            if nonce not in unseen:
                assert exchange["error"] is None
                assert_request(exchange["request"], true)
        assert found == set(passed)
    assert len(captured.exchanges) == 2 * 17
    assert captured.summary["lost_bytes"] == 0
    assert {each["pid"] for each in captured.of("undecoded")} <= {server.pid}
    assert connections(captured, joined=True, alpn="h2") == 2
    assert captured.summary["joined_connections"] == 2
