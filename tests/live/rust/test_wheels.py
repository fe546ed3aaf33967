"""Rust that nobody here built: stripped modules of Python, as PyPI has them."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.checks import Sniff, run_under, told
from tests.live.load import held
from tests.live.rust.fixtures import CACHE
from tests.live.rust.running import ALL_AT_ONCE, TLS_VERSIONS, ask, assert_captured
from tests.live.sniffer import PATIENCE_S
from tests.servers import PROGRAMS, Certificate, Server

PYTHON = CACHE.with_name("wheels") / "bin" / "python"  # the Makefile makes it


@contextlib.contextmanager
def granian(certificate: Certificate) -> Iterator[tuple[Server, "subprocess.Popen[str]"]]:
    """Yield a process that ``serve`` makes granian, which forks a worker."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    tls = ["--ssl-certificate", certificate.certificate, "--ssl-keyfile", certificate.key]
    options = ["--interface", "asginl", "--port", port, *tls, "--ssl-protocol-min", "tls1.2"]
    command = [PYTHON, "-m", "granian", *options, "--no-log", "asgi_echo:app"]
    process = held([str(each) for each in command], PYTHONPATH=str(PROGRAMS))
    try:
        yield Server(process.pid, port), process
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.communicate()


def serve(server: Server, process: "subprocess.Popen[str]") -> None:
    """Return when the server takes connections."""
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection((server.host, server.port)).close()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@TLS_VERSIONS
def test_server(tls_version: str, certificate: Certificate, tmp_path: Path, sniff: Sniff) -> None:
    with granian(certificate) as (server, process), sniff("--pid", str(server.pid)) as sniffer:
        serve(server, process)
        passed = ask(server, certificate, tmp_path, "--tls-max", tls_version)
        sniffer.until(50)
        sniffer.until(2 * 5, "connection")
        captured = sniffer.stop()
    assert_captured(captured, passed, "server", "rustls", tls_version)


@TLS_VERSIONS
def test_client(
    tls_version: str, certificate: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TLS_VERSION", tls_version)
    program = (PYTHON, PROGRAMS / "pyreqwest_client.py")
    with granian(certificate) as (server, process):
        serve(server, process)
        options = (str(server.port), certificate.certificate, *ALL_AT_ONCE)
        ran = run_under(tmp_path, *program, *options)
    passed = told(ran.stdout.decode())
    assert_captured(ran.captured, passed, "client", "rustls", tls_version)
