"""Each handshake that fails in a program with BoringSSL is shown once, with what went wrong.

With symbols and without; ``make test-boringssl`` builds the program.
"""

import shlex
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.live.checks import Sniff, run_under
from tests.live.failing_handshakes import (
    CLIENT_KINDS,
    COUNT,
    SERVER_KINDS,
    assert_shown,
    peer,
    servers,
    together,
)
from tests.workload.certificates import Authority
from tests.workload.processes import PROGRAMS, started
from tests.workload.rust.fixtures import BORINGSSL, Fixture

WHEELS = PROGRAMS.parents[1] / ".cache/wheels/bin/python"
CURL = PROGRAMS / "python/failing_curl_cffi.py"
PROGRAM = "boringssl-handshakes"
FIXTURES = [Fixture(PROGRAM, each.tls, each.profile) for each in BORINGSSL]

CLIENT = CLIENT_KINDS | {"wrong_name": "bad_certificate"}  # its alert says no more
CLIENT_WITHOUT_SYMBOLS = CLIENT | {
    # Of what was sent only the error is known, "certificate verify failed".
    "untrusted": "bad_certificate",
    "expired": "bad_certificate",
}
SERVER_WITHOUT_SYMBOLS = SERVER_KINDS | {"untrusted_client": "bad_certificate"}


def is_stripped(fixture: Fixture) -> bool:
    return fixture.profile == "strip-symbols"


@pytest.mark.heavy
def test_curl(made: Authority, tmp_path: Path) -> None:
    """It looks at the certificate when the handshake is complete."""
    kinds = dict(CLIENT)
    for each in ("untrusted", "expired", "wrong_name", "client_certificate"):
        del kinds[each]
    with servers(kinds, made) as running:
        ports = {kind: port for kind, (_, port) in running.items()}
        commands = [
            shlex.join(map(str, (WHEELS, CURL, kind, port, COUNT, made.certificate)))
            for kind, port in ports.items()
        ]
        captured = run_under(tmp_path, *together(*commands)).captured
    assert_shown(captured, ports, kinds, exchanges=COUNT)


@pytest.mark.measured
@pytest.mark.parametrize("fixture", FIXTURES, ids="-".join)
def test_clients(fixture: Fixture, made: Authority, tmp_path: Path) -> None:
    kinds = dict(CLIENT_WITHOUT_SYMBOLS if is_stripped(fixture) else CLIENT)
    del kinds["client_certificate"]  # the server may reset the connection before its alert is read
    if is_stripped(fixture):
        del kinds["late_certificate"]  # its alert comes after the handshake
    with servers(kinds, made) as running:
        ports = {kind: port for kind, (_, port) in running.items()}
        commands = []
        for kind, port in ports.items():
            trusted = made.stranger if kind == "untrusted" else made.certificate
            command = (fixture.path, "client", kind, port, COUNT, trusted)
            commands.append(shlex.join(map(str, command)))
        captured = run_under(tmp_path, *together(*commands)).captured
    assert_shown(captured, ports, kinds, exchanges=COUNT)


@pytest.mark.measured
@pytest.mark.parametrize("fixture", FIXTURES, ids="-".join)
def test_servers(fixture: Fixture, made: Authority, sniff: Sniff) -> None:
    kinds = SERVER_WITHOUT_SYMBOLS if is_stripped(fixture) else SERVER_KINDS
    ports: dict[str, int] = {}
    with ExitStack() as running:
        pids: list[str] = []
        for kind in kinds:
            used = {"expired": made.expired, "wrong_name": made.wrong_name}.get(kind, made.good)
            command = (fixture.path, "server", kind, used.certificate, used.key, made.certificate)
            process = running.enter_context(started(*map(str, command)))
            assert process.stdout is not None
            ports[kind] = int(process.stdout.readline())
            pids += ["--pid", str(process.pid)]
        clients = [shlex.join(peer("client", kind, port, made)) for kind, port in ports.items()]
        with sniff(*pids) as sniffer:
            subprocess.run(together(*clients), check=True)
            captured = sniffer.stop()
    assert_shown(captured, ports, kinds)
    assert {each["role"] for each in captured.of("handshake")} == {"server"}
