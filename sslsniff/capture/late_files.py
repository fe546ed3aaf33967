"""Finds, analyses and probes the files that processes map, at the start and later.

The kernel reports a mapping a moment after it happened (``Mappings``). A held thread waits where it
maps a file (``Holds``). To analyse a file may take seconds: the capture continues meanwhile.
"""

import contextlib
import os
import shlex
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sslsniff.analysis.file_analyzer import AnalysedFile
from sslsniff.capture.early_files import EarlyFiles
from sslsniff.capture.maps import Tables
from sslsniff.capture.probes import Probes
from sslsniff.capture.survey import Unreachable
from sslsniff.capture.unseen.unprobed_libraries import UnprobedLibraries
from sslsniff.core.errors import TargetError, counted
from sslsniff.kernel import procfs
from sslsniff.kernel.file_identity import Identity
from sslsniff.kernel.loaders.loader import Loader
from sslsniff.kernel.mapping_events import Mapped
from sslsniff.kernel.procfs import MappedFile
from sslsniff.matching.probe_set import Refusal

if TYPE_CHECKING:
    from sslsniff.capture.holding.holder import Holder
    from sslsniff.capture.holding.holds import Hold, Holds

_HOLD_DELAY_S = 0.1  # a report waits this long for the hold of the same file, which comes first
_MOST_ANALYSIS_S = 1.0  # at the start: files that take longer are probed after it
_MOST_ANALYSIS_OF_SYSTEM_S = 5.0  # for files that root made: none is made to take long
_SEARCH_EVERY_S = 1.0
"""After a loss of reports; to search all processes of a host takes some 0.1 s."""
_MOST_AT_END_S = 0.3  # to name the libraries that were found last
_WAIT_S = 0.1
_MOST_USES = 1024
_ATTEMPTS = 2  # the file may be deleted between finding its path and opening it
_MISSED = "bytes that pass before a newly loaded library is probed will be missed"


class _FileUse(NamedTuple):
    """Process ``pid`` has mapped ``file``.

    ``process``: its facts, as it may end before the file is analysed; None: it has ended.
    ``hold``: waits until the file is handled; None: no thread waits.
    """

    pid: int
    process: procfs.RunningProcess | None
    file: MappedFile
    hold: "Hold | None"


class LateFiles:
    """Probes files: the ``early`` ones, and those that processes map later.

    ``note`` is called with lines for the user. ``unprobed`` are the TLS libraries without probes
    that the processes use.
    """

    def __init__(
        self,
        early: EarlyFiles,
        probes: Probes,
        tables: Tables,
        note: Callable[[str], None],
    ) -> None:
        self._scope = early.scope
        self._mappings = early.mappings
        self._analyzer = early.analyzer
        self._seen = early.seen
        self._probes = probes
        self._tables = tables
        self._note = note
        self.unprobed = UnprobedLibraries(early.scope, tables.name)
        self._holds: Holds | None = None
        self._files_of_holds: set[tuple[str, int, int]] = set()
        """The files that the processes of held threads had mapped."""
        self._delayed: deque[tuple[float, Mapped]] = deque()
        """Reported mappings, and when to handle them: a hold of the same file comes before."""
        self._unreachable: set[str] = set()
        self._uses: dict[Identity, list[_FileUse]] = {}
        """The uses of files that are being analysed."""
        self._unfinished: list[str] = []
        """The files whose analysis threads waited for in vain."""
        self._unanalysed: dict[Hold, int] = {}
        """How many files each hold waits for."""
        self._first_files: list[os.stat_result] = []
        """The files that were probed at the start."""
        self._has_begun = False
        self._is_over = False
        self._known_losses = 0
        """Losses of reports of mappings after which the processes were searched."""
        self._next_search_s = 0.0

    @property
    def fds(self) -> list[int]:
        """The descriptors that are readable when ``poll`` has something to do."""
        holds = [self._holds.fd] if self._holds else []
        return [*self._mappings.fds, self._analyzer.fd, *holds]

    def begin(self) -> None:
        """Probe the files that are in use, and note which processes use other libraries.

        Files that take long to analyse are probed later. If the scope names libraries, this waits
        until one of them has probes, because there may be no others.
        """
        began_s = time.monotonic()
        self._attach_analysed()
        while self._analyzer.is_busy:
            took_s = time.monotonic() - began_s
            is_of_system = self._analyzer.has_system_files
            most_s = _MOST_ANALYSIS_OF_SYSTEM_S if is_of_system else _MOST_ANALYSIS_S
            if took_s >= most_s and (self._probes.files or not self._scope.libraries):
                break
            self._analyzer.wait(_WAIT_S)
            self._attach_analysed()
        self._count_unprobed()
        self._find_processes()
        self._has_begun = True

    def report_waiting(self) -> None:
        """Report how many files are not analysed yet."""
        if count := self._analyzer.waiting:
            files = counted(count, "file is", "files are")
            self._note(f"{files} still being analysed; probes follow when that is done")

    def without_tls(self) -> str | None:
        """Return a line if none of the processes to watch uses a TLS library now.

        None: one does, or a file that they use is still being analysed, or all processes of the
        host are watched, or files and not processes were named.
        """
        scope = self._scope
        if scope.is_whole_host or scope.libraries or scope.programs or self._analyzer.is_busy:
            return None
        try:
            processes = list(scope.processes())
        except TargetError:  # it has ended
            return None
        for process in processes:
            for file in procfs.mapped_files(process.pid):
                path = procfs.file_path(process.pid, file)
                if path is not None and self.unprobed.uses_tls(path):
                    return None
        if not processes:
            return "no process matches yet"
        [first, *others] = processes
        is_one = not others or len(scope.pids) == 1  # the others are its children
        who = f"{first.comm}[{first.pid}]" if is_one else f"{len(processes)} processes"
        return f"no TLS library that sslsniff knows is in use by {who} yet"

    def start_holding(self, holder: "Holder", loader: Loader) -> None:
        """Let threads wait from now on where they map a file that has no probes yet.

        Raises ``KernelError``.
        """
        if not loader.can_hold:
            holder.close()
            self._note(f"--loader {loader.name} cannot hold processes: {_MISSED}")
            return
        from sslsniff.capture.holding.holds import Holds

        self._holds = Holds(holder, loader, self._note)
        for each in self._first_files:
            self._holds.add_handled(each)

    def stop_holding(self) -> None:
        """Let all threads continue. Safe to call again."""
        holds, self._holds = self._holds, None
        self._unanalysed.clear()
        if holds is not None:
            holds.close()

    def poll(self, ready: set[int]) -> None:
        """Handle holds, reported mappings and results; ``ready``: readable descriptors."""
        if self._holds is not None and self._holds.fd in ready:
            self._answer_holds(self._holds)
        if not ready.isdisjoint(self._mappings.fds):
            self._handle_mappings()
        self._search_if_lost()
        while self._delayed and self._delayed[0][0] <= time.monotonic():
            self._handle_mapping(self._delayed.popleft()[1])
        self._analyzer.collect()
        if self._analyzer.is_busy:
            self._attach_analysed()
        self.report_refused()

    def let_go(self) -> None:
        """Let all threads continue."""
        if self._holds is not None:
            waiting = {use.hold: use.file.path for uses in self._uses.values() for use in uses}
            for hold in self._unanalysed:
                self._holds.abandon(hold, waiting.get(hold))
            holds = self._holds
            self.stop_holding()
            self._unfinished = holds.unfinished()

    def finish(self) -> None:
        """Report the libraries that were found last, after ``let_go``."""
        self._is_over = True
        self._handle_mappings()
        self._search_if_lost()
        for _, mapped in self._delayed:
            self._handle_mapping(mapped)
        self._delayed.clear()
        end_s = time.monotonic() + _MOST_AT_END_S
        while self._analyzer.is_quick and time.monotonic() < end_s:
            self._analyzer.wait(_WAIT_S)
            self._attach_analysed()
        self.report_refused()

    def finish_analysis(self, is_over: Callable[[], bool]) -> None:
        """Finish the analysis of the files that threads waited for in vain, after ``finish``.

        Else they would do so each time. ``is_over``: whether the user ends that.
        """
        waiting = [each for each in self._unfinished if self._seen.waits_for(each)]
        if not waiting:
            return
        files = ", ".join(waiting)
        if not is_over():
            self._note(f"analysing {files} to the end, for the next start; Ctrl-C ends that")
        while not is_over() and any(map(self._seen.waits_for, waiting)):
            self._analyzer.wait(_WAIT_S)
            self._attach_analysed()
        self.report_refused()
        if any(map(self._seen.waits_for, waiting)):
            options = " ".join(f"--lib {shlex.quote(each)}" for each in waiting)
            self._note(f"{files}: not analysed; start again with {options}, which waits for it")
        else:
            self._note(f"the analysis of {files} is done: the next start probes what was found")

    def report_refused(self) -> None:
        """Report long searches, and why TLS libraries in use are not probed, once for each."""
        for path, size, wanted in self._analyzer.searches:
            self._note(f"looking for {wanted} in {Path(path).name} ({size // 10**6} MB)")
        self._analyzer.searches.clear()
        for line in (*self._seen.new_lines, *self.unprobed.new_lines()):
            self._note(line)
        self._seen.new_lines.clear()

    def report_last(self) -> None:
        """Report what is only known at the end, after ``finish``."""
        self.unprobed.finish()
        self.report_refused()

    def report_unreachable(self, file: Unreachable) -> None:
        """Report that a file cannot be opened, once for each path."""
        if file.path not in self._unreachable:
            self._unreachable.add(file.path)
            self._note(str(file))

    def _handle_mappings(self) -> None:
        for mapped in self._mappings.read():
            if not self._is_in_scope(mapped):
                continue
            if self._holds is None:
                self._handle_mapping(mapped)
            else:
                self._delayed.append((time.monotonic() + _HOLD_DELAY_S, mapped))
        self.report_refused()

    def _search_if_lost(self) -> None:
        """Analyse the files that the processes use now, if reports of mapped files were lost."""
        losses = self._mappings.lost + self._mappings.overfull
        if losses == self._known_losses or not (
            self._is_over or time.monotonic() >= self._next_search_s
        ):
            return
        self._known_losses = losses
        for process in self.unprobed.processes():
            for file in procfs.mapped_files(process.pid):
                if self._scope.includes_file(file.path):
                    self._analyse(process.pid, file, partial(procfs.file_path, process.pid))
        self._next_search_s = time.monotonic() + _SEARCH_EVERY_S

    def _handle_mapping(self, mapped: Mapped) -> None:
        """Analyse a file that a process has mapped."""
        self._analyse(mapped.pid, mapped.file, partial(procfs.reported_file_path, mapped.pid))

    def _answer_holds(self, holds: "Holds") -> None:
        try:
            for hold in holds.read():
                self._handle_hold(hold)
                self._attach_analysed()
                self.report_refused()
        except EOFError:
            self.stop_holding()
            self._note(f"the process that holds the others ended: {_MISSED}")

    def _handle_hold(self, hold: "Hold") -> None:
        """Analyse the files that the process of a held thread has mapped."""
        files = procfs.mapped_files(hold.tid)
        hold.is_unhandled = not files
        self._unanalysed[hold] = 1  # counts this loop itself: a result may come within it
        for file in files:
            if file[:3] in self._files_of_holds and file.inode != hold.inode:
                continue
            self._files_of_holds.add(file[:3])
            if self._scope.includes_file(file.path):
                self._analyse(hold.pid, file, partial(procfs.file_path, hold.tid), hold)
        self._count_down(hold)

    def _count_down(self, hold: "Hold") -> None:
        """Note that one more file of a hold was handled; release the hold after the last one."""
        if hold not in self._unanalysed:  # the thread does not wait any more
            return
        self._unanalysed[hold] -= 1
        if not self._unanalysed[hold]:
            del self._unanalysed[hold]
            if self._holds is not None:
                self._holds.release(hold)

    def _analyse(
        self,
        pid: int,
        file: MappedFile,
        find_path: Callable[[MappedFile], str | None],
        hold: "Hold | None" = None,
    ) -> None:
        """Start to analyse a file that process ``pid`` maps, unless that was done.

        ``find_path`` returns where this process can open it; None: nowhere. If the file was deleted
        meanwhile, it is called again: the mapping still leads there. ``hold`` waits for the file.
        """
        path, identity = self._begin_analysis(file, find_path)
        if path is None:
            if procfs.exists(pid):
                self.report_unreachable(Unreachable.of(pid, file))
            return
        if identity is None:
            self.unprobed.mapped(pid, path)
            return
        uses = self._uses.setdefault(identity, [])
        if hold is not None or len(uses) < _MOST_USES:
            uses.append(_FileUse(pid, procfs.process(pid), file, hold))
        if hold is not None:
            self._unanalysed[hold] += 1

    def _begin_analysis(
        self, file: MappedFile, find_path: Callable[[MappedFile], str | None]
    ) -> tuple[str | None, Identity | None]:
        """Start to analyse a file as ``_analyse`` does.

        Returns where this process can open it, and its identity if its result is to come.
        """
        path = None
        for _ in range(_ATTEMPTS):
            path = find_path(file)
            if path is None:
                break
            has_seen = self._seen.has_seen(file.device, file.inode, path)
            with contextlib.suppress(FileNotFoundError):
                begun = None if has_seen else self._seen.add(path)
                return path, begun or self._seen.waits_for(path)
        return path, None

    def _attach_analysed(self) -> None:
        """Probe the files whose results have come, and release the threads that wait for them."""
        for identity, analysed in self._seen.results():
            self._count_unprobed()  # first: a file that is counted anew has no probes yet
            is_new = not self._is_over and self._attach(analysed)
            uses = self._uses.pop(identity, [])
            if is_new:
                self._report_new(analysed.path, uses)
            for use in uses:
                self.unprobed.used(identity, use.pid, use.process)
                if use.hold is not None:
                    self._count_down(use.hold)
            if self._has_begun and not uses:  # it was in use at the start
                self._find_processes()

    def _report_new(self, path: str, uses: list[_FileUse]) -> None:
        """Report a file that has probes from now on, if a process used it before without them."""
        held_pids = {use.pid for use in uses if use.hold is not None}
        for use in uses:
            if use.hold is not None:
                use.hold.probed_paths.append(use.file.path)
        late = next((use for use in uses if use.pid not in held_pids), None)
        if late is not None:
            self._note(f"{late.file.path} was loaded by process {late.pid}: watched from now on")
        elif self._has_begun and not uses:
            self._note(f"{path} is analysed: watched from now on")

    def _attach(self, analysed: AnalysedFile) -> bool:
        found, file = analysed.result, analysed.file
        if isinstance(found, Refusal) or file is None:
            return False
        is_attached = self._probes.attach(analysed.path, file, found.parts)
        if is_attached:
            self.unprobed.add_probed(self._seen.mark_probed(file))
        if not self._has_begun:
            self._first_files.append(os.fstat(file))
        return is_attached

    def _find_processes(self) -> None:
        """Count the processes that use libraries without probes now."""
        if not self._scope.programs or self._has_begun:  # else the command has not started
            self.unprobed.find_processes()

    def _count_unprobed(self) -> None:
        for each in self._seen.unprobed:
            self.unprobed.add(*each)
        self._seen.unprobed.clear()

    def _is_in_scope(self, mapped: Mapped) -> bool:
        if not mapped.is_visible:
            return False
        if not self._scope.libraries and self._scope.pids:
            return self._tables.is_watched(mapped.pid)
        return self._scope.includes_file(mapped.file.path)
