"""Names the TLS libraries in the command's processes that the preloaded library cannot see."""

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from sslsniff.analysis.file_analyzer import FileAnalyzer
from sslsniff.capture import survey
from sslsniff.core.errors import NO_TIME
from sslsniff.core.events import IsOver
from sslsniff.core.model import NotProbed
from sslsniff.core.process import Process
from sslsniff.kernel import privileges, procfs
from sslsniff.kernel.memory.shared_ring import MEMORY_NAME
from sslsniff.matching.probe_set import Attachment, ProbedLibrary, ReturnStyle, Unprobed
from sslsniff.preload import why_unseen
from sslsniff.preload.memory_limits import is_limited
from sslsniff.preload.preload_environment import LIBRARY, RING_VARIABLE

_MOST_FILES = 4096
"""More are not looked at: a path in another root is there for one process only."""
_MOST_PIDS = 1024
_MOST_WAIT_S = 10.0
"""How long the end waits for files that are large: as long as one may take (docs/not-probed.md)."""
_WAIT_S = 0.05
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
        self._pids: dict[tuple[str, str, str], set[int]] = {}
        """The processes that each of ``_uses`` counts, as long as they are few."""
        self._runtimes: list[NotProbed] = []
        """Virtual machines: their programs may use a library that is seen instead."""
        self._with_seen: set[int] = set()
        """The processes that have a library whose calls are seen, as long as they are few."""
        self._parts: dict[str, tuple[ProbedLibrary | Unprobed, ...]] = {}
        self._clean: set[str] = set()
        """Paths of files in which all can be seen, also by symbolic links."""
        self._wanted = queue.SimpleQueue[_File | NotProbed | None]()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def found(self) -> list[NotProbed]:
        """The libraries that were found, each with how many processes had it."""
        return list(self._uses.values())

    def look_at_program(self, path: str) -> None:
        """Look at a program now, before it begins."""
        with FileAnalyzer(ReturnStyle.INSTRUCTIONS) as analyzer:
            self._look(_File(path, is_program=True), analyzer)

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

    def look_at_ended(self, program: str | None, files: Iterable[str], process: Process) -> None:
        """Look soon at the files of a process that may have ended before ``look_at`` saw it."""
        for named in (program, *files):
            if named is None or named in self._clean:
                continue
            path = os.path.realpath(named)
            if path in self._clean:
                self._note_clean(named)
            else:
                self._put(_File(path, named == program, process))

    def add(self, path: str, library: str, reason: str, process: Process) -> None:
        """Report a library that a process itself says is not seen."""
        file = _File(path, is_program=False, process=process)
        self._put(_row(file, library, library, reason, self.remedy))

    def finish(self, is_over: IsOver) -> None:
        """Wait until all files are looked at, or ``is_over``; note if not all were."""
        if self._thread.ident is None:
            return
        self._wanted.put(None)
        until_s = time.monotonic() + _MOST_WAIT_S
        while self._thread.is_alive() and not is_over() and time.monotonic() < until_s:
            self._thread.join(_WAIT_S)
        if self._thread.is_alive():
            self._note(f"not all files of the command were searched for TLS libraries: {NO_TIME}")

    def _look_at_files(self, running: procfs.RunningProcess, look: _Look, now_s: float) -> None:
        files = procfs.mapped_files(running.pid)
        why = _why_nothing_is_seen(running, files, now_s - look.since_s)
        for file in files:
            if (file.path, why) in look.files or _is_own(file):
                continue
            look.files.add((file.path, why))
            path = procfs.file_path(running.pid, file)
            if path is not None:
                process = Process(running.pid, running.comm)
                self._put(_File(path, file.path == running.exe, process, why))

    def _put(self, file: _File | NotProbed) -> None:
        if self._thread.ident is None:
            self._thread.start()
        self._wanted.put(file)

    def _run(self) -> None:
        with FileAnalyzer(ReturnStyle.INSTRUCTIONS) as analyzer:
            while (wanted := self._wanted.get()) is not None:
                if isinstance(wanted, NotProbed):
                    self._count(wanted)
                else:
                    self._look(wanted, analyzer)
        for row in self._runtimes:
            if row.first is not None and row.first.pid not in self._with_seen:
                self._count(row)

    def _look(self, file: _File, analyzer: FileAnalyzer) -> None:
        if file.path not in self._parts:
            if len(self._parts) == _MOST_FILES:
                return
            plan = survey.analyse_all([file.path], analyzer)[file.path]
            probed = plan.parts if isinstance(plan, Attachment) else ()
            self._parts[file.path] = (*probed, *plan.unprobed)
        parts = self._parts[file.path]
        rows = [*self._unseen(file, parts)]
        if not rows:
            self._note_clean(file.path)
            if parts and file.process is not None and len(self._with_seen) < _MOST_PIDS:
                self._with_seen.add(file.process.pid)
        for row, is_runtime in rows:
            if not is_runtime:
                self._count(row)
            elif len(self._runtimes) < _MOST_FILES:
                self._runtimes.append(row)

    def _note_clean(self, path: str) -> None:
        if len(self._clean) < _MOST_FILES:
            self._clean.add(path)

    def _count(self, row: NotProbed) -> None:
        """Note a library that was not found before, else one more process that has it."""
        key = (row.file, row.name, row.reason)
        known = self._uses.get(key)
        if known is None and len(self._uses) == _MOST_FILES:
            return
        if known is None:
            self._note(str(row))
            self._uses[key] = row
        elif known.first is None:
            self._uses[key] = row
        elif row.first is not None and row.first.pid not in self._pids[key]:
            self._uses[key] = known._replace(processes=known.processes + 1)
        if row.first is not None and len(pids := self._pids.setdefault(key, set())) < _MOST_PIDS:
            pids.add(row.first.pid)

    def _unseen(
        self, file: _File, parts: Iterable[ProbedLibrary | Unprobed]
    ) -> Iterable[tuple[NotProbed, bool]]:
        """Yield what of a file cannot be seen; if a program loads no library at all, that too.

        With each, whether it is a virtual machine that has the preloaded library.
        """
        no_library = why_unseen.no_library(file.path) if file.is_program else ""
        to_do = why_unseen.REMEDIES.get(no_library, self.remedy)
        for part in parts:
            linked_in = why_unseen.linked_in(file.path, part.library, file.is_program)
            is_runtime = False
            reason, remedy = no_library or linked_in or file.why, to_do
            if reason and isinstance(part, Unprobed):  # more rights would not help
                reason, remedy = part.reason, part.remedy
                is_runtime = part.is_runtime and not no_library and not file.why
            if reason:
                yield _row(file, part.library, str(part), reason, remedy), is_runtime
        if no_library and not parts:
            yield _row(file, "unknown", "any TLS", no_library, to_do), False


def _row(file: _File, library: str, name: str, reason: str, remedy: str) -> NotProbed:
    return NotProbed(library, name, None, reason, remedy, file.path, 1, 1, file.process)


def _remedy() -> str:
    if not privileges.missing():
        return "leave out --engine preload"
    return "run sslsniff with sudo" if os.geteuid() else "see sslsniff doctor"


def _why_nothing_is_seen(
    running: procfs.RunningProcess, files: Iterable[procfs.MappedFile], age_s: float
) -> str:
    """Return why the preloaded library is not at work in a process that has ``files`` mapped.

    The dynamic linker maps it before the libraries that a program needs.
    """
    if procfs.maps_memory(running.pid, MEMORY_NAME):
        return ""
    if any(map(_is_own, files)):
        return _why_no_ring(running) if age_s > _START_S else ""
    is_asked = procfs.has_variable(running.pid, RING_VARIABLE)
    return why_unseen.NOT_FOUND if is_asked else why_unseen.NOT_PRELOADED


def _why_no_ring(running: procfs.RunningProcess) -> str:
    if running.has_seccomp:
        return why_unseen.FILTERED
    if running.has_locked_memory or is_limited(running.pid):
        return why_unseen.LIMITED
    return why_unseen.NO_MEMORY


def _is_own(file: procfs.MappedFile) -> bool:
    return Path(file.path).name == LIBRARY.name
