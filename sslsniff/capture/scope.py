"""Says which processes and libraries to watch: the filters that the user gave.

``capture.maps`` writes the filters for processes into the tables of the BPF programs.
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sslsniff.core.errors import TargetError
from sslsniff.kernel import procfs

if TYPE_CHECKING:  # it imports all of the model, and files are asked for before that
    from sslsniff.kernel.containers.cgroup_filter import CgroupFilter

_NAME_BYTES = 15  # TASK_COMM_LEN of include/linux/sched.h, without the null byte


@dataclass(frozen=True, slots=True)
class Scope:
    """What to watch. All filters must match; an empty filter matches everything.

    ``pids``: these processes, with all their descendants if ``follows_children``.
    ``uids``: processes of these users.
    ``comms``: processes with these names, or with programs of these names.
    ``cgroups``: processes in the cgroups v2 that it matches; None: in any.
    ``libraries``: only these files; names or paths.
    ``programs``: files to probe beside those that processes map, such as a command that is about to
    start.
    """

    pids: tuple[int, ...] = ()
    follows_children: bool = True
    uids: tuple[int, ...] = ()
    comms: tuple[str, ...] = ()
    cgroups: "CgroupFilter | None" = None
    libraries: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()

    def current_pids(self) -> list[int]:
        """Return the processes in ``pids``, with the descendants that they have now."""
        return procfs.descendants(self.pids) if self.follows_children else list(self.pids)

    def processes(self) -> Iterator[procfs.RunningProcess]:
        """Yield the processes that match, whatever libraries they use.

        Raises ``TargetError`` if one of ``pids`` does not exist.
        """
        for pid in self.current_pids() if self.pids else procfs.pids():
            process = procfs.process(pid)
            if process is None:
                if pid in self.pids:
                    raise no_process(pid)
                continue
            if self.includes(process):
                yield process

    def includes(self, process: procfs.RunningProcess) -> bool:
        """Say whether a process matches ``uids``, ``comms`` and ``cgroups``."""
        return (
            (not self.uids or process.uid in self.uids)
            and (not self.comms or _has_name(process, self.comms))
            and (self.cgroups is None or self.cgroups.includes(process.pid))
        )

    @property
    def is_whole_host(self) -> bool:
        """Whether nothing limits which processes are watched."""
        return not (self.pids or self.uids or self.comms or self.cgroups or self.libraries)

    def includes_file(self, path: str) -> bool:
        """Say whether the file at ``path`` is one of ``libraries``."""
        return not self.libraries or any(
            path == name if "/" in name else is_library(Path(path).name, name)
            for name in self.libraries
        )


def is_library(file_name: str, name: str) -> bool:
    """Say whether a file is the library of this name: ``ssl``, ``libssl`` or ``libssl.so``."""
    stem = name if name.startswith("lib") or ".so" in name else f"lib{name}"
    return re.match(rf"{re.escape(stem)}($|\.|-\d)", file_name) is not None


def no_process(pid: int) -> TargetError:
    """Return the error for a process of ``--pid`` that does not exist."""
    return TargetError(f"there is no process {pid}", "see ps or pgrep for its number")


def _has_name(process: procfs.RunningProcess, names: Iterable[str]) -> bool:
    """Compare the process's name and its program's, as ``has_name`` in bpf/process.bpf.h does."""
    program = os.fsencode(Path(process.exe or "").name)
    own = {process.comm.encode(errors="surrogateescape"), program[:_NAME_BYTES]}
    return not own.isdisjoint(os.fsencode(name)[:_NAME_BYTES] for name in names)
