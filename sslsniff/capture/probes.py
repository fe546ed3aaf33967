"""Probes in files: attached, and detached again."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from sslsniff.capture.maps import LAYOUT_BITS, MOST_LAYOUTS, Tables
from sslsniff.core.debug_log import DebugLog
from sslsniff.core.errors import KernelError, SslsniffError
from sslsniff.kernel import socket_probes
from sslsniff.kernel.loaders.loader import Detach, Loader, detach_all
from sslsniff.kernel.regular_files import descriptor_path
from sslsniff.libraries.supported import SEARCHES
from sslsniff.matching.object_layout import ObjectLayout
from sslsniff.matching.probe_set import ProbedLibrary

if TYPE_CHECKING:
    from sslsniff.capture.key_log_probes import KeyLogProbes

_log = DebugLog("probes")

_FORK = ("process_fork", "sched_process_fork")
_LIFE = (("process_exec", "sched_process_exec"), ("process_exit", "sched_process_exit"))
_CGROUP = ("cgroup_made", "cgroup_mkdir")
_SOCKET_STATE = ("tcp_state", "inet_sock_set_state")
_SOCKET_GONE = ("socket_gone", "tcp_destroy_sock")


class Probes:
    """Attaches the BPF programs: to files and to tracepoints of the kernel.

    ``libraries``: the names that ``events.Opened.library`` indexes; this appends to them.
    ``note``: called with lines for the user. ``key_log``: probes for secrets, too.
    """

    def __init__(
        self,
        loader: Loader,
        tables: Tables,
        libraries: list[str],
        note: Callable[[str], None],
        key_log: "KeyLogProbes | None" = None,
    ) -> None:
        self.count = 0
        """How many probes are in files."""
        self.files = 0
        """How many files have probes."""
        self._loader = loader
        self._tables = tables
        self._libraries = libraries
        self._note = note
        self._key_log = key_log
        self._kinds: set[ProbedLibrary] = set()
        """The libraries with probes, without these: equal ones in several files count once."""
        self._unverified: dict[int, str] = {}
        """The index of each layout that traffic may prove wrong -> the library's name."""
        self._detaches: list[Detach] = []

    def attach_tracepoints(self, *, follows_children: bool = True) -> None:
        """Follow processes, their socket calls, and new cgroups. Raises ``KernelError``."""
        for program, tracepoint in (*((_FORK,) if follows_children else ()), *_LIFE, _CGROUP):
            self._detaches.append(self._loader.attach_raw_tracepoint(program, tracepoint))
        try:
            _, detaches = socket_probes.attach(self._loader)
        except KernelError as error:
            self._note(f"addresses of connections will be unknown: {error.fact}")
        else:
            # A library without a free call does not report the ends of its connections.
            for each in (_SOCKET_STATE, _SOCKET_GONE):
                self._detaches.append(self._loader.attach_raw_tracepoint(*each))
            self._detaches += detaches

    def attach_stdio(self) -> None:
        """See what processes write to standard input and output. Raises ``KernelError``."""
        from sslsniff.capture.stdio import stdio_connections

        self._detaches += stdio_connections.attach(self._loader)

    def attach(self, path: str, file: int, libraries: Iterable[ProbedLibrary]) -> bool:
        """Place the probes of the ``libraries`` in an open file, called ``path`` in messages.

        Returns False if the kernel refused those of all libraries.
        """
        attached = [self._attach_library(library, path, file) for library in libraries]
        self.files += any(attached)
        return any(attached)

    def _attach_library(self, library: ProbedLibrary, path: str, file: int) -> bool:
        """Place all probes of a library, or none: with some, calls would begin and never return."""
        index = self._add_layout(library)
        attached: list[Detach] = []
        try:
            if not isinstance(library.layout, ObjectLayout):
                self._add_unverified(library, path, index)
            for (program, is_return), probes in library.places().items():
                detach = self._loader.attach_uprobes(
                    program,
                    descriptor_path(file),
                    [each.offset for each in probes],
                    is_return=is_return,
                    cookies=[index | each.convention << LAYOUT_BITS for each in probes],
                )
                attached.append(detach)
            if self._key_log is not None:
                attached += self._key_log.attach(self._loader, library, path, file)
        except SslsniffError as error:
            self._note(f"{path}: {error}")
            detach_all(attached)
            return False
        self._detaches += attached
        self.count += len(library.probes)
        _log("%s: %d probes of %s are attached", path, len(library.probes), library)
        return True

    def _add_unverified(self, library: ProbedLibrary, path: str, index: int) -> None:
        """Note a layout that may be wrong, and report it if it is another version's."""
        name = f"{path}: {library}"
        if library.read_as is not None and name not in self._unverified.values():
            self._note(f"{name}, as the layout of this release is not known")
        self._unverified[index] = name

    def report_misfits(self) -> None:
        """Report the libraries that do not match their layouts, once: the programs skip them."""
        misfits = [index for index in self._unverified if self._tables.is_misfit(index)]
        for name in {self._unverified.pop(index) for index in misfits}:
            self._note(f"{name} does not match any known layout: its traffic is not shown")

    def detach(self) -> None:
        """Detach all programs. Safe to call again."""
        detaches, self._detaches = self._detaches, []
        detach_all(detaches)

    def _add_layout(self, library: ProbedLibrary) -> int:
        """Write the layout of a library's objects into the programs' tables; return its index.

        Index 0 is for programs without attach cookies, which do not know their library: it has what
        is the same for all libraries.
        """
        names = self._libraries
        self._kinds.add(library._replace(probes=()))
        self._tables.set_layout(0, self._kinds)
        is_only_one = len({each.library for each in self._kinds}) == 1
        names[0] = library.library if is_only_one else "unknown"
        if len(names) == MOST_LAYOUTS:
            return 0
        names.append(library.library)
        search = SEARCHES.get(library.library)
        if search is not None and search.rows is not None:
            self._tables.write_rows(search.rows())
        index = len(names) - 1
        self._tables.set_layout(index, [library])
        return index
