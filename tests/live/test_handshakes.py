"""Each handshake that fails is shown once, with what went wrong, whoever fails."""

import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.checks import Sniff, run_under
from tests.live.sniffer import SSLSNIFF, Captured
from tests.workload.certificates import Authority, authority
from tests.workload.go.fixtures import Fixture as GoFixture
from tests.workload.go.fixtures import fixtures as go_fixtures
from tests.workload.ports import free_port, listening
from tests.workload.processes import PATIENCE_S, PROGRAMS, started
from tests.workload.rust.fixtures import Fixture as RustFixture
from tests.workload.rust.fixtures import fixtures as rust_fixtures

PEER = PROGRAMS / "python/failing_handshakes.py"
COUNT = 20
CLIENT_KINDS = {
    "untrusted": "untrusted",
    "expired": "expired",
    "wrong_name": "wrong_name",
    "no_shared_version": "no_shared_version",
    "no_shared_cipher": "refused",  # the server's alert says no more
    "client_certificate": "client_certificate",
    "late_certificate": "client_certificate",
    "unknown_name": "unknown_name",
    "reset": "reset",
    "timeout": "timeout",
    "plaintext": "plaintext",
}
"""How handshakes fail -> the kind that a client's side shows."""

SERVER_KINDS = {
    "untrusted": "untrusted",
    "expired": "expired",
    "wrong_name": "bad_certificate",  # the client's alert says no more
    "no_shared_version": "no_shared_version",
    "no_shared_cipher": "no_shared_cipher",
    "client_certificate": "client_certificate",
    "unknown_name": "unknown_name",
    "reset_by_client": "reset",
    "http_request": "plaintext",
}
"""The same for a server's side."""

GNUTLS_SERVER_KINDS = {
    "untrusted": "untrusted",
    "expired": "expired",
    "wrong_name": "bad_certificate",
    "no_shared_cipher": "refused",
    "client_certificate": "client_certificate",
    "reset_by_client": "reset",
}
GNUTLS_SERVER_OPTIONS = {
    "no_shared_cipher": "--priority NORMAL:-VERS-TLS1.3:-CIPHER-ALL:+AES-256-GCM",
    "client_certificate": "--require-client-cert",
}

BY_ALERT = {
    "untrusted": {"rustls": "untrusted", "go": "bad_certificate"},
    "expired": {"rustls": "expired", "go": "bad_certificate"},
    "wrong_name": {"rustls": "bad_certificate", "go": "bad_certificate"},
    "unknown_name": {"rustls": "unknown_name", "go": "unknown_name"},
    "reset": {"rustls": "reset", "go": "reset"},
    "plaintext": {"rustls": "plaintext", "go": "plaintext"},
}
"""The same for clients of libraries whose alerts alone are seen."""

GNUTLS_PRIORITIES = {
    "no_shared_version": "NORMAL:-VERS-TLS1.3",
    "no_shared_cipher": "NORMAL:-VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("certificates"))


def peer(side: str, kind: str, port: int, made: Authority, count: int = COUNT) -> list[str]:
    folder = made.certificate.parent
    return [sys.executable, *map(str, (PEER, side, kind, port, count, folder))]


@contextmanager
def servers(
    kinds: Iterable[str], made: Authority, count: int = COUNT
) -> Iterator[dict[str, tuple[int, int]]]:
    """Run a server for each kind; yield the number of its process and its port."""
    with ExitStack() as running:
        found = {}
        for kind in kinds:
            process = running.enter_context(started(*peer("server", kind, 0, made, count)))
            assert process.stdout is not None
            found[kind] = process.pid, int(process.stdout.readline())
        yield found


def together(*commands: str) -> list[str]:
    """Return what runs commands of a shell at once, and succeeds."""
    return ["sh", "-c", "".join(f"({each}) & " for each in commands) + "wait; true"]


def assert_shown(
    captured: Captured, ports: dict[str, int], kinds: dict[str, str], count: int = COUNT
) -> None:
    """Each handshake is shown once, with the kind of its server's port; so says the summary."""
    lines = captured.of("handshake")
    found = Counter((each["server"]["port"], each["failure"]) for each in lines)
    assert found == {(port, kinds[kind]): count for kind, port in ports.items()}
    summary = captured.summary
    assert (summary["exchanges"], summary["failed_handshakes"]) == (0, len(ports) * count)
    counted = Counter[str]()
    for each in summary["handshake_failures"]:
        counted[each["failure"]] += each["count"]
    assert counted == Counter(each["failure"] for each in lines)


def test_clients_of_openssl(made: Authority, tmp_path: Path) -> None:
    """All kinds at once, in processes of their own."""
    with servers(CLIENT_KINDS, made) as running:
        ports = {kind: port for kind, (_, port) in running.items()}
        commands = [shlex.join(peer("client", kind, port, made)) for kind, port in ports.items()]
        captured = run_under(tmp_path, *together(*commands)).captured
    assert_shown(captured, ports, CLIENT_KINDS)
    lines = captured.of("handshake")
    assert {each["library"] for each in lines} <= {"openssl", "unknown"}
    assert {(each["role"], each["sni"]) for each in lines} == {("client", "localhost")}


def test_servers_of_openssl(made: Authority, sniff: Sniff) -> None:
    with servers(SERVER_KINDS, made) as running:
        ports = {kind: port for kind, (_, port) in running.items()}
        pids = [option for pid, _ in running.values() for option in ("--pid", str(pid))]
        commands = [shlex.join(peer("client", kind, port, made)) for kind, port in ports.items()]
        with sniff(*pids) as sniffer:
            subprocess.run(together(*commands), check=True)
            captured = sniffer.stop()
    assert_shown(captured, ports, SERVER_KINDS)
    assert {each["role"] for each in captured.of("handshake")} == {"server"}


def gnutls_client(kind: str, port: int, made: Authority, count: int) -> str:
    trusted = made.stranger if kind == "untrusted" else made.certificate
    priority = GNUTLS_PRIORITIES.get(kind, "NORMAL")
    command = f"gnutls-cli --port {port} --priority {priority} --x509cafile {trusted} localhost"
    return f"for i in $(seq {count}); do {command} < /dev/null > /dev/null 2>&1; done"


def test_clients_of_gnutls(made: Authority, tmp_path: Path) -> None:
    count = COUNT // 4  # a program for each
    # The first waits for long, the second sends nothing before it ends.
    kinds = [each for each in CLIENT_KINDS if each not in ("timeout", "late_certificate")]
    with servers(kinds, made, count) as running:
        ports = {kind: port for kind, (_, port) in running.items()}
        commands = [gnutls_client(kind, port, made, count) for kind, port in ports.items()]
        captured = run_under(tmp_path, *together(*commands)).captured
    assert_shown(captured, ports, CLIENT_KINDS, count)
    assert {each["sni"] for each in captured.of("handshake")} == {"localhost"}


def test_servers_of_gnutls(made: Authority, sniff: Sniff) -> None:
    ports: dict[str, int] = {}
    with ExitStack() as running:
        pids: list[str] = []
        for kind in GNUTLS_SERVER_KINDS:
            used = {"expired": made.expired, "wrong_name": made.wrong_name}.get(kind, made.good)
            ports[kind] = free_port()
            command = (
                f"gnutls-serv --quiet --port {ports[kind]} --x509cafile {made.certificate}"
                f" --x509certfile {used.certificate} --x509keyfile {used.key}"
                f" {GNUTLS_SERVER_OPTIONS.get(kind, '')}"
            )
            process = running.enter_context(listening(shlex.split(command), ports[kind]))
            pids += ["--pid", str(process.pid)]
        clients = [shlex.join(peer("client", kind, port, made)) for kind, port in ports.items()]
        with sniff(*pids) as sniffer:
            subprocess.run(together(*clients), check=True)
            captured = sniffer.stop()
    assert_shown(captured, ports, GNUTLS_SERVER_KINDS)
    assert {each["role"] for each in captured.of("handshake")} == {"server"}


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("fixture", "connection"),
    [
        *((each, "1") for each in rust_fixtures("blocking") if each.library == "rustls"),
        *((each, "1:1") for each in go_fixtures("client")),
    ],
    ids=lambda each: each if isinstance(each, str) else "-".join(each),
)
def test_clients_that_send_encrypted_alerts(
    fixture: GoFixture | RustFixture, connection: str, made: Authority, tmp_path: Path
) -> None:
    """Their library encrypts all but the first message, so only it knows the alert."""
    count = COUNT // 4  # a program for each
    with servers(BY_ALERT, made, count) as running:
        ports = {kind: port for kind, (_, port) in running.items()}
        commands = []
        for kind, port in ports.items():
            trusted = made.stranger if kind == "untrusted" else made.certificate
            command = f"{fixture.path} {port} {trusted} {connection}"
            commands.append(f"for i in $(seq {count}); do {command} > /dev/null 2>&1; done")
        captured = run_under(tmp_path, *together(*commands)).captured
    expected = {kind: libraries[fixture.library] for kind, libraries in BY_ALERT.items()}
    assert_shown(captured, ports, expected, count)


@pytest.mark.heavy
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


def shown(*arguments: str | Path) -> str:
    """Return what sslsniff says on standard error, lines and summary."""
    done = subprocess.run(
        [SSLSNIFF, *arguments], capture_output=True, text=True, timeout=2 * PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_who_and_why_in_a_line(made: Authority) -> None:
    """And in the summary; ``~e`` selects failures."""
    with servers(["expired"], made, 2) as running:
        [(_, port)] = running.values()
        text = shown("~e", "--", *peer("client", "expired", port, made, 2))
    reason = (
        "the certificate of the server has expired, or is not valid yet, says the client"
        " (alert 45, certificate expired; certificate has expired)"
    )
    assert text.count(f"  handshake failed, localhost: {reason}\n") == 2
    assert text.count("0 shown of 0 exchanges, ") == 1
    assert f"\n2 TLS handshakes, 2 failed\n  2 handshakes failed: {reason}\n" in text


def test_another_filter_leaves_them_out(made: Authority) -> None:
    with servers(["expired"], made, 1) as running:
        [(_, port)] = running.values()
        text = shown("~m GET", "--", *peer("client", "expired", port, made, 1))
    assert "handshake failed, localhost" not in text
    assert "\n1 TLS handshake, 1 failed\n" in text


def test_nothing_flows() -> None:
    """No handshake at all does not look like handshakes that fail."""
    text = shown("--", sys.executable, "-c", "import ssl")
    assert text.endswith("0 bytes lost\nno TLS handshake was seen\n")


def test_a_handshake_without_data_is_no_failure(made: Authority, sniff: Sniff) -> None:
    script = (
        "import socket, ssl, sys\n"
        "context = ssl.create_default_context(cafile=sys.argv[2])\n"
        "with socket.create_connection(('127.0.0.1', int(sys.argv[1]))) as plain:\n"
        "    context.wrap_socket(plain, server_hostname='localhost').unwrap()\n"
    )
    with servers(["unused"], made, 1) as running:
        [(pid, port)] = running.values()
        with sniff("--pid", str(pid)) as sniffer:
            client = (sys.executable, "-c", script, str(port), str(made.certificate))
            subprocess.run(client, check=True)
            captured = sniffer.stop()
    [line] = captured.of("handshake")
    assert line["failure"] is None
    assert line["text"] == "the handshake was completed, and no data followed"
    summary: dict[str, Any] = captured.summary
    assert (summary["handshakes"], summary["unused_handshakes"]) == (1, 1)
    assert "failed_handshakes" not in summary
