"""Handshakes that fail in a Rust program with BoringSSL, with symbols and without: each once."""

import shlex
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.live.checks import Sniff, run_under
from tests.live.conftest import made, sniff  # noqa: F401 - fixtures
from tests.live.failing_handshakes import (
    COUNT,
    KINDS_OF_BORINGSSL,
    SERVER_KINDS,
    assert_shown,
    peer,
    servers,
    together,
)
from tests.workload.certificates import Authority
from tests.workload.processes import started
from tests.workload.rust.fixtures import BORINGSSL, Fixture

FIXTURES = [Fixture("boringssl-handshakes", each.tls, each.profile) for each in BORINGSSL]

CLIENT_WITHOUT_SYMBOLS = KINDS_OF_BORINGSSL | {
    # Of what was sent only the error is known, "certificate verify failed".
    "untrusted": "bad_certificate",
    "expired": "bad_certificate",
}
SERVER_WITHOUT_SYMBOLS = SERVER_KINDS | {"untrusted_client": "bad_certificate"}


def is_stripped(fixture: Fixture) -> bool:
    return fixture.profile == "strip-symbols"


@pytest.mark.parametrize("fixture", FIXTURES, ids="-".join)
def test_clients(
    fixture: Fixture,
    made: Authority,  # noqa: F811
    tmp_path: Path,
) -> None:
    kinds = dict(CLIENT_WITHOUT_SYMBOLS if is_stripped(fixture) else KINDS_OF_BORINGSSL)
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


@pytest.mark.parametrize("fixture", FIXTURES, ids="-".join)
def test_servers(
    fixture: Fixture,
    made: Authority,  # noqa: F811
    sniff: Sniff,  # noqa: F811
) -> None:
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
