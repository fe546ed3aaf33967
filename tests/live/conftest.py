"""Certificates, servers and the sniffer for the live tests."""

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from sslsniff import procfs
from tests.live.load import Load
from tests.live.sniffer import Sniffer, sniffing

PROGRAMS = Path(__file__).parent.parent / "programs"


@dataclass(frozen=True)
class Certificate:
    """A self-signed certificate for localhost and its key."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Server:
    """A running TLS server."""

    pid: int
    port: int
    host: str = "127.0.0.1"

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    folder = tmp_path_factory.mktemp("certificate")
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1"),
            *("-keyout", made.key, "-out", made.certificate),
        ],
        check=True,
        capture_output=True,
    )
    return made


@contextlib.contextmanager
def python_server(certificate: Certificate, host: str = "127.0.0.1") -> Iterator[Server]:
    """Run tests/programs/server.py."""
    process = subprocess.Popen(
        [sys.executable, PROGRAMS / "server.py", certificate.certificate, certificate.key, host],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield Server(process.pid, int(process.stdout.readline()), host)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def server(certificate: Certificate) -> Iterator[Server]:
    with python_server(certificate) as running:
        yield running


@pytest.fixture
def sniff(tmp_path: Path) -> Callable[..., AbstractContextManager[Sniffer]]:
    """Return a function that runs sslsniff with the given arguments, in this test's folder."""
    return partial(sniffing, tmp_path)


@pytest.fixture(scope="session")
def load(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Return tests/programs/load.c, ready to run."""
    program = tmp_path_factory.mktemp("load") / "load"
    subprocess.run(
        ["gcc", "-O2", "-Wall", "-Werror", "-o", program, PROGRAMS / "load.c", "-lssl", "-lcrypto"],
        check=True,
    )
    return Load(program)


@pytest.fixture(scope="session")
def own_library() -> Iterator[Path]:
    """Return a copy of libssl.so.3, readable for all: only who is told to uses it."""
    with tempfile.TemporaryDirectory(prefix="sslsniff-") as folder:
        Path(folder).chmod(0o755)
        yield Path(shutil.copy(dict(procfs.libraries())["libssl.so.3"], folder))
