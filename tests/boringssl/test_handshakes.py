"""Handshakes that fail in a Rust program with BoringSSL, with symbols and without: each once."""

import shlex
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.live.checks import Sniff, run_under
from tests.live.conftest import made, sniff  # noqa: F401 - fixtures
from tests.live.failing_handshakes import (
    COUNT,
    KINDS_OF_BORINGSSL,
    SERVER_KINDS,
    Running,
    announced_server,
    assert_servers_show,
    assert_shown,
    servers,
    together,
)
from tests.workload.certificates import Authority
from tests.workload.rust.fixtures import BORINGSSL, Fixture
from tests.workload.servers import Certificate

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

    def server(kind: str, used: Certificate) -> AbstractContextManager[Running]:
        files = (used.certificate, used.key, made.certificate)
        return announced_server([*map(str, (fixture.path, "server", kind, *files))])

    assert_servers_show(kinds, made, sniff, server)
