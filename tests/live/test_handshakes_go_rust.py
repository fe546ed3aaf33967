"""Each handshake that fails in a program of Go or Rust is shown once, with what went wrong.

Their libraries encrypt all but the first messages, so only they know most alerts.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.live.checks import Sniff, run_under
from tests.live.failing_handshakes import (
    CLIENT_KINDS,
    COUNT,
    SERVER_KINDS,
    Running,
    announced_server,
    assert_servers_show,
    assert_shown,
    impatient,
    repeated,
    servers,
    together,
)
from tests.workload.certificates import Authority
from tests.workload.go.fixtures import Fixture as GoFixture
from tests.workload.go.fixtures import fixtures as go_fixtures
from tests.workload.rust.fixtures import Fixture as RustFixture
from tests.workload.rust.fixtures import fixtures as rust_fixtures
from tests.workload.servers import Certificate

pytestmark = pytest.mark.heavy

BY_RUSTLS = {"wrong_name": "bad_certificate"}
"""How handshakes fail -> the kind that a client with rustls shows, whose alerts alone are seen."""

BY_SERVER = {
    "no_shared_cipher": "refused",  # their alert says no more
}
BY_RUSTLS_SERVER = BY_SERVER | {"unknown_name": "refused"}
BY_OLD_GO = {
    # Until these releases a server said so in a text alone.
    "untrusted_client": ((1, 20), "bad_certificate"),
    "client_certificate": ((1, 21), "bad_certificate"),
}

RUSTLS_SERVER_OPTIONS = {
    "no_shared_version": {"TLS_VERSION": "1.3"},
    "unknown_name": {"NO_CERTIFICATE": "1"},
}


class Client(NamedTuple):
    """A program, what it gets for one connection, and what differs from ``CLIENT_KINDS``."""

    fixture: GoFixture | RustFixture
    connection: str
    kinds: Mapping[str, str]

    def __str__(self) -> str:
        return "-".join(self.fixture)


CLIENTS = (
    *(
        Client(each, "1", BY_RUSTLS)
        for each in rust_fixtures("blocking")
        if each.library != "openssl"
    ),
    *(Client(each, "1:1", {}) for each in go_fixtures("client")),
)


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_clients(client: Client, made: Authority, tmp_path: Path) -> None:
    """A program for each handshake. Those that wait come last: the first is held until its file is
    analysed."""
    kinds = {**CLIENT_KINDS, **client.kinds}
    del kinds["client_certificate"]  # the server may reset the connection before its alert is read
    with servers(kinds, made) as running:
        ports = {kind: port for kind, (_, port) in running.items()}
        commands = {}
        for kind, port in ports.items():
            trusted = made.stranger if kind == "untrusted" else made.certificate
            command = f"{client.fixture.path} {port} {trusted} {client.connection}"
            if kind == "no_shared_version":
                command = f"TLS_VERSION=1.2 {command}"
            commands[kind] = command
        last = impatient(commands.pop("timeout"))
        captured = run_under(
            tmp_path, *together(*map(repeated, commands.values()), last=last)
        ).captured
    assert_shown(captured, ports, kinds, exchanges=COUNT)  # those of late_certificate


def server_of_go(
    fixture: GoFixture, kind: str, used: Certificate, made: Authority
) -> tuple[list[str], dict[str, str]]:
    command = (fixture.path, kind, used.certificate, used.key, made.certificate)
    return [*map(str, command)], {}


def server_of_rustls(
    fixture: RustFixture, kind: str, used: Certificate, made: Authority
) -> tuple[list[str], dict[str, str]]:
    options = RUSTLS_SERVER_OPTIONS.get(kind, {})
    if kind in ("client_certificate", "untrusted_client"):
        options = {"CLIENT_AUTHORITY": str(made.certificate)}
    return [*map(str, (fixture.path, used.certificate, used.key))], options


def server_kinds(fixture: GoFixture | RustFixture) -> dict[str, str]:
    if isinstance(fixture, RustFixture):
        return SERVER_KINDS | BY_RUSTLS_SERVER
    release = tuple(map(int, fixture.release.split(".")))
    old = {kind: shown for kind, (until, shown) in BY_OLD_GO.items() if release < until}
    return SERVER_KINDS | BY_SERVER | old


@pytest.mark.parametrize(
    "fixture", [*go_fixtures("handshakes"), *rust_fixtures("server")], ids="-".join
)
def test_servers(fixture: GoFixture | RustFixture, made: Authority, sniff: Sniff) -> None:
    def server(kind: str, used: Certificate) -> AbstractContextManager[Running]:
        if isinstance(fixture, GoFixture):
            command, options = server_of_go(fixture, kind, used, made)
        else:
            command, options = server_of_rustls(fixture, kind, used, made)
        return announced_server(command, **options)

    assert_servers_show(server_kinds(fixture), made, sniff, server)


@pytest.mark.parametrize(
    "fixture",
    [each for each in rust_fixtures("blocking") if each.library == "rustls"],
    ids="-".join,
)
def test_an_alert_after_data(fixture: RustFixture, made: Authority, tmp_path: Path) -> None:
    """The client asked already when the server missed its certificate."""
    with servers(["late_certificate"], made, 1) as running:
        [(_, port)] = running.values()
        command = f"{fixture.path} {port} {made.certificate} 1 2> /dev/null; true"
        captured = run_under(tmp_path, "sh", "-c", command).captured
    [line] = captured.of("handshake")
    assert (line["failure"], line["received_alert"]) == ("client_certificate", 116)
    assert (line["role"], line["server"]["port"]) == ("client", port)
    assert [each["error"] for each in captured.exchanges] == ["connection closed"]
    assert captured.summary["handshakes"] == 1
