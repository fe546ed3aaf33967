"""Builds programs, traces them, and gives back what was traced."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.live.sniffer import SSLSNIFF
from tests.workload.processes import PATIENCE_S, Process, started

PROGRAMS = Path(__file__).parents[2] / "workload" / "functions"

_COMPILERS = {
    ".c": ("gcc", "-g"),
    ".cpp": ("g++", "-g"),
    ".rs": ("rustc", "-C", "debuginfo=2"),
}


class Trace(NamedTuple):
    """What one trace left: its objects, what the program and sslsniff printed, the exit code."""

    objects: list[dict[str, Any]]
    stdout: str
    stderr: str
    code: int

    def calls(self, function: str | None = None) -> list[dict[str, Any]]:
        """Return the calls of one function, or all, in the order in which they ended."""
        calls = [each for each in self.objects if each["type"] == "call"]
        return [each for each in calls if function is None or each["function"] == function]


def build(source: str, to: Path, *flags: str) -> Path:
    """Compile one of ``PROGRAMS`` into the folder ``to``; return the program's path.

    Where a machine has no compiler, SSLSNIFF_COMPILED is a folder with programs by ``build_name``.
    """
    path = PROGRAMS / source
    program = to / path.stem
    compiled = Path(os.environ.get("SSLSNIFF_COMPILED", "/nonexistent"), build_name(source, flags))
    if compiled.exists():
        shutil.copy(compiled, program)
        return program
    command = [*_COMPILERS[path.suffix], *flags, str(path), "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True)
    return program


def build_name(source: str, flags: Sequence[str]) -> str:
    """Return a name for a program that ``build`` makes."""
    return "".join((source, *flags)).replace(" ", "_").replace("/", "_")


def trace(*arguments: str | Path, stdin: str = "", patience_s: float = PATIENCE_S) -> Trace:
    """Run ``sslsniff trace --json ARGUMENTS`` to its end; the objects come by standard error."""
    command = [str(SSLSNIFF), "trace", *map(str, arguments)]
    at = command.index("--") if "--" in command else len(command)
    command[at:at] = ["--json"]
    ended = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=patience_s)
    lines = ended.stderr.splitlines()
    rest = "\n".join(line for line in lines if not line.startswith("{"))
    return Trace(_objects(lines), ended.stdout, rest, ended.returncode)


@contextlib.contextmanager
def tracing(process: int, *arguments: str | Path) -> Iterator[Process]:
    """Run ``sslsniff trace --json --pid PROCESS ARGUMENTS``; the block begins when it traces."""
    command = (SSLSNIFF, "trace", "--json", "--pid", str(process), *arguments)
    with started(*command, stderr=subprocess.PIPE) as tracer:
        assert tracer.stderr is not None
        said = []
        for line in tracer.stderr:
            said.append(line)
            if "tracing;" in line:
                break
        assert "tracing;" in said[-1], said
        yield tracer


def traced_until_now(tracer: Process) -> Trace:
    """End what ``tracing`` started; return what it traced."""
    tracer.send_signal(signal.SIGINT)
    output, errors = tracer.communicate(timeout=PATIENCE_S)
    return Trace(_objects(output.splitlines()), "", errors, tracer.returncode)


def _objects(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines if line.startswith("{")]


def show(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run ``sslsniff trace ARGUMENTS`` to its end, with text for people."""
    command = [str(SSLSNIFF), "trace", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
