"""TLS servers, and a certificate of their own."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

from tests.workload.processes import PATIENCE_S, PROGRAMS


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


def self_signed(folder: Path) -> Certificate:
    """Make a certificate for localhost in ``folder``."""
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1"),
            *("-addext", "basicConstraints=critical,CA:FALSE"),  # or rustls refuses it
            *("-keyout", made.key, "-out", made.certificate),
        ],
        check=True,
        capture_output=True,
    )
    return made


@contextlib.contextmanager
def python_server(certificate: Certificate, host: str = "127.0.0.1") -> Iterator[Server]:
    """Run tests/workload/python/server.py."""
    process = subprocess.Popen(
        [
            sys.executable,
            PROGRAMS / "python/server.py",
            certificate.certificate,
            certificate.key,
            host,
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield Server(process.pid, int(process.stdout.readline()), host)
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def running_server(*command: str | Path, **environment: str) -> Iterator[Server]:
    """Run a server that prints its port.

    At the end of the block it must still be there, and end as it is told to.
    """
    with TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "RUST_BACKTRACE": "0", **environment},
        )
        try:
            assert process.stdout is not None
            yield Server(process.pid, int(process.stdout.readline()))
            process.terminate()
            code = process.wait(PATIENCE_S)
            errors.seek(0)
            assert code == -signal.SIGTERM, errors.read()
        finally:
            process.kill()
            process.communicate()


def built_server(
    program: Path, certificate: Certificate, **environment: str
) -> contextlib.AbstractContextManager[Server]:
    """Run a server of tests/workload that was built, as ``running_server`` does."""
    return running_server(program, certificate.certificate, certificate.key, **environment)
