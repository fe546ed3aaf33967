"""A PostgreSQL server of its own: a copy of Debian's program, which no other server uses."""

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.workload.processes import PATIENCE_S, started

_PROGRAMS = Path("/usr/lib/postgresql")
USER = "nobody"
AS_USER = ("setpriv", "--reuid", USER, "--regid", "nogroup", "--clear-groups")
_POLL_S = 0.02


class PostgreSQL(NamedTuple):
    """A server that runs: its process, and the folder of its socket."""

    pid: int
    folder: Path

    def ask(self, query: str) -> subprocess.CompletedProcess[str]:
        """Send a query over a connection of its own; return what psql printed."""
        how = ("-X", "-A", "-t", "-q", "-U", USER)
        command = (program("psql"), *how, "-h", self.folder, "-c", query, "postgres")
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


@contextlib.contextmanager
def postgresql() -> Iterator[PostgreSQL]:
    """Start a server that listens at a socket in a new folder; it is gone after the block."""
    with tempfile.TemporaryDirectory() as name:
        folder, data = Path(name), Path(name) / "data"
        folder.chmod(0o755)  # the server does not run as root
        data.mkdir()
        shutil.chown(data, USER)
        # In a folder "bin" it would look for its other files beside that folder.
        copy = folder / "copy" / "postgres"
        copy.parent.mkdir()
        shutil.copy(program("postgres"), copy)
        new = (program("initdb"), "-D", data, "-A", "trust", "--no-sync", "--locale=C")
        subprocess.run([*AS_USER, *new], check=True, capture_output=True, cwd=data)
        command = (*AS_USER, copy, "-D", data, "-k", data, "-h", "", "-F")
        with (
            (folder / "log").open("w+b") as log,
            started(*command, stderr=log, cwd=data) as server,
        ):
            made = PostgreSQL(server.pid, data)
            until = time.monotonic() + PATIENCE_S
            while made.ask("").returncode:
                assert server.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < until, (folder / "log").read_text()
                time.sleep(_POLL_S)
            yield made
            server.terminate()  # it waits for its children: they leave no shared memory
            server.wait(PATIENCE_S)


def program(name: str) -> Path:
    """Return Debian's program of this name."""
    return max(_PROGRAMS.glob(f"*/bin/{name}"))
