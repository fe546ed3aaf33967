"""Which processes and libraries to watch: the filters that the user gave.

``live.maps`` passes those for processes to the programs in the kernel.
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sslsniff.errors import TargetError
from sslsniff.kernel import procfs

_NAME_BYTES = 15  # of a process's name: TASK_COMM_LEN, include/linux/sched.h, without its end


@dataclass(frozen=True, slots=True)
class Scope:
    """What to watch. All filters must match; an empty one matches anything.

    ``pids`` are watched with all their descendants if ``follows_children``. ``libraries`` are names
    or paths; ``programs`` are files to probe beside those that processes map already, such as a
    command that is about to start.
    """

    pids: tuple[int, ...] = ()
    follows_children: bool = True
    uids: tuple[int, ...] = ()
    comms: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()

    def current_pids(self) -> list[int]:
        """Return the processes in ``pids``, with the descendants that they have now."""
        return procfs.descendants(self.pids) if self.follows_children else list(self.pids)

    def processes(self) -> Iterator[procfs.RunningProcess]:
        """Yield the processes that are to be watched, whatever libraries they use.

        Raises ``TargetError`` where one of ``pids`` does not exist.
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
        """Say whether a process has a user of ``uids`` and a name of ``comms``."""
        return (not self.uids or process.uid in self.uids) and (
            not self.comms or _has_name(process, self.comms)
        )

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
    """Return the error for a process that was asked for and does not exist."""
    return TargetError(f"there is no process {pid}", "see ps or pgrep for its number")


def _has_name(process: procfs.RunningProcess, names: Iterable[str]) -> bool:
    """Say what ``is_watched`` in bpf/process.bpf.h does: by the process's name or its program's."""
    program = os.fsencode(Path(process.exe or "").name)
    own = {process.comm.encode(errors="surrogateescape"), program[:_NAME_BYTES]}
    return not own.isdisjoint(os.fsencode(name)[:_NAME_BYTES] for name in names)
