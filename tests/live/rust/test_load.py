"""A Rust server under load, watched and not: the same answers, and panics stay caught."""

import time
from collections import Counter

import pytest

from tests.live.checks import Sniff
from tests.workload.passed import told
from tests.workload.processes import run
from tests.workload.rust.fixtures import ALL, Fixture, fixtures
from tests.workload.servers import Certificate, Server, built_server

SECONDS = 60 if ALL else 15
CONNECTIONS = ("1:12", "1:12", "1:12", "2:20", "2:20")
[CLIENT] = [
    each for each in fixtures("reqwest-client") if each[1:] == ("rustls-0-23-ring", "release")
]
SERVERS = [each for each in fixtures("server") if each.catches_panics]


def load(server: Server, certificate: Certificate) -> tuple[Counter[tuple[str, int]], set[str]]:
    """Ask for as long; return how often each target gave each status, and the bodies of GETs."""
    answers: Counter[tuple[str, int]] = Counter()
    bodies = set()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        options = (str(server.port), str(certificate.certificate), *CONNECTIONS)
        for each in told(run(CLIENT.path, *options, PANIC_EVERY="10")):
            answers[each.target, each.status] += 1
            if each.method == "POST":
                assert each.response_sha256 == each.request_sha256
            else:
                bodies.add(f"{each.target} {each.response_sha256}")
    return answers, bodies


@pytest.mark.measured
@pytest.mark.parametrize("fixture", SERVERS, ids="-".join)
def test_load(fixture: Fixture, certificate: Certificate, sniff: Sniff) -> None:
    with built_server(fixture.path, certificate) as server:
        _, unprobed = load(server, certificate)
        with sniff("--pid", str(server.pid), "--max-body", "1000") as sniffer:
            answers, probed = load(server, certificate)
            captured = sniffer.stop()
    assert probed == unprobed
    assert {status for target, status in answers if target == "/panic"} == {500}
    assert {status for target, status in answers if target != "/panic"} == {200}
    assert captured.code == 0
    assert captured.summary["exchanges"] > 0
