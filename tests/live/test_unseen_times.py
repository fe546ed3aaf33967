"""What passed before the probes came, or as they went, is not said to have no probes."""

import os
import signal
import sys
import time
from pathlib import Path

from tests.live.checks import Sniff
from tests.workload.processes import next_line, say, started
from tests.workload.servers import Certificate, Server

BUSY = """
import socket, ssl, sys, threading

def ask():
    while True:
        with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as tcp:
            with context.wrap_socket(tcp) as tls:
                tls.sendall(b"GET /bytes/10 HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
                tls.recv(65536)

context = ssl._create_unverified_context()
for _ in range(3):
    threading.Thread(target=ask).start()
print(flush=True)
"""

RELUCTANT = """
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(*sys.argv[1:])
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    tls = context.wrap_socket(listener.accept()[0], server_side=True)
for _ in range(100):
    tls.recv(65536)
print(flush=True)
input()
"""

LARGE = """
import socket, ssl, sys
input()
tcp = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
tls = ssl._create_unverified_context().wrap_socket(tcp)
tls.sendall(bytes(100_000_000))
"""

LATE = """
import socket, sys
tcp = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print(flush=True)
input()
import ssl
tls = ssl._create_unverified_context().wrap_socket(tcp)
tls.sendall(b"GET /bytes/10 HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n")
while tls.recv(65536):
    pass
tls.close()
print(flush=True)
input()
"""


def test_calls_as_probes_come_and_go(server: Server, sniff: Sniff) -> None:
    """Short captures of a process with many short connections: all that was missed is before."""
    with started(sys.executable, "-c", BUSY, str(server.port)) as client:
        next_line(client)
        for _ in range(5):
            with sniff("--pid", str(client.pid)) as sniffer:
                sniffer.until(1)
                captured = sniffer.stop()
            assert captured.not_probed == []
            assert captured.summary["not_probed"] == []


def test_calls_before_a_library_that_was_loaded_later_has_probes(
    server: Server, own_library: Path, sniff: Sniff
) -> None:
    """That is said, and how to see them: sslsniff does not run while they pass."""
    own = f"LD_LIBRARY_PATH={own_library.parent}"
    with started("env", own, sys.executable, "-c", LATE, str(server.port)) as client:
        next_line(client)
        with sniff("--pid", str(client.pid)) as sniffer:
            stop(sniffer.process.pid)
            say(client, "ask")
            next_line(client)
            os.kill(sniffer.process.pid, signal.SIGCONT)
            sniffer.until_told("was loaded by process")
            captured = sniffer.stop()
    [line] = captured.not_probed
    [found] = captured.summary["not_probed"]
    assert (found["connections"], found["library"], found["pid"]) == (1, "unknown", client.pid)
    assert found["reason"] == "it passed before the process's library got its probes"
    assert found["remedy"].endswith("or watch it with --hold")
    assert f"(1 TLS connection without plaintext, first to 127.0.0.1:{server.port})" in line


def test_a_call_that_is_under_way(certificate: Certificate, sniff: Sniff) -> None:
    """It has sent a lot, and returns when its peer has read all: after the capture."""
    files = certificate.certificate, certificate.key
    with started(sys.executable, "-c", RELUCTANT, *files) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        with (
            started(sys.executable, "-c", LARGE, port) as client,
            sniff("--pid", str(client.pid)) as sniffer,
        ):
            say(client, "send")
            next_line(server)
            captured = sniffer.stop()
    assert (captured.not_probed, captured.summary["not_probed"]) == ([], [])
    line = "1 connection is not shown: the first call was under way when the capture ended"
    assert line in captured.stderr


def stop(pid: int) -> None:
    """Stop a process, and wait until all its threads have stopped."""
    os.kill(pid, signal.SIGSTOP)
    while any(
        each.read_text().rpartition(")")[2].split()[0] != "T"
        for each in Path(f"/proc/{pid}/task").glob("*/stat")
    ):
        time.sleep(0.01)
