"""The clients in Python of tests/workload: they make requests when they are told to."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.workload.passed import Passed, told
from tests.workload.processes import PROGRAMS, Process, loading, next_line, say, started
from tests.workload.servers import Certificate, Server


def ask(client: Process, count: int) -> list[Passed]:
    """Let a client make ``count`` requests; return what it tells of them."""
    say(client, str(count))
    assert client.stdout is not None
    lines: list[str] = []
    while (line := client.stdout.readline()) != "\n":
        assert line, f"the client ended behind {len(lines)} of {count} requests"
        lines.append(line)
    return told("".join(lines))


@contextlib.contextmanager
def python_client(
    server: Server, certificate: Certificate, style: str = "http.client", **environment: str
) -> Iterator[Process]:
    """Run tests/workload/python/python_client.py."""
    program = (sys.executable, PROGRAMS / "python/python_client.py", style)
    command = (*program, str(server.port), certificate.certificate)
    with started(*command, env={**os.environ, **environment}) as process:
        yield process


@contextlib.contextmanager
def late_python_client(
    server: Server, certificate: Certificate, library: Path
) -> Iterator[Process]:
    """Run one that imports ssl, and so opens the library, when ``load_library`` tells it to."""
    script = (
        "import runpy, sys\n"
        "print(flush=True)\n"
        "sys.stdin.readline()\n"
        "import ssl\n"
        "print(flush=True)\n"
        "sys.argv = sys.argv[1:]\n"
        "sys.path.insert(0, sys.argv[0].rpartition('/')[0])\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    program = (PROGRAMS / "python/python_client.py", "http.client", str(server.port))
    environment = {**os.environ, **loading(library)}
    command = (sys.executable, "-c", script, *program, certificate.certificate)
    with started(*command, env=environment) as process:
        next_line(process)
        assert "libssl" not in Path(f"/proc/{process.pid}/maps").read_text()
        yield process


def load_library(client: Process) -> None:
    """Let a late client open the library; return when it has."""
    say(client, "go")
    next_line(client)
