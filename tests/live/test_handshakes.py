"""Each handshake that fails is shown once, with what went wrong, whoever fails."""

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.live.checks import run_under
from tests.live.failing_handshakes import (
    CLIENT_KINDS,
    COUNT,
    SERVER_KINDS,
    assert_shown,
    end_servers,
    peer,
    servers,
    together,
)
from tests.live.sniffer import SSLSNIFF
from tests.live.watching import Watch
from tests.workload.certificates import Authority
from tests.workload.ports import free_port, wait_until_listening
from tests.workload.processes import PATIENCE_S, PROGRAMS
from tests.workload.servers import Certificate, Server

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


def test_clients_of_openssl(made: Authority, tmp_path: Path, engine: str) -> None:
    """All kinds at once, in processes of their own."""
    with servers(CLIENT_KINDS, made) as running:
        ports = {kind: port for kind, (_, port) in running.items()}
        commands = [shlex.join(peer("client", kind, port, made)) for kind, port in ports.items()]
        captured = run_under(tmp_path, *together(*commands), engine=engine).captured
    assert_shown(captured, ports, CLIENT_KINDS)
    lines = captured.of("handshake")
    assert {each["library"] for each in lines} <= {"openssl", "unknown"}
    assert {(each["role"], each["sni"]) for each in lines} == {("client", "localhost")}


def test_servers_of_openssl(made: Authority, watch: Watch) -> None:
    """All kinds at once, in servers of their own, which end after the last client."""
    ports = {kind: free_port() for kind in SERVER_KINDS}
    commands = [shlex.join(peer("server", kind, port, made)) for kind, port in ports.items()]
    clients = [shlex.join(peer("client", kind, port, made)) for kind, port in ports.items()]
    with watch.json(*together(*commands)) as sniffer:
        for port in ports.values():
            wait_until_listening(port)
        subprocess.run(together(*clients), check=True)
        captured = sniffer.wait()
    assert_shown(captured, ports, SERVER_KINDS)
    assert {each["role"] for each in captured.of("handshake")} == {"server"}


def gnutls_client(kind: str, port: int, made: Authority, count: int) -> str:
    trusted = made.stranger if kind == "untrusted" else made.certificate
    priority = GNUTLS_PRIORITIES.get(kind, "NORMAL")
    command = f"gnutls-cli --port {port} --priority {priority} --x509cafile {trusted} localhost"
    return f"for i in $(seq {count}); do {command} < /dev/null > /dev/null 2>&1; done"


def test_clients_of_gnutls(made: Authority, tmp_path: Path, engine: str) -> None:
    count = COUNT // 4  # a program for each
    # The first waits for long, the second sends nothing before it ends.
    kinds = [each for each in CLIENT_KINDS if each not in ("timeout", "late_certificate")]
    with servers(kinds, made, count) as running:
        ports = {kind: port for kind, (_, port) in running.items()}
        commands = [gnutls_client(kind, port, made, count) for kind, port in ports.items()]
        captured = run_under(tmp_path, *together(*commands), engine=engine).captured
    assert_shown(captured, ports, CLIENT_KINDS, count)
    assert {each["sni"] for each in captured.of("handshake")} == {"localhost"}


def gnutls_server(kind: str, port: int, made: Authority) -> str:
    used = {"expired": made.expired, "wrong_name": made.wrong_name}.get(kind, made.good)
    return (
        f"gnutls-serv --quiet --port {port} --x509cafile {made.certificate}"
        f" --x509certfile {used.certificate} --x509keyfile {used.key}"
        f" {GNUTLS_SERVER_OPTIONS.get(kind, '')}"
    )


def test_servers_of_gnutls(made: Authority, watch: Watch) -> None:
    ports = {kind: free_port() for kind in GNUTLS_SERVER_KINDS}
    commands = [gnutls_server(kind, port, made) for kind, port in ports.items()]
    clients = [shlex.join(peer("client", kind, port, made)) for kind, port in ports.items()]
    with watch.json(*together(*(f"exec {each}" for each in commands))) as sniffer:
        for port in ports.values():
            wait_until_listening(port)
        subprocess.run(together(*clients), check=True)
        end_servers(sniffer, "gnutls-serv")
        captured = sniffer.wait()
    assert_shown(captured, ports, GNUTLS_SERVER_KINDS)
    assert {each["role"] for each in captured.of("handshake")} == {"server"}


def shown(*arguments: str | Path) -> str:
    """Return what sslsniff says on standard error, lines and summary."""
    done = subprocess.run(
        [SSLSNIFF, *arguments], capture_output=True, text=True, timeout=2 * PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_who_and_why_in_a_line(made: Authority, engine: str) -> None:
    """And in the summary; ``~e`` selects failures."""
    with servers(["expired"], made, 2) as running:
        [(_, port)] = running.values()
        client = peer("client", "expired", port, made, 2)
        text = shown("--engine", engine, "~e", "--", *client)
    reason = (
        "the certificate of the server has expired, or is not valid yet, says the client"
        " (alert 45, certificate expired; certificate has expired)"
    )
    assert text.count(f"  handshake failed, localhost: {reason}\n") == 2
    assert text.count("0 shown of 0 exchanges, ") == 1
    assert f"\n2 TLS handshakes, 2 failed\n  2 handshakes failed: {reason}\n" in text


def test_another_filter_leaves_them_out(made: Authority, engine: str) -> None:
    with servers(["expired"], made, 1) as running:
        [(_, port)] = running.values()
        client = peer("client", "expired", port, made, 1)
        text = shown("--engine", engine, "~m GET", "--", *client)
    assert "handshake failed, localhost" not in text
    assert "\n1 TLS handshake, 1 failed\n" in text


def test_nothing_flows(engine: str) -> None:
    """No handshake at all does not look like handshakes that fail."""
    text = shown("--engine", engine, "--", sys.executable, "-c", "import ssl")
    assert text.endswith("0 bytes lost\nno TLS handshake was seen\n")


def test_a_handshake_without_data_is_no_failure(made: Authority, watch: Watch) -> None:
    script = (
        "import socket, ssl, sys\n"
        "context = ssl.create_default_context(cafile=sys.argv[2])\n"
        "with socket.create_connection(('127.0.0.1', int(sys.argv[1]))) as plain:\n"
        "    context.wrap_socket(plain, server_hostname='localhost').unwrap()\n"
    )
    port = free_port()
    with watch.json(*peer("server", "unused", port, made, 1)) as sniffer:
        wait_until_listening(port)
        client = (sys.executable, "-c", script, str(port), str(made.certificate))
        subprocess.run(client, check=True)
        captured = sniffer.wait()
    [line] = captured.of("handshake")
    assert line["failure"] is None
    assert line["text"] == "the handshake was completed, and no data followed"
    summary: dict[str, Any] = captured.summary
    assert (summary["handshakes"], summary["unused_handshakes"]) == (1, 1)
    assert "failed_handshakes" not in summary


def test_handshakes_with_data_are_no_failures(
    certificate: Certificate, server: Server, watch: Watch
) -> None:
    """Each is counted, and none is shown."""
    once = ("curl", "-s", "--cacert", str(certificate.certificate), "-o", "/dev/null", server.url)
    with watch.json("sh", "-c", "; ".join([shlex.join(once)] * 3)) as sniffer:
        captured = sniffer.wait()
    assert captured.of("handshake") == []
    summary: dict[str, Any] = captured.summary
    assert summary["exchanges"] == 3
    assert summary["handshakes"] == 3
    assert "failed_handshakes" not in summary


MEMORY_KINDS = (
    *("untrusted", "expired", "wrong_name", "client_certificate", "unknown_name"),
    *("reset", "timeout", "plaintext"),
)


def test_bytes_through_memory(made: Authority, tmp_path: Path, engine: str) -> None:
    """The library of asyncio makes no socket call."""
    client = PROGRAMS / "python/failing_handshake_asyncio.py"
    count = 3
    with servers(MEMORY_KINDS, made, count) as running:
        ports = {kind: port for kind, (_, port) in running.items()}
        folder = made.certificate.parent
        commands = [
            shlex.join(map(str, (sys.executable, client, kind, port, count, folder)))
            for kind, port in ports.items()
        ]
        captured = run_under(tmp_path, *together(*commands), engine=engine).captured
    assert_shown(captured, ports, CLIENT_KINDS, count)
    assert {each["sni"] for each in captured.of("handshake")} == {"localhost"}


def test_client_that_is_killed(made: Authority, tmp_path: Path, engine: str) -> None:
    """It waits for an answer in one call, and frees nothing."""
    with servers(["timeout"], made, 1) as running:
        [(_, port)] = running.values()
        client = f"openssl s_client -connect 127.0.0.1:{port} -servername localhost < /dev/null"
        command = f"{client} > /dev/null 2>&1 & sleep 1; kill -KILL $!; wait; true"
        captured = run_under(tmp_path, "sh", "-c", command, engine=engine).captured
    assert_shown(captured, {"timeout": port}, CLIENT_KINDS, 1)
    [line] = captured.of("handshake")
    assert (line["comm"], line["sni"]) == ("openssl", "localhost")
