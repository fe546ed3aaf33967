"""gunicorn with an application that passes orders on: processes or threads that serve one each."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.workload.ports import free_port, listening
from tests.workload.processes import PROGRAMS
from tests.workload.servers import Certificate, Server

_WORKERS = {
    "sync": ("--workers", "4"),
    "gthread": ("--workers", "2", "--threads", "10", "--keep-alive", "60"),
}
"""Kinds of workers, with their options."""


@contextlib.contextmanager
def running_gunicorn(
    certificate: Certificate, stock: int, kind: str, client: str = "requests"
) -> Iterator[Server]:
    """Run gunicorn with workers of a kind; it asks a service at a port by ``client``."""
    port = free_port()
    command: list[str | Path] = [
        *(sys.executable, "-m", "gunicorn", "--log-level", "warning"),
        *("--bind", f"127.0.0.1:{port}", "--chdir", PROGRAMS / "python"),
        *("--certfile", certificate.certificate, "--keyfile", certificate.key),
        *("--worker-class", kind, *_WORKERS[kind], "wsgi_orders:application"),
    ]
    asks = {
        "STOCK_PORT": str(stock),
        "STOCK_CERTIFICATE": str(certificate.certificate),
        "STOCK_CLIENT": client,
    }
    with listening(command, port, {**os.environ, **asks}) as process:
        yield Server(process.pid, port)
