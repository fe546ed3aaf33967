"""Each handshake that fails is shown once, with what went wrong, whoever fails."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.checks import Sniff, run_under
from tests.live.sniffer import SSLSNIFF, Captured
from tests.workload.certificates import Authority, authority
from tests.workload.processes import PATIENCE_S, PROGRAMS, started

PEER = PROGRAMS / "python/failing_handshakes.py"
COUNT = 20
CLIENT_KINDS = {
    "untrusted": "untrusted",
    "expired": "expired",
    "wrong_name": "wrong_name",
    "no_shared_version": "no_shared_version",
    "no_shared_cipher": "refused",  # the server's alert says no more
    "client_certificate": "client_certificate",
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


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("certificates"))


def peer(side: str, kind: str, port: int, made: Authority, count: int = COUNT) -> list[str]:
    folder = made.certificate.parent
    return [sys.executable, *map(str, (PEER, side, kind, port, count, folder))]


@contextmanager
def server(kind: str, made: Authority, count: int = COUNT) -> Iterator[int]:
    """Run a server; yield its port."""
    with started(*peer("server", kind, 0, made, count)) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())


def failures(captured: Captured) -> Counter[tuple[str, str]]:
    """Return how often each kind of failure is shown, with its library."""
    assert captured.exchanges == []
    return Counter((each["failure"], each["library"]) for each in captured.of("handshake"))


def assert_counted(captured: Captured, kind: str, count: int = COUNT) -> None:
    summary = captured.summary
    assert (summary["exchanges"], summary["failed_handshakes"]) == (0, count)
    assert {each["failure"] for each in summary["handshake_failures"]} == {kind}
    assert sum(each["count"] for each in summary["handshake_failures"]) == count


@pytest.mark.parametrize("kind", CLIENT_KINDS)
def test_a_client_of_openssl(kind: str, made: Authority, tmp_path: Path) -> None:
    with server(kind, made) as port:
        captured = run_under(tmp_path, *peer("client", kind, port, made)).captured
        lines = captured.of("handshake")
        assert Counter(each["failure"] for each in lines) == {CLIENT_KINDS[kind]: COUNT}
        assert {each["library"] for each in lines} <= {"openssl", "unknown"}
        assert {(each["role"], each["sni"]) for each in lines} == {("client", "localhost")}
        assert {each["server"]["port"] for each in lines} == {port}
    assert_counted(captured, CLIENT_KINDS[kind])


@pytest.mark.parametrize("kind", SERVER_KINDS)
def test_a_server_of_openssl(kind: str, made: Authority, sniff: Sniff) -> None:
    with started(*peer("server", kind, 0, made)) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with sniff("--pid", str(process.pid)) as sniffer:
            subprocess.run(peer("client", kind, port, made), check=True)
            captured = sniffer.stop()
    lines = captured.of("handshake")
    assert Counter(each["failure"] for each in lines) == {SERVER_KINDS[kind]: COUNT}
    assert {each["role"] for each in lines} == {"server"}
    assert {each["server"]["port"] for each in lines} == {port}
    assert_counted(captured, SERVER_KINDS[kind])


GNUTLS_PRIORITIES = {
    "no_shared_version": "NORMAL:-VERS-TLS1.3",
    "no_shared_cipher": "NORMAL:-VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM",
}


@pytest.mark.parametrize("kind", [each for each in CLIENT_KINDS if each != "timeout"])
def test_a_client_of_gnutls(kind: str, made: Authority, tmp_path: Path) -> None:
    trusted = made.stranger if kind == "untrusted" else made.certificate
    priority = GNUTLS_PRIORITIES.get(kind, "NORMAL")
    count = COUNT // 4  # a program for each
    with server(kind, made, count) as port:
        command = f"gnutls-cli --port {port} --priority {priority} --x509cafile {trusted} localhost"
        script = f"for i in $(seq {count}); do {command} < /dev/null > /dev/null 2>&1; done; true"
        captured = run_under(tmp_path, "sh", "-c", script).captured
    found = Counter(each["failure"] for each in captured.of("handshake"))
    assert found == {CLIENT_KINDS[kind]: count}
    assert_counted(captured, CLIENT_KINDS[kind], count)


def shown(*arguments: str | Path) -> str:
    """Return what sslsniff says on standard error, lines and summary."""
    done = subprocess.run(
        [SSLSNIFF, *arguments], capture_output=True, text=True, timeout=2 * PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_who_and_why_in_a_line(made: Authority) -> None:
    """And in the summary; ``~e`` selects failures."""
    with server("expired", made, 2) as port:
        text = shown("~e", "--", *peer("client", "expired", port, made, 2))
    reason = (
        "the certificate of the server has expired, or is not valid yet, says the client"
        " (alert 45, certificate expired; certificate has expired)"
    )
    assert text.count(f"  handshake failed, localhost: {reason}\n") == 2
    assert text.count("0 shown of 0 exchanges, 0 connections, ") == 1
    assert f"\n2 TLS handshakes, 2 failed\n  2 handshakes failed: {reason}\n" in text


def test_another_filter_leaves_them_out(made: Authority) -> None:
    with server("expired", made, 1) as port:
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
    with started(*peer("server", "unused", 0, made, 1)) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        with sniff("--pid", str(process.pid)) as sniffer:
            subprocess.run([sys.executable, "-c", script, port, str(made.certificate)], check=True)
            captured = sniffer.stop()
    [line] = captured.of("handshake")
    assert (line["failure"], line["text"]) == (
        None,
        "the handshake was completed, and no data followed",
    )
    summary: dict[str, Any] = captured.summary
    assert (summary["handshakes"], summary["unused_handshakes"]) == (1, 1)
    assert "failed_handshakes" not in summary
