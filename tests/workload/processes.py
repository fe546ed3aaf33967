"""Programs that are run, or started and then told line by line what to do."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PATIENCE_S = float(os.environ.get("SSLSNIFF_PATIENCE_S", "60"))
"""What a busy machine may take. tests/kernels sets more, for slower machines."""

PROGRAMS = Path(__file__).parent
"""The folder with a folder of programs for each language."""

Process = subprocess.Popen[str]


def run(*command: str | Path, stdin: str = "", **environment: str) -> str:
    """Run a command that must succeed in reasonable time; return its standard output."""
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextlib.contextmanager
def started(*command: str | Path, **options: Any) -> Iterator[Process]:
    """Start a program with pipes; it is gone at the end of the block."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        with contextlib.suppress(BrokenPipeError):
            process.communicate()


def held(command: list[str], **environment: str) -> Process:
    """Start a process that becomes ``command`` once a line is written to its standard input."""
    return subprocess.Popen(
        ["sh", "-c", 'read word; exec "$0" "$@"', *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


@contextlib.contextmanager
def released(command: list[str]) -> Iterator[Process]:
    """Start a process as ``held`` does; it is gone at the end of the block."""
    process = held(command)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def say(process: Process, line: str) -> None:
    """Write a line to a program's standard input."""
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until ``condition`` is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def next_line(process: Process) -> str:
    """Return the next line of a program's standard output, without its end."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def until_said(process: Process, line: str) -> None:
    """Read on in a program's standard output, to a line."""
    assert process.stdout is not None
    assert any(each.rstrip("\n") == line for each in process.stdout)


def loading(library: Path) -> dict[str, str]:
    """Return the environment in which programs use ``library``."""
    return {"LD_LIBRARY_PATH": str(library.parent)}
