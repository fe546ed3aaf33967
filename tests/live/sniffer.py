"""Runs the real sslsniff on real programs, and gives back what it said."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.workload.processes import PATIENCE_S

SSLSNIFF = Path(sys.executable).with_name("sslsniff")
READY = "sslsniff: watching"
_ENDED = re.compile(r"sslsniff: process \d+ ended$")
NOTHING_YET = f"{READY} 0 files"
_WAITING = re.compile(r"analysed|watched from now on|no supported TLS library is loaded yet")
NOT_PROBED = re.compile(r"(sslsniff: )?not probed: ")
PLANNED_LATER = "is analysed: watched from now on"
# tests/kernels sets both, for slower machines and another loader.
IS_EMULATED = "SSLSNIFF_PATIENCE_S" in os.environ
LOADER = os.environ.get("SSLSNIFF_LOADER", "auto")


@dataclass
class Captured:
    """What one run of sslsniff left.

    ``not_probed`` are the lines on standard error about libraries that cannot be seen, which are
    not in ``stderr``: Debian's curl and its like load GnuTLS, too.
    """

    objects: list[dict[str, Any]]
    stderr: str
    code: int
    not_probed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stderr, self.not_probed = divided(self.stderr)

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the JSON objects of one type."""
        return [each for each in self.objects if each["type"] == kind]

    @property
    def exchanges(self) -> list[dict[str, Any]]:
        return self.of("exchange")

    @property
    def summary(self) -> dict[str, Any]:
        [summary] = self.of("summary")
        return summary


def divided(stderr: str) -> tuple[str, list[str]]:
    """Return what sslsniff said, and apart from it the lines on libraries that are not probed.

    Lines on processes that ended are in neither: a test may end one or not.
    The summary's, which say the same again, are in neither.
    """
    lines = stderr.splitlines(keepends=True)
    rest = "".join(line for line in lines if not (NOT_PROBED.match(line) or _ENDED.match(line)))
    apart = [line.rstrip() for line in lines if NOT_PROBED.match(line)]
    return rest, [line for line in apart if line.startswith("sslsniff: ")]


def without_waiting(stderr: str) -> str:
    """Return what sslsniff said, without the lines on slow planning in an emulated machine."""
    lines = stderr.splitlines(keepends=True)
    return "".join(each for each in lines if not (IS_EMULATED and _WAITING.search(each)))


@dataclass
class Sniffer:
    """A running sslsniff that writes JSON lines to a file."""

    process: subprocess.Popen[str]
    output: Path
    errors: Path
    captured: Captured | None = field(default=None)

    def stop(self) -> Captured:
        """End it as Ctrl-C does; return what it captured."""
        if self.captured is None:
            self.process.send_signal(signal.SIGINT)
            self.captured = self.wait()
        return self.captured

    def wait(self) -> Captured:
        """Wait until it ends by itself."""
        code = self.process.wait(PATIENCE_S)
        lines = self.output.read_text("utf-8").splitlines() if self.output.exists() else []
        return Captured([json.loads(line) for line in lines], self.errors.read_text(), code)

    def until(self, count: int, kind: str = "exchange") -> None:
        """Wait until so many objects of one type are in the output."""
        _wait_for(self.output, f'{{"type":"{kind}"', count)

    def until_told(self, what: str) -> None:
        """Wait until ``what`` is told on standard error."""
        _wait_for(self.errors, what, 1)


def _wait_for(file: Path, what: str, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while file.read_text("utf-8").count(what) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"fewer than {count} of {what} in:\n{file.read_text()[:2000]}")
        time.sleep(0.05)


@contextlib.contextmanager
def sniffing(directory: Path, *arguments: str, wait_ready: bool = True) -> Iterator[Sniffer]:
    """Run ``sslsniff ARGUMENTS --json`` in the background; ready means its probes are placed."""
    output, errors = directory / "captured.jsonl", directory / "errors.txt"
    # Here it matters what was captured; how long an end takes, in test_end_in_time.py.
    command: list[str | Path] = [
        SSLSNIFF,
        "--json",
        "--force",
        "--loader",
        LOADER,
        "--end-within",
        str(int(PATIENCE_S)),
    ]
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            [*command, "-o", output, *arguments],
            stderr=stderr,
            stdout=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )
    sniffer = Sniffer(process, output, errors)
    try:
        if wait_ready:
            _wait_ready(sniffer)
        yield sniffer
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _wait_ready(sniffer: Sniffer) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while READY not in sniffer.errors.read_text():
        if sniffer.process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"sslsniff did not start: {sniffer.errors.read_text()}")
        time.sleep(0.01)
    # On an emulated machine it takes 5 s to plan a new file: no start waits so long.
    said = sniffer.errors.read_text()
    if IS_EMULATED and NOTHING_YET in said and "still being analysed" in said:
        sniffer.until_told(PLANNED_LATER)
