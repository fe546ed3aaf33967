"""Probes in files: attached, and detached again."""

import threading
from collections.abc import Callable, Iterable

from sslsniff.errors import KernelError
from sslsniff.kernel import socket_probes
from sslsniff.kernel.loaders.loader import Detach, Loader
from sslsniff.kernel.regular_files import descriptor_path
from sslsniff.live.maps import LAYOUT_BITS, MOST_LAYOUTS, Tables
from sslsniff.live.planner import Planned
from sslsniff.probing.plans.rustls_ciphers import RustlsLayout
from sslsniff.probing.probe_set import ProbedLibrary

_FORK = ("process_fork", "sched_process_fork")
_LIFE = (("process_exec", "sched_process_exec"), ("process_exit", "sched_process_exit"))
_SOCKET_GONE = ("socket_gone", "tcp_destroy_sock")


class Probes:
    """What is attached. ``libraries`` are the names that ``wire.Opened.library`` indexes.

    ``count`` counts probes in files, ``files`` those files.
    """

    def __init__(
        self, loader: Loader, tables: Tables, libraries: list[str], note: Callable[[str], None]
    ) -> None:
        self.count = 0
        self.files = 0
        self._loader = loader
        self._tables = tables
        self._libraries = libraries
        self._note = note
        self._kinds: set[ProbedLibrary] = set()
        self._follows_sockets = False
        self._doubted: dict[int, str] = {}
        self._detaches: list[Detach] = []

    def attach_tracepoints(self, *, follows_children: bool = True) -> None:
        """Follow the life of processes, and their socket calls. Raises ``KernelError``."""
        for program, tracepoint in (*((_FORK,) if follows_children else ()), *_LIFE):
            self._detaches.append(self._loader.attach_raw_tracepoint(program, tracepoint))
        try:
            _, detaches = socket_probes.attach(self._loader)
        except KernelError as error:
            self._note(f"addresses of connections will be unknown: {error.fact}")
        else:
            self._detaches += detaches

    def attach(self, planned: Planned) -> bool:
        """Place the probes of a file; returns whether the kernel accepted any part."""
        attached = [self._attach_part(part, planned) for part in planned.plan.parts]
        self.files += any(attached)
        return any(attached)

    def _attach_part(self, part: ProbedLibrary, planned: Planned) -> bool:
        """Place all probes of a part, or none: calls would begin there that never return."""
        index = self._add_layout(part)
        attached: list[Detach] = []
        try:
            if isinstance(part.layout, RustlsLayout):
                self._follow_sockets()
                self._doubt(part, planned.path, index)
            for (program, is_return), probes in part.places().items():
                detach = self._loader.attach_uprobes(
                    program,
                    descriptor_path(planned.file),
                    [each.offset for each in probes],
                    is_return=is_return,
                    cookies=[index | each.convention << LAYOUT_BITS for each in probes],
                )
                attached.append(detach)
        except KernelError as error:
            self._note(f"{planned.path}: {error}")
            _detach_all(attached)
            return False
        self._detaches += attached
        self.count += len(part.probes)
        return True

    def _doubt(self, part: ProbedLibrary, path: str, index: int) -> None:
        """Remember whose layout may not hold, and say if another version's is used."""
        name = f"{path}: {part}"
        if part.read_as is not None and name not in self._doubted.values():
            self._note(f"{name}, as the layout of this release is not known")
        self._doubted[index] = name

    def _follow_sockets(self) -> None:
        """Follow the ends of sockets, for connections whose library has no free call."""
        if not self._follows_sockets:
            self._detaches.append(self._loader.attach_raw_tracepoint(*_SOCKET_GONE))
            self._follows_sockets = True

    def report_misfits(self) -> None:
        """Say which parts were not as their layouts say, once; the programs drop them."""
        misfits = [each for each in self._doubted if self._tables.is_misfit(each)]
        for name in {self._doubted.pop(index) for index in misfits}:
            self._note(f"{name} does not match any known layout: its traffic is not shown")

    def detach(self) -> None:
        """Take all away. Safe to call again."""
        detaches, self._detaches = self._detaches, []
        _detach_all(detaches)

    def _add_layout(self, part: ProbedLibrary) -> int:
        """Tell the programs the layout of a part's objects; return the index it has there.

        Index 0 is for programs that cannot know their part: it holds what fits all parts.
        """
        libraries = self._libraries
        self._kinds.add(part._replace(probes=()))
        self._tables.set_layout(0, self._kinds)
        names = {each.library for each in self._kinds}
        libraries[0] = part.library if len(names) == 1 else "unknown"
        if len(libraries) == MOST_LAYOUTS:
            return 0
        libraries.append(part.library)
        index = len(libraries) - 1
        self._tables.set_layout(index, [part])
        return index


def _detach_all(detaches: Iterable[Detach]) -> None:
    """Take away what was attached, side by side: each waits until no CPU is in it."""
    threads = [threading.Thread(target=detach) for detach in detaches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
