"""The programs in ``programs/`` that make traffic as they are told to."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Self

from tests.workload.servers import Certificate, self_signed

_PATIENCE_S = 120
_SOURCES = Path(__file__).parent / "programs"


@contextlib.contextmanager
def own_folder() -> Iterator[tuple[Path, Certificate]]:
    """Yield a folder that is gone at the end of the block, and a certificate in it."""
    with tempfile.TemporaryDirectory(prefix="sslsniff-bench-") as name:
        folder = Path(name)
        yield folder, self_signed(folder)


class _Load:
    """A program in ``programs/``, running: it answers each line with one."""

    source = ""
    libraries: tuple[str, ...] = ("-lssl", "-lcrypto")

    def __init__(
        self,
        folder: Path,
        certificate: Certificate,
        before: Iterable[str | Path] = (),
        stderr: IO[str] | None = None,
    ) -> None:
        """Start it; ``before`` is a command that it is an argument of."""
        self._process = subprocess.Popen(
            [*before, *self._command(folder), certificate.certificate, certificate.key],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        self._line()
        self.pid = self._process.pid

    def _command(self, folder: Path) -> list[str | Path]:
        """Return how the program is run; here it is compiled into ``folder``."""
        binary = folder / self.source
        source = _SOURCES / f"{self.source}.c"
        options = ("-O2", "-pthread", "-o")
        subprocess.run(["gcc", *options, binary, source, *self.libraries], check=True)
        return [binary]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def end(self) -> None:
        """Let it end by itself."""
        self._process.communicate(timeout=_PATIENCE_S)

    @property
    def library(self) -> str:
        """The path of its OpenSSL."""
        maps = Path(f"/proc/{self.pid}/maps").read_text().split()
        return next(each for each in maps if "/libssl.so" in each)

    def _ask(self, *numbers: float) -> list[str]:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, numbers)) + "\n")
        self._process.stdin.flush()
        return self._line().split()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.source} ended with {self._process.wait()}")
        return line


class MessageLoad(_Load):
    """Messages between two threads of one process."""

    def send(self, count: int, size: int, rate: float = 0) -> tuple[float, int]:
        """Send messages of ``size`` bytes, ``rate`` a second, or as fast as they go.

        Returns the seconds, and the calls of OpenSSL.
        """
        seconds, reads = self._ask(count, size, rate)
        return float(seconds), count + int(reads)


class Messages(MessageLoad):
    """By a program in C, with SSL_read and SSL_write."""

    source = "messages"


class InMemory(MessageLoad):
    """By a program in C, both ends in one thread and in memory."""

    source = "in_memory"


class GnutlsMessages(MessageLoad):
    """By a program in C, with gnutls_record_send and gnutls_record_recv."""

    source = "messages_gnutls"
    libraries = ("-lgnutls",)


class PythonMessages(MessageLoad):
    """By Python's ssl, which calls SSL_read_ex and SSL_write_ex."""

    source = "messages.py"

    def _command(self, folder: Path) -> list[str | Path]:
        return [sys.executable, _SOURCES / self.source]


class GoMessages(MessageLoad):
    """By Go's crypto/tls."""

    source = "messages.go"

    def _command(self, folder: Path) -> list[str | Path]:
        binary = folder / "messages-go"
        environment = {**os.environ, "GO111MODULE": "off"}
        source = str(_SOURCES / self.source)
        subprocess.run(["go", "build", "-o", str(binary), source], check=True, env=environment)
        return [binary]


class Calls(MessageLoad):
    """Calls of a function with two numbers and a text, in C.

    The size has no meaning; the seconds are of the program's CPU.
    """

    source = "calls"
    libraries = ("-g",)


class Exchanges(_Load):
    """Small exchanges of HTTP/1.1; the process is the server's, the client has its own."""

    source = "exchanges"

    def make(self, connections: int, exchanges: int, at_a_time: int, rate: float = 0) -> float:
        """Make ``exchanges`` on each connection, ``rate`` a second, or as fast as they go.

        So many connections ``at_a_time`` are open. Returns the seconds.
        """
        return float(*self._ask(connections, exchanges, at_a_time, rate))


class Pairs(_Load):
    """Small exchanges of HTTP/1.1, both ends of all connections in one thread."""

    source = "pairs"

    def make(self, connections: int, exchanges: int, rate: float = 0) -> float:
        """Make ``exchanges`` on each connection, ``rate`` a second, or as fast as they go.

        Returns the seconds. Both ends see each exchange, and each end has two calls for it.
        """
        return float(*self._ask(connections, exchanges, rate))
