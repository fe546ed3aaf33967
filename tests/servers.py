"""A TLS server with a certificate of its own, for tests, the demo and the captures in pcaps/."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"


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
