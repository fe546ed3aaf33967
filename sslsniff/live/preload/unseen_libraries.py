"""Names the TLS libraries in the command's processes that the preloaded library cannot see."""

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from sslsniff.kernel import privileges, procfs
from sslsniff.kernel.memory.shared_ring import MEMORY_NAME
from sslsniff.live import survey
from sslsniff.live.preload import why_unseen
from sslsniff.live.preload.preload_environment import LIBRARY, RING_VARIABLE
from sslsniff.model import NotProbed, Process
from sslsniff.probing.planning.planning import Planning
from sslsniff.probing.probe_set import Attachment, ProbedLibrary, ReturnStyle, Unprobed

_MOST_FILES = 4096
"""More are not looked at: a path in another root is there for one process only."""
_START_S = 2.0
"""How long a process may take from its start until the preloaded library runs."""


class _File(NamedTuple):
    """A file to look at.

    ``is_program``: a process executes it. ``process``: one that has it; None: it did not begin yet.
    ``why``: why nothing is seen in that process, "" otherwise.
    """

    path: str
    is_program: bool
    process: Process | None = None
    why: str = ""


@dataclass(slots=True)
class _Look:
    """What is known of a process that runs ``program``: the files that were looked at."""

    program: str
    since_s: float
    files: set[tuple[str, str]] = field(default_factory=set)


class UnseenLibraries:
    """Looks at the files of processes, each once, in a thread: a large one takes seconds.

    ``note``: called with a line for each library that cannot be seen. ``remedy``: what shows it, by
    the rights that this process has when it makes this object.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self.remedy = _remedy()
        self._note = note
        self._looks: dict[int, _Look] = {}
        self._uses: dict[tuple[str, str, str], NotProbed] = {}
        self._parts: dict[str, tuple[ProbedLibrary | Unprobed, ...]] = {}
        self._wanted = queue.SimpleQueue[_File | None]()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def found(self) -> list[NotProbed]:
        """The libraries that were found, each with how many processes had it."""
        return list(self._uses.values())

    def look_at_program(self, path: str) -> None:
        """Look at a program now, before it begins."""
        with Planning(ReturnStyle.INSTRUCTIONS) as planning:
            self._look(_File(path, is_program=True), planning)

    def look_at(self, pids: Iterable[int]) -> None:
        """Look soon at the files that processes have mapped, and that were not looked at before."""
        now_s = time.monotonic()
        looks = {}
        for pid in pids:
            running = procfs.process(pid)
            if running is None or running.exe is None:
                continue
            known = self._looks.get(pid)
            if known is None or known.program != running.exe:
                known = _Look(running.exe, now_s)
            looks[pid] = known
            self._look_at_files(running, known, now_s)
        self._looks = looks

    def finish(self, timeout_s: float) -> None:
        """Wait until all are looked at, ``timeout_s`` at most."""
        if self._thread.ident is not None:
            self._wanted.put(None)
            self._thread.join(timeout_s)

    def _look_at_files(self, running: procfs.RunningProcess, look: _Look, now_s: float) -> None:
        files = procfs.mapped_files(running.pid)
        why = _why_nothing_is_seen(running.pid, files, now_s - look.since_s)
        for file in files:
            if (file.path, why) in look.files or _is_own(file):
                continue
            look.files.add((file.path, why))
            path = procfs.file_path(running.pid, file)
            if path is not None:
                process = Process(running.pid, running.comm)
                self._put(_File(path, file.path == running.exe, process, why))

    def _put(self, file: _File) -> None:
        if self._thread.ident is None:
            self._thread.start()
        self._wanted.put(file)

    def _run(self) -> None:
        with Planning(ReturnStyle.INSTRUCTIONS) as planning:
            while (file := self._wanted.get()) is not None:
                self._look(file, planning)

    def _look(self, file: _File, planning: Planning) -> None:
        if file.path not in self._parts:
            if len(self._parts) == _MOST_FILES:
                return
            plan = survey.plan_all([file.path], planning)[file.path]
            self._parts[file.path] = plan.parts if isinstance(plan, Attachment) else ()
        for row in self._unseen(file, self._parts[file.path]):
            self._count(row)

    def _count(self, row: NotProbed) -> None:
        """Note a library that was not found before, else one more process that has it."""
        key = (row.file, row.name, row.reason)
        known = self._uses.get(key)
        if known is None:
            self._note(str(row))
            self._uses[key] = row
        elif known.first is None:
            self._uses[key] = row
        else:
            self._uses[key] = known._replace(processes=known.processes + 1)

    def _unseen(
        self, file: _File, parts: Iterable[ProbedLibrary | Unprobed]
    ) -> Iterable[NotProbed]:
        """Yield what of a file cannot be seen; if a program loads no library at all, that too."""
        no_library = why_unseen.no_library(file.path) if file.is_program else ""
        to_do = why_unseen.REMEDIES.get(no_library, self.remedy)
        for part in parts:
            linked_in = why_unseen.linked_in(file.path, part.library, file.is_program)
            reason, remedy = no_library or linked_in or file.why, to_do
            if reason and isinstance(part, Unprobed):  # more rights would not help
                reason, remedy = part.reason, part.remedy
            if reason:
                yield _row(file, part.library, str(part), reason, remedy)
        if no_library and not parts:
            yield _row(file, "unknown", "any TLS", no_library, to_do)


def _row(file: _File, library: str, name: str, reason: str, remedy: str) -> NotProbed:
    return NotProbed(library, name, None, reason, remedy, file.path, 1, 1, file.process)


def _remedy() -> str:
    if not privileges.missing():
        return "leave out --engine preload"
    return "run sslsniff with sudo" if os.geteuid() else "see sslsniff doctor"


def _why_nothing_is_seen(pid: int, files: Iterable[procfs.MappedFile], age_s: float) -> str:
    """Return why the preloaded library is not at work in a process that has ``files`` mapped.

    The dynamic linker maps it before the libraries that a program needs.
    """
    if procfs.maps_memory(pid, MEMORY_NAME):
        return ""
    if any(map(_is_own, files)):
        return why_unseen.NO_MEMORY if age_s > _START_S else ""
    is_asked = procfs.has_variable(pid, RING_VARIABLE)
    return why_unseen.NOT_FOUND if is_asked else why_unseen.NOT_PRELOADED


def _is_own(file: procfs.MappedFile) -> bool:
    return Path(file.path).name == LIBRARY.name
