"""Rust that nobody here built: stripped modules and programs, as PyPI has them."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslsniff.kernel import procfs
from tests.live import sniffer
from tests.live.checks import Sniff, assert_whole, content, run_under
from tests.live.running import ALL_AT_ONCE, TLS_VERSIONS, ask, assert_captured
from tests.workload.passed import told
from tests.workload.processes import PATIENCE_S, PROGRAMS, held, say, started
from tests.workload.python.server import pattern
from tests.workload.rust.fixtures import CACHE
from tests.workload.servers import Certificate, Server

PYTHON = CACHE.with_name("wheels") / "bin" / "python"  # the Makefile makes it
UV, DENO = PYTHON.with_name("uv"), PYTHON.with_name("deno")


def search(*paths: Path) -> None:
    """Have what is found in files on disk: else connections open while they are searched."""
    for path in paths:
        subprocess.run([sniffer.SSLSNIFF, "--lib", path, "--", "true"], check=True)


@pytest.fixture(autouse=True, scope="module")
def searched() -> None:
    folder = PYTHON.parents[1]
    modules = [
        path
        for name in ("granian", "pyreqwest")
        for path in folder.glob(f"lib/*/site-packages/{name}/_{name}.*.so")
    ]
    assert len(modules) == 2
    search(*modules)


@contextlib.contextmanager
def granian(certificate: Certificate) -> Iterator[tuple[Server, "subprocess.Popen[str]"]]:
    """Yield a process that ``serve`` makes granian, which forks a worker."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    tls = ["--ssl-certificate", certificate.certificate, "--ssl-keyfile", certificate.key]
    options = ["--interface", "asginl", "--port", port, *tls, "--ssl-protocol-min", "tls1.2"]
    command = [PYTHON, "-m", "granian", *options, "--no-log", "asgi_echo:app"]
    process = held([str(each) for each in command], PYTHONPATH=str(PROGRAMS / "python"))
    try:
        yield Server(process.pid, port), process
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    finally:
        if process.poll() is None:
            for pid in procfs.descendants([process.pid]):  # a worker keeps the pipe open, too
                os.kill(pid, signal.SIGKILL)
        process.communicate()


def serve(server: Server, process: "subprocess.Popen[str]") -> None:
    """Return when the server takes connections."""
    say(process, "go")
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
    program = (PYTHON, PROGRAMS / "python/pyreqwest_client.py")
    with granian(certificate) as (server, process):
        serve(server, process)
        options = (str(server.port), str(certificate.certificate), *ALL_AT_ONCE)
        ran = run_under(tmp_path, *program, *options)
    passed = told(ran.stdout.decode())
    assert_captured(ran.captured, passed, "client", "rustls", tls_version)


@pytest.mark.heavy
def test_deno(certificate: Certificate, tmp_path: Path) -> None:
    """It was built with frame pointers and without an unwind table."""
    search(DENO)
    program = (DENO, "run", "--allow-net", "--allow-read", PROGRAMS / "deno/client.ts")
    with granian(certificate) as (server, process):
        serve(server, process)
        options = (str(server.port), str(certificate.certificate), *ALL_AT_ONCE)
        ran = run_under(tmp_path, *program, *options)
    passed = told(ran.stdout.decode())
    assert_captured(ran.captured, passed, "client", "rustls", "1.3")


def index(folder: Path) -> Path:
    """Make an index of packages with one, of 1 MB, whose name is ``probed``; return its file."""
    page = folder / "simple" / "probed" / "index.html"
    package = page.with_name("probed-1.0-py3-none-any.whl")
    page.parent.mkdir(parents=True)
    page.write_text(f'<!DOCTYPE html><html><body><a href="{package.name}">1.0</a></body></html>')
    info = "probed-1.0.dist-info"
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("probed.bin", pattern(1 << 20))
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: probed\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return package


@pytest.mark.heavy
def test_uv(certificate: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The installer of packages, itself in Rust: every file that was served is seen whole."""
    search(UV)
    package = index(tmp_path / "index")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.certificate))
    program = PROGRAMS / "python/file_server.py"
    ends = (certificate.certificate, certificate.key, tmp_path / "index")
    with started(sys.executable, program, *ends) as server:
        assert server.stdout is not None
        url = f"https://localhost:{int(server.stdout.readline())}/simple"
        options = ("--no-config", "--no-cache", "--index-url", url, "--target", tmp_path / "target")
        ran = run_under(tmp_path, UV, "pip", "install", *options, "probed")
        server.kill()
        served = [line.split() for line in server.stdout]

    assert (tmp_path / "target" / "probed.bin").read_bytes() == pattern(1 << 20)
    exchanges = [each for each in ran.captured.exchanges if each["request"]["method"] == "GET"]
    seen = [[each["request"]["target"], str(each["client"]["port"])] for each in exchanges]
    assert sorted(seen) == sorted(served)
    bodies = {each["request"]["target"]: content(each["response"]["body"]) for each in exchanges}
    page = "/simple/probed/"
    assert bodies == {
        page: package.with_name("index.html").read_bytes(),
        page + package.name: package.read_bytes(),
    }
    assert {each["library"] for each in exchanges} == {"rustls"}
    assert_whole(ran.captured)
