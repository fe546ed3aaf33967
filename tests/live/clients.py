"""The clients in Python of tests/programs: they make requests when they are told to."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.live import checks
from tests.live.checks import Passed, started
from tests.servers import PROGRAMS, Certificate, Server

Process = subprocess.Popen[str]


def loading(library: Path) -> dict[str, str]:
    """Return the environment in which programs use ``library``."""
    return {"LD_LIBRARY_PATH": str(library.parent)}


def say(process: Process, line: str) -> None:
    """Write a line to a program's standard input."""
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def next_line(process: Process) -> str:
    """Return the next line of a program's standard output, without its end."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def until_said(process: Process, line: str) -> None:
    """Read on in a program's standard output, to a line."""
    assert process.stdout is not None
    assert any(each.rstrip("\n") == line for each in process.stdout)


def ask(client: Process, count: int) -> list[Passed]:
    """Let a client make ``count`` requests; return what it tells of them."""
    say(client, str(count))
    assert client.stdout is not None
    lines: list[str] = []
    while (line := client.stdout.readline()) != "\n":
        assert line, f"the client ended behind {len(lines)} of {count} requests"
        lines.append(line)
    return checks.told("".join(lines))


@contextlib.contextmanager
def python_client(
    server: Server, certificate: Certificate, style: str = "http.client", **environment: str
) -> Iterator[Process]:
    """Run tests/programs/python_client.py."""
    program = (sys.executable, PROGRAMS / "python_client.py", style)
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
    program = (PROGRAMS / "python_client.py", "http.client", str(server.port))
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
