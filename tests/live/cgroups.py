"""Cgroups of the tests' own, with programs in them, as container runtimes make them."""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sslsniff.kernel.containers.cgroup_tree import mount_of_v2
from tests.workload.processes import PATIENCE_S

_JOIN = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


@dataclass(frozen=True)
class Cgroup:
    """A cgroup; ``path`` is below the root of its hierarchy."""

    path: str
    folder: Path

    def below(self, name: str) -> "Cgroup":
        """Make a cgroup below this one."""
        made = Cgroup(f"{self.path}/{name}", self.folder / name)
        made.folder.mkdir(parents=True)
        return made

    def command(self, *command: str | Path) -> list[str]:
        """Return what runs ``command`` in this cgroup."""
        return ["sh", "-c", _JOIN, str(self.folder), *map(str, command)]

    def remove(self) -> None:
        """Remove it, and those below it, once their processes have ended."""
        deadline = time.monotonic() + PATIENCE_S
        for folder, _, _ in os.walk(self.folder, topdown=False):
            while True:
                try:
                    Path(folder).rmdir()
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.02)


@contextlib.contextmanager
def own_cgroup(mount: Path | None = None) -> Iterator[Cgroup]:
    """Make a cgroup for a test, in cgroup v2 unless ``mount`` is another hierarchy's."""
    root = mount or mount_of_v2()
    assert root is not None, "cgroup v2 is not mounted"
    name = f"sslsniff-test-{os.getpid()}"
    made = Cgroup(f"/{name}", root / name)
    made.folder.mkdir()
    try:
        yield made
    finally:
        made.remove()
