"""openssl s_client and s_server: old and new TLS, early data, plaintext that is no HTTP."""

import contextlib
import random
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.checks import Sniff, assert_passed, assert_whole, connections, content
from tests.live.sniffer import Captured
from tests.workload.passed import Passed, new_nonce, sha256
from tests.workload.processes import PATIENCE_S, Process, say, started, until_said
from tests.workload.python.server import pattern
from tests.workload.servers import Certificate


@contextlib.contextmanager
def s_server(
    certificate: Certificate, directory: Path, *options: str
) -> Iterator[tuple[Process, int]]:
    """Run openssl s_server; yield it and its port."""
    command = ["openssl", "s_server", "-accept", "127.0.0.1:0"]
    files = ("-cert", certificate.certificate, "-key", certificate.key)
    with started(*command, *files, *options, cwd=directory) as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if line.startswith("ACCEPT "))
        yield process, int(line.rsplit(":", 1)[1])


End = tuple[str, int]


def s_client(port: int, local: End, *options: str) -> str:
    """Return a shell's words for openssl s_client."""
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-servername", "localhost"]
    return shlex.join([*command, "-bind", f"{local[0]}:{local[1]}", *options])


def own_ends(count: int) -> list[End]:
    """Return ends for clients.

    Not ports of 127.0.0.1 that are free now: before a client binds one, the kernel may give it to
    the server, or to another program.
    """
    host = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}.1"
    return [(host, _BELOW_EPHEMERAL + number) for number in range(count)]


_BELOW_EPHEMERAL = 20_000


def plaintext(captured: Captured, pid: int, direction: str) -> bytes:
    """Return what one process read or wrote, from the chunks."""
    chunks = [
        each
        for each in captured.of("chunk")
        if each["pid"] == pid and each["direction"] == direction
    ]
    return b"".join(content(each["data"]) for each in chunks)


@pytest.mark.parametrize(("option", "version"), [("-tls1_2", "TLS 1.2"), ("-tls1_3", "TLS 1.3")])
def test_files(
    option: str, version: str, certificate: Certificate, tmp_path: Path, sniff: Sniff
) -> None:
    """A connection a request, both ends watched; the answers are files with their own heads."""
    nonces = [new_nonce() for _ in range(4)]
    ends = own_ends(4)
    passed = []
    lines = ["read word"]
    with s_server(certificate, tmp_path, "-HTTP") as (server, port):
        for number, (nonce, local) in enumerate(zip(nonces, ends, strict=True)):
            body = pattern(20_000 * number)
            head = f"HTTP/1.0 200 ok\r\nX-Nonce: {nonce}\r\n\r\n".encode()
            (tmp_path / nonce).write_bytes(head + body)
            client = s_client(port, local, option, "-quiet")
            asked = f"GET /{nonce} HTTP/1.0\\r\\nX-Nonce: {nonce}\\r\\n\\r\\n"
            lines.append(f"printf '{asked}' | {client} > {nonce}.got")
            passed.append(
                Passed(
                    nonce=nonce,
                    protocol="http/1.0",
                    method="GET",
                    target=f"/{nonce}",
                    status=200,
                    client=local,
                    server=("127.0.0.1", port),
                    response_sha256=sha256(body),
                )
            )
        with (
            (tmp_path / "said").open("w") as said,
            started("sh", "-ec", "\n".join(lines), cwd=tmp_path, stderr=said) as shell,
            sniff("--pid", str(server.pid), "--pid", str(shell.pid)) as sniffer,
        ):
            shell.communicate("go\n", PATIENCE_S)
            assert shell.returncode == 0, (tmp_path / "said").read_text()
            sniffer.until(8)
            captured = sniffer.stop()

    for number, nonce in enumerate(nonces):
        assert (tmp_path / f"{nonce}.got").read_bytes().endswith(pattern(20_000 * number))
    assert_passed(captured, passed, role="client")
    assert_passed(captured, passed, role="server", pid=server.pid)
    assert_whole(captured)
    assert connections(captured, comm="openssl", tls_version=version, alpn=None) == 8


def test_status_page(certificate: Certificate, tmp_path: Path, sniff: Sniff) -> None:
    """``s_server -www`` answers with what it knows of the connection."""
    [local] = own_ends(1)
    with (
        s_server(certificate, tmp_path, "-www") as (server, port),
        sniff("--pid", str(server.pid)) as sniffer,
    ):
        page = subprocess.run(
            shlex.split(s_client(port, local, "-quiet")),
            input=b"GET / HTTP/1.0\r\n\r\n",
            capture_output=True,
            check=True,
            timeout=PATIENCE_S,
        ).stdout
        sniffer.until(1)
        captured = sniffer.stop()

    [exchange] = captured.exchanges
    assert exchange["role"] == "server"
    assert exchange["client"] == {"ip": local[0], "port": local[1]}
    assert content(exchange["response"]["body"]) == page.split(b"\r\n\r\n", 1)[1]
    assert b"s_server" in page
    assert_whole(captured)


def test_plain_text(certificate: Certificate, tmp_path: Path, sniff: Sniff) -> None:
    """Lines and the same lines reversed: chunks, and no exchange."""
    words = [new_nonce() for _ in range(10)]
    [local] = own_ends(1)
    sent = "".join(f"{word}\n" for word in words) + "CLOSE\n"
    with s_server(certificate, tmp_path, "-rev") as (server, port):
        client = s_client(port, local, "-quiet")
        with (
            started("sh", "-c", f"read word; exec {client}", stderr=subprocess.DEVNULL) as shell,
            sniff("--chunks", "--pid", str(server.pid), "--pid", str(shell.pid)) as sniffer,
        ):
            answers, _ = shell.communicate("go\n" + sent, PATIENCE_S)
            captured = sniffer.stop()

    assert answers == "".join(f"{word[::-1]}\n" for word in words)
    assert captured.exchanges == []
    for pid, written, read in (
        (shell.pid, sent, answers),
        (server.pid, answers, sent),
    ):
        assert plaintext(captured, pid, "write").decode() == written
        assert plaintext(captured, pid, "read").decode() == read
    ends = {
        "client": {"ip": local[0], "port": local[1]},
        "server": {"ip": "127.0.0.1", "port": port},
    }
    assert connections(captured, "closed", **ends) == 2
    assert captured.summary["lost_bytes"] == 0


def test_early_data(certificate: Certificate, tmp_path: Path, sniff: Sniff) -> None:
    """0-RTT: bytes that pass before the handshake is over."""
    nonce = new_nonce()
    (tmp_path / "early").write_text(f"early {nonce}\n")
    first, second = own_ends(2)
    with s_server(certificate, tmp_path, "-early_data", "-tls1_3") as (server, port):
        lines = [
            "read word",
            "(until [ -s session ]; do sleep 0.05; done; echo Q) | "
            + s_client(port, first, "-sess_out", "session"),
            s_client(port, second, "-sess_in", "session", "-early_data", "early"),
        ]
        with (
            started("sh", "-c", "\n".join(lines), cwd=tmp_path, stderr=subprocess.DEVNULL) as shell,
            sniff("--chunks", "--pid", str(server.pid), "--pid", str(shell.pid)) as sniffer,
        ):
            say(shell, "go")
            until_said(server, f"early {nonce}")
            say(shell, f"late {nonce}")
            until_said(server, f"late {nonce}")
            told, _ = shell.communicate("Q\n", PATIENCE_S)
            captured = sniffer.stop()

    assert "Early data was accepted" in told
    expected = f"early {nonce}\nlate {nonce}\n"
    clients = {each["pid"] for each in captured.of("chunk")} - {server.pid}
    assert len(clients) == 1  # nothing passed on the first connection
    assert plaintext(captured, clients.pop(), "write").decode() == expected
    assert plaintext(captured, server.pid, "read").decode() == expected
    ends = {
        "client": {"ip": second[0], "port": second[1]},
        "server": {"ip": "127.0.0.1", "port": port},
    }
    assert connections(captured, "closed", tls_version="TLS 1.3", **ends) == 2
    assert captured.summary["lost_bytes"] == 0
