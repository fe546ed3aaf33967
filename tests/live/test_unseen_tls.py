"""TLS that no probe sees is counted and named by its connections, whatever library makes it."""

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.checks import Sniff, run_under
from tests.live.sniffer import Captured
from tests.workload.compiler import ZIG
from tests.workload.processes import PROGRAMS, started
from tests.workload.servers import Certificate, Server

SERVER = Path(__file__).parents[1] / "workload/erlang/server.escript"
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

FORWARDER = """
import socket, sys, threading

def copy(source, target):
    while data := source.recv(65536):
        target.sendall(data)
    target.shutdown(socket.SHUT_WR)

with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        near, _ = server.accept()
        far = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        ways = [threading.Thread(target=copy, args=each) for each in ((near, far), (far, near))]
        for way in ways:
            way.start()
        for way in ways:
            way.join()
        near.close()
        far.close()
"""

# In one thread: each connection to the server comes after others in plaintext, and a new socket
# gets the address of one that was closed.
REUSING = """
import select, socket, sys

loopback = ("127.0.0.1", 0)
with socket.create_server(loopback) as server, socket.create_server(loopback) as sink:
    print(server.getsockname()[1], flush=True)
    while True:
        near, _ = server.accept()
        for _ in range(20):
            with socket.create_connection(sink.getsockname()) as plain, sink.accept()[0]:
                for _ in range(20):
                    plain.sendall(b"plain")
        far = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        others = {near: far, far: near}
        while others:
            for source in select.select([*others], [], [])[0]:
                if data := source.recv(65536):
                    others[source].sendall(data)
                else:
                    others.pop(source).shutdown(socket.SHUT_WR)
        near.close()
        far.close()
"""


@contextlib.contextmanager
def listening(*command: str | Path) -> Iterator[tuple[int, int]]:
    """Run a server; yield its process and the port that it prints."""
    with started(*command) as process:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())


@contextlib.contextmanager
def erlang(certificate: Certificate) -> Iterator[tuple[int, int]]:
    with listening("escript", SERVER, certificate.certificate, certificate.key) as found:
        yield found


def ask(port: int, *, is_old: bool = False, is_trusting: bool = True) -> bytes:
    """Send a request to a server; raises ``ssl.SSLError`` where its certificate is refused."""
    context = ssl.create_default_context()
    if is_trusting:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if is_old:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    answer = b""
    with (
        socket.create_connection(("127.0.0.1", port)) as connection,
        context.wrap_socket(connection, server_hostname="unseen.test") as client,
    ):
        client.sendall(REQUEST)
        while data := client.recv(65536):
            answer += data
    return answer


def only(captured: Captured) -> dict[str, Any]:
    assert captured.exchanges == []
    [found] = captured.summary["not_probed"]
    assert isinstance(found, dict)
    return found


@pytest.mark.heavy
def test_the_connections_of_a_virtual_machine(certificate: Certificate, sniff: Sniff) -> None:
    """Erlang's are counted in TLS 1.3 and 1.2, and named while it runs; a refused one is apart."""
    with erlang(certificate) as (pid, port), sniff("--pid", str(pid)) as sniffer:
        assert ask(port).endswith(b"hi")
        sniffer.until_told("not probed: Erlang/OTP ssl")
        assert ask(port, is_old=True).endswith(b"hi")
        with pytest.raises(ssl.SSLError):
            ask(port, is_trusting=False)
        captured = sniffer.stop()
    found = only(captured)
    assert (found["library"], found["pid"], found["connections"]) == ("erlang", pid, 2)
    assert found["peer"].endswith(f" to 127.0.0.1:{port}")
    [line] = captured.not_probed
    assert "beam.smp): its TLS runs in code of Erlang's virtual machine (1 TLS conn" in line
    assert line.endswith("; watch the other end of its connections")
    [handshake] = captured.of("handshake")
    assert (handshake["library"], handshake["role"]) == ("unknown", "server")
    # The client's reset may overtake its alert.
    assert handshake["failure"] in ("untrusted", "reset")


@pytest.mark.heavy
def test_a_connection_from_before(certificate: Certificate, sniff: Sniff) -> None:
    """It has no ClientHello any more, but its records show what it is."""
    context = ssl._create_unverified_context()
    with (
        erlang(certificate) as (pid, port),
        socket.create_connection(("127.0.0.1", port)) as connection,
        context.wrap_socket(connection) as client,
        sniff("--pid", str(pid)) as sniffer,
    ):
        client.sendall(REQUEST)
        assert client.recv(100).endswith(b"hi")
        sniffer.until_told("not probed: Erlang/OTP ssl")
        captured = sniffer.stop()
    assert only(captured)["connections"] == 1


@pytest.mark.heavy
def test_a_process_that_forwards_tls(certificate: Certificate, sniff: Sniff) -> None:
    """It has no TLS library. Both its connections count, with the name in the ClientHello."""
    with (
        erlang(certificate) as (_, server_port),
        listening(sys.executable, "-c", FORWARDER, str(server_port)) as (pid, port),
        sniff("--pid", str(pid)) as sniffer,
    ):
        assert ask(port).endswith(b"hi")
        sniffer.until_told("not probed: TLS in ")
        captured = sniffer.stop()
    found = only(captured)
    assert (found["library"], found["pid"], found["connections"]) == ("unknown", pid, 2)
    assert found["file"] == str(Path(f"{sys.executable}").resolve())
    assert found["remedy"].startswith("if it only forwards TLS, watch the programs at both ends")
    peers = {f"to unseen.test at 127.0.0.1:{server_port}"}
    assert found["peer"] in peers or found["peer"].endswith(f" to 127.0.0.1:{port}")


@pytest.mark.heavy
def test_an_address_that_another_socket_had(certificate: Certificate, sniff: Sniff) -> None:
    """That sends of the one before needed no look says nothing of it."""
    with (
        erlang(certificate) as (_, server_port),
        listening(sys.executable, "-c", REUSING, str(server_port)) as (pid, port),
        sniff("--pid", str(pid)) as sniffer,
    ):
        for _ in range(5):
            assert ask(port).endswith(b"hi")
        captured = sniffer.stop()
    assert only(captured)["connections"] == 2 * 5


@pytest.mark.heavy
def test_a_program_that_has_ended_is_named_by_its_path(
    certificate: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was started by a relative path, and its connection is looked at after its end."""
    program = Path(shutil.copy(Path(sys.executable).resolve(), tmp_path / "asks"))
    monkeypatch.chdir(tmp_path)
    code = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    for _ in range(3):
        connection.sendall(b"\\x17\\x03\\x03\\x01\\x00" + bytes(256))
"""
    with erlang(certificate) as (_, port):
        ran = run_under(tmp_path, "./asks", "-c", code, str(port))
    found = only(ran.captured)
    assert (found["library"], found["file"]) == ("unknown", str(program))


@pytest.mark.heavy
def test_zig_is_named(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    """By the names of its errors, which are also in a stripped program."""
    source, program = PROGRAMS / "zig/client.zig", tmp_path / "client"
    caches = {f"ZIG_{each}_CACHE_DIR": str(tmp_path / "cache") for each in ("GLOBAL", "LOCAL")}
    compiler = (*ZIG, "build-exe", "-fstrip")
    command = [*compiler, str(source), f"-femit-bin={program}"]
    subprocess.run(command, check=True, env=os.environ | caches)
    ran = run_under(tmp_path, program, certificate.certificate, f"{server.url}/bytes/10")
    found = only(ran.captured)
    named = {key: found[key] for key in ("library", "version", "file", "connections")}
    assert named == {"library": "zig", "version": None, "file": str(program), "connections": 1}
    assert found["remedy"] == "watch the other end of its connections"


@pytest.mark.heavy
def test_probed_connections_do_not_count(certificate: Certificate, sniff: Sniff) -> None:
    """They are many, at the same time, and their bytes pass through memory."""
    code = """
import asyncio, ssl, sys
async def ask():
    reader, writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]), ssl=context)
    writer.write(b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
    assert (await reader.read()).endswith(b"hi")
    writer.close()
async def main():
    await asyncio.gather(*(ask() for _ in range(20)))
context = ssl._create_unverified_context()
input()
asyncio.run(main())
print("done", flush=True)
input()
"""
    with (
        erlang(certificate) as (_, port),
        started(sys.executable, "-c", code, str(port)) as client,
        sniff("--pid", str(client.pid)) as sniffer,
    ):
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write("go\n")
        client.stdin.flush()
        assert client.stdout.readline() == "done\n"
        sniffer.until(20)
        captured = sniffer.stop()
    assert len(captured.exchanges) == 20
    assert captured.summary["not_probed"] == []
    assert captured.stderr.count("\n") == 1  # watching ...
