"""Reports and counts the TLS libraries of watched processes that are not probed."""

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from sslsniff.capture.scope import Scope
from sslsniff.core.errors import TargetError
from sslsniff.core.model import NotProbed
from sslsniff.core.process import Process
from sslsniff.kernel import procfs
from sslsniff.kernel.file_identity import Identity, identify
from sslsniff.matching.probe_set import Unprobed

_MOST_SEPARATE = 64
"""Beyond it, or if the whole host is watched, files with the same library count as one."""
_MOST_LIBRARIES = 512
"""Beyond it only kinds of libraries count: somebody may make up files with many versions."""
_MOST_FILES = 4096
_MOST_PROCESSES = 1024

_MOST_PROBED = 65536

_UNKNOWN = Unprobed(
    "unknown",
    "TLS",
    None,
    "no probe saw it",
    "if it only forwards TLS, watch the programs at both ends, else the other end",
)
"""TLS of a process in which no library was recognised, or only those with probes."""
_TOO_EARLY = Unprobed(
    "unknown",
    "TLS",
    None,
    "it passed before the process's library got its probes",
    "start the program by sslsniff -- COMMAND, or watch it with --hold",
)
"""TLS of a process whose library was loaded, and used, a moment before it got probes."""
_TOO_MANY = "there are more of them than sslsniff tells apart"


class UnprobedLibraries:
    """Counts the TLS libraries without probes that processes in ``scope`` use.

    ``name``: returns the name of a process in ``scope`` that has ended, None if it is unknown.

    Memory is bounded: some kilobytes for each of 512 libraries, and little for each file.
    """

    def __init__(self, scope: Scope, name: Callable[[int], str | None]) -> None:
        self._scope = scope
        self._name = name
        self._files: dict[Identity, list[_LibraryUse]] = {}
        self._probed_files: dict[Identity, int] = {}
        """Files with probes -> since when, on the monotonic clock."""
        self._with_probes: set[int] = set()
        """Processes that use a library with probes; known only of those that use others, too."""
        self._paths: dict[str, str | None] = {}
        """A file's name -> its path, None if several have that name: a process may have ended."""
        self._is_over = False
        self._uses: dict[tuple[Unprobed, str | None], _LibraryUse] = {}

    def add(self, file: Identity, path: str, rows: Iterable[Unprobed]) -> None:
        """Note the libraries in a file: they count when a watched process uses it."""
        self._files.pop(file, None)  # an older version, or another file that had its inode
        self._probed_files.pop(file, None)
        name = Path(path).name
        if len(self._paths) < _MOST_FILES:
            self._paths[name] = path if self._paths.get(name, path) == path else None
        uses = [self._use(row, path) for row in rows]
        if uses and len(self._files) < _MOST_FILES:
            self._files[file] = uses
        for use in uses:
            # A file of --lib counts even if no process uses it.
            use.add_file(path, is_wanted=bool(self._scope.libraries))

    def add_probed(self, file: Identity) -> None:
        """Note that a file has probes from now on."""
        if len(self._probed_files) < _MOST_FILES:
            self._probed_files[file] = time.monotonic_ns()

    def probed_ns(self, pid: int) -> int | None:
        """Return when the last library of a process got its probes, on the monotonic clock.

        None: it has no library with probes. 0: not known, as the process has ended.
        """
        paths = [procfs.file_path(pid, each) for each in procfs.mapped_files(pid)]
        if not paths:
            is_named = any(use.has(pid) for use in self._uses.values())
            return None if is_named and pid not in self._with_probes else 0
        files = [_identity(path) for path in paths if path is not None]
        return max(
            (self._probed_files[file] for file in files if file in self._probed_files), default=None
        )

    def uses_tls(self, path: str) -> bool:
        """Say whether the file at ``path`` has a TLS library, with probes or without."""
        file = _identity(path)
        return file in self._probed_files or file in self._files

    def carries_tls(
        self, pid: int, comm: str, program: str, peer: str, *, is_too_early: bool = False
    ) -> None:
        """Count a TLS connection of a process in ``scope`` whose plaintext no probe saw.

        ``program``: its file name, shown if its path is not known; ``peer``: whom the connection
        was with; ``is_too_early``: it passed before the process's library got its probes.
        """
        uses = [
            use
            for use in self._uses.values()
            if use.has(pid) and (use.row is _TOO_EARLY) is is_too_early
        ]
        if not uses:
            running = procfs.process(pid)
            path = (running and running.exe) or self._paths.get(program) or program
            use = self._use(_TOO_EARLY if is_too_early else _UNKNOWN, path)
            if not use.has(pid):
                use.add_file(path, is_wanted=True)
                use.add_process(Process(pid, comm))
            uses = [use]
        uses[0].add_connection(peer)

    def _use(self, row: Unprobed, path: str) -> "_LibraryUse":
        if len(self._uses) >= _MOST_LIBRARIES:
            row = Unprobed(row.library, row.name, None, _TOO_MANY)
        separate = None if self._scope.is_whole_host or len(self._uses) >= _MOST_SEPARATE else path
        return self._uses.setdefault((row, separate), _LibraryUse(row))

    def find_processes(self) -> None:
        """Count the processes that use these files now."""
        if not self._files:
            return
        known: dict[tuple[str, int, int], Identity | None] = {}
        for process in self.processes():
            for file in procfs.mapped_files(process.pid):
                key = file[:3]
                if key not in known:
                    path = procfs.file_path(process.pid, file)
                    known[key] = None if path is None else _identity(path)
                self.used(known[key], process.pid, process)

    def processes(self) -> Iterator[procfs.RunningProcess]:
        """Yield the processes in the scope that run now."""
        scopes = [replace(self._scope, pids=(pid,)) for pid in self._scope.pids] or [self._scope]
        for each in scopes:
            with contextlib.suppress(TargetError):  # it has ended meanwhile
                yield from each.processes()

    def mapped(self, pid: int, path: str) -> None:
        """Count process ``pid``, which maps the file at ``path``, a path for this process.

        If the scope has ``pids``, the caller checks that it is one of them or a descendant.
        """
        if self._files or self._probed_files:
            self.used(_identity(path), pid, None)

    def used(self, file: Identity | None, pid: int, process: procfs.RunningProcess | None) -> None:
        """Count process ``pid`` as ``mapped`` does; ``process``: its facts, None: not known yet."""
        if file in self._probed_files and len(self._with_probes) < _MOST_PROBED:
            self._with_probes.add(pid)
        uses = self._files.get(file, ()) if file else ()
        if not uses or pid == os.getpid():
            return
        process = process or procfs.process(pid)
        if process is None:
            name = self._name(pid)
            scope = self._scope
            if scope.cgroups or (name is None and (scope.uids or scope.comms)):
                return  # unknown whether it matched the filters
        elif self._scope.includes(process):
            name = process.comm
        else:
            return
        for use in uses:
            use.add_process(Process(pid, name or "?"))

    def new_lines(self) -> Iterator[str]:
        """Yield a line for each library that has come into use since the last call."""
        for use in self._uses.values():
            if self._is_named(use) and use.is_news:
                use.is_news = False
                yield str(use.sum())

    def finish(self) -> None:
        """From now on, name the runtimes of which nothing is known, too."""
        self._is_over = True

    def sums(self) -> list[NotProbed]:
        """Return all libraries in use so far."""
        return [use.sum() for use in self._uses.values() if self._is_named(use)]

    def _is_named(self, use: "_LibraryUse") -> bool:
        """Say whether a library counts as used. A runtime may load one with probes later."""
        if not use.is_wanted or not use.row.is_runtime or use.connections:
            return use.is_wanted
        return self._is_over and not use.is_only_of(self._with_probes)


class _LibraryUse:
    """The use of one library, in one file or in several.

    ``is_wanted``: it is in use. ``is_news``: there is something that was not reported.
    """

    def __init__(self, row: Unprobed) -> None:
        self.row = row
        self.is_wanted = False
        self.is_news = True
        self.connections = 0
        self._peer = ""
        self._path = ""
        self._files = 0
        self._processes = 0
        self._first: Process | None = None
        self._pids: set[int] = set()

    def has(self, pid: int) -> bool:
        return pid in self._pids

    def is_only_of(self, pids: set[int]) -> bool:
        return bool(self._pids) and self._pids <= pids

    def add_file(self, path: str, *, is_wanted: bool) -> None:
        self._path = self._path or path
        self._files += 1
        self.is_wanted |= is_wanted

    def add_process(self, process: Process) -> None:
        """Count a process once; beyond ``_MOST_PROCESSES``, each time that it maps the file."""
        if process.pid not in self._pids:
            self._first = self._first or process
            self._processes += 1
            self.is_wanted = True
            if len(self._pids) < _MOST_PROCESSES:
                self._pids.add(process.pid)

    def add_connection(self, peer: str) -> None:
        """Count a TLS connection without plaintext; the first one is news."""
        self.is_news |= not self.connections
        self.connections += 1
        self._peer = self._peer or peer

    def sum(self) -> NotProbed:
        row = self.row
        return NotProbed(
            library=row.library,
            name=row.name,
            version=row.version,
            reason=row.reason,
            remedy=row.remedy,
            file=self._path,
            files=self._files,
            processes=self._processes,
            first=self._first,
            connections=self.connections,
            peer=self._peer,
        )


def _identity(path: str) -> Identity | None:
    try:
        return identify(path)[0]
    except OSError:
        return None
