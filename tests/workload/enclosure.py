"""Watching a whole host without watching this one: a PID and mount namespace of its own.

Copies of the TLS libraries are mounted over the installed ones there, so that no probe is in a
file that a process outside has mapped. That is checked before anything is watched.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sslsniff.kernel import procfs
from sslsniff.libraries.supported import PLANS
from tests.workload.mounts import apart
from tests.workload.processes import PATIENCE_S

_FILE_NAMES = tuple({name for plan in PLANS for name in plan.file_names})


def installed() -> list[Path]:
    """Return the installed libraries that would be probed for processes to come."""
    found = (Path(path) for name, path in procfs.libraries() if name.startswith(_FILE_NAMES))
    return sorted({path.resolve() for path in found})


@dataclass(frozen=True)
class Enclosure:
    """The namespaces; ``pid`` is that of their first process, as seen from outside."""

    pid: int

    def command(self, *command: str | Path) -> list[str]:
        """Return what runs ``command`` inside, in the same root directory and folder."""
        return ["nsenter", "-t", str(self.pid), "-m", "-p", "-r", "-w", "--", *map(str, command)]

    def run(self, *command: str | Path, **environment: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*command),
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_S,
            env={**os.environ, **environment},
        )

    @contextlib.contextmanager
    def started(
        self, *command: str | Path, **environment: str
    ) -> Iterator["subprocess.Popen[str]"]:
        """Start a program inside; it is gone at the end of the block."""
        process = subprocess.Popen(
            self.command(*command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        try:
            yield process
        finally:
            with contextlib.suppress(IndexError, ProcessLookupError):  # it ends just now
                if process.poll() is None:
                    os.kill(outer_pid(process.pid), signal.SIGKILL)
            process.communicate()


def outer_pid(nsenter: int) -> int:
    """Return the number outside of the one program that ``nsenter`` started."""
    deadline = time.monotonic() + PATIENCE_S
    children = Path(f"/proc/{nsenter}/task/{nsenter}/children")
    while not (pids := children.read_text().split()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return int(pids[0])


def inner_pid(pid: int) -> int:
    """Return the number inside of the process that is ``pid`` outside."""
    status = Path(f"/proc/{pid}/status").read_text()
    [numbers] = [line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")]
    return int(numbers[-1])


@contextlib.contextmanager
def enclosure(folder: Path) -> Iterator[Enclosure]:
    """Make the namespaces; all that runs in them is killed at the end of the block."""
    copies = {library: Path(shutil.copy(library, folder)) for library in installed()}
    mounts = [f"mount --bind {copy} {library}" for library, copy in copies.items()]
    script = " && ".join(["mount -t proc proc /proc", *mounts, "echo ready", "exec sleep 600"])
    command = apart("unshare", "--pid", "--fork", "--kill-child", "sh", "-c", script)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        made = Enclosure(outer_pid(process.pid))
        root = Path(f"/proc/{made.pid}/root")
        for library, copy in copies.items():
            assert (root / library.relative_to("/")).samefile(copy)
            assert not library.samefile(copy)
        yield made
    finally:
        process.kill()
        process.communicate()
