"""Each handshake that fails is shown once, with what went wrong, whoever fails."""

import shlex
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

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
from tests.live.sniffer import SSLSNIFF
from tests.workload.certificates import Authority
from tests.workload.ports import free_port, listening
from tests.workload.processes import PATIENCE_S

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

GNUTLS_PRIORITIES = {
    "no_shared_version": "NORMAL:-VERS-TLS1.3",
    "no_shared_cipher": "NORMAL:-VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM",
}


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
