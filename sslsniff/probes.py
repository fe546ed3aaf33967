"""Probes in files: planned, placed, and taken away again."""

import contextlib
import os
import resource
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from sslsniff import targets
from sslsniff.attachments import Attachment, Refusal
from sslsniff.errors import KernelError, TargetError
from sslsniff.kernel import sockets
from sslsniff.kernel.loader import Detach, Loader
from sslsniff.parts import Part, ReturnStyle
from sslsniff.plans.rustls import RustlsLayout
from sslsniff.tables import MOST_LAYOUTS, Tables

_LIFE = (
    ("process_fork", "sched_process_fork"),
    ("process_exec", "sched_process_exec"),
    ("process_exit", "sched_process_exit"),
)
_SOCKET_GONE = ("socket_gone", "tcp_destroy_sock")
_UNSEEN = -1


class Planned(NamedTuple):
    """A file that is to be probed, and the descriptor by which it is open."""

    path: str
    file: int
    plan: Attachment


class Planner:
    """Decides what belongs into a file; each file is looked at once, until it changes.

    ``refusal`` is why the first file was not taken that could not be; ``untold`` are lines about
    those with a TLS library, for who has told them to take out. ``style`` is how returns are seen,
    None: as is safe on this kernel.
    """

    def __init__(self, style: ReturnStyle | None) -> None:
        self.refusal: TargetError | None = None
        self.untold: list[str] = []
        self._style = style
        self._seen: dict[tuple[int, int], int | None] = {}
        """Device and inode -> time of change; None: with probes, by which the kernel holds it."""

    def has_seen(self, device: int, inode: int, path: str) -> bool:
        """Say whether this file was looked at, and not its inode's last one or what it was before.

        ``path`` is where it is now; it does not matter if it is gone.
        """
        changed_ns = self._seen.get((device, inode), _UNSEEN)
        if changed_ns in (None, _UNSEEN):
            return changed_ns is None
        try:
            return self._knows(Path(path).stat())
        except OSError:  # its process is gone
            return True

    def _knows(self, status: os.stat_result) -> bool:
        changed_ns = self._seen.get((status.st_dev, status.st_ino), _UNSEEN)
        return changed_ns in (None, status.st_ctime_ns)

    def plan(self, path: str, opened: contextlib.ExitStack) -> Planned | None:
        """Return what belongs into the file at ``path``; None: nothing, or it is there already.

        The file stays open in ``opened`` and is named by its descriptor: a container could put
        another one in its place between two looks at its path.
        """
        try:
            # Not to wait for the other end of a FIFO, which a process may have put there.
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:  # its process is gone
            return None
        with contextlib.ExitStack() as closing:
            closing.callback(os.close, file)
            status = os.fstat(file)
            if self._knows(status):
                return None
            self._seen[status.st_dev, status.st_ino] = status.st_ctime_ns
            plan = targets.plan_file(path, _handle(file), self._style)
            if isinstance(plan, Attachment):
                opened.push(closing.pop_all())
                return Planned(path, file, plan)
        self._refuse(path, plan)
        return None

    def keep(self, planned: Planned) -> None:
        """Take note that a file has its probes: its inode is that file's until they are gone.

        One that the kernel refused is not tried again until it changes: each process that maps it
        would have the same told again.
        """
        status = os.fstat(planned.file)
        self._seen[status.st_dev, status.st_ino] = None

    def _refuse(self, path: str, refusal: Refusal) -> None:
        reason = refusal.reason
        remedy = refusal.remedy or "name a TLS library (sslsniff list shows those in use)"
        fact = reason if path in reason else f"nothing to probe in {path}, {reason}"
        self.refusal = self.refusal or TargetError(fact, remedy)
        if refusal.is_tls:
            also = f": {refusal.remedy}" if refusal.remedy else ""
            self.untold.append(f"{path} is not probed, {reason}{also}")


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
        self._kinds: set[Part] = set()
        self._follows_sockets = False
        self._doubted: dict[int, str] = {}
        self._detaches: list[Detach] = []

    def attach_tracepoints(self) -> None:
        """Follow the life of processes, and their socket calls. Raises ``KernelError``."""
        for program, tracepoint in _LIFE:
            self._detaches.append(self._loader.attach_raw_tracepoint(program, tracepoint))
        try:
            _, detaches = sockets.attach(self._loader)
        except KernelError as error:
            self._note(f"addresses of connections will be unknown: {error.fact}")
        else:
            self._detaches += detaches

    def attach(self, planned: Planned) -> bool:
        """Place the probes of a file; returns whether the kernel took those of any part."""
        taken = [self._attach_part(part, planned) for part in planned.plan.parts]
        self.files += any(taken)
        return any(taken)

    def _attach_part(self, part: Part, planned: Planned) -> bool:
        """Place all probes of a part, or none: calls would begin there that never return."""
        index = self._add_layout(part)
        attached: list[Detach] = []
        try:
            if isinstance(part.layout, RustlsLayout):
                self._follow_sockets()
                self._doubt(part, planned.path, index)
            for (program, is_return), offsets in part.places().items():
                detach = self._loader.attach_uprobes(
                    program, _handle(planned.file), offsets, is_return=is_return, cookie=index
                )
                attached.append(detach)
        except KernelError as error:
            self._note(f"{planned.path}: {error}")
            _take_away(attached)
            return False
        self._detaches += attached
        self.count += len(part.probes)
        return True

    def _doubt(self, part: Part, path: str, index: int) -> None:
        """Remember whose layout may not hold, and say if another version's is used."""
        name = f"{path}: {part}"
        if part.read_as is not None and name not in self._doubted.values():
            self._note(f"{name}, as its own layout is not known")
        self._doubted[index] = name

    def _follow_sockets(self) -> None:
        """Follow the ends of sockets: those of connections whose library tells of none."""
        if not self._follows_sockets:
            self._detaches.append(self._loader.attach_raw_tracepoint(*_SOCKET_GONE))
            self._follows_sockets = True

    def tell_misfits(self) -> None:
        """Say which parts were not as their layouts say, once; the programs drop them."""
        misfits = [each for each in self._doubted if self._tables.is_misfit(each)]
        for name in {self._doubted.pop(index) for index in misfits}:
            self._note(f"{name} keeps its data otherwise than is known: it is not shown")

    def detach(self) -> None:
        """Take all away. Safe to call again."""
        detaches, self._detaches = self._detaches, []
        _take_away(detaches)

    def _add_layout(self, part: Part) -> int:
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


def _take_away(detaches: Iterable[Detach]) -> None:
    """Take away what was attached, side by side: each waits until no CPU is in it."""
    threads = [threading.Thread(target=detach) for detach in detaches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _handle(file: int) -> str:
    """Return a path by which this process and the kernel find an open file, whatever its name."""
    return f"/proc/self/fd/{file}"


def allow_open_files() -> None:
    """Use all the open files that this process may have: usual are 1024 until it asks for more.

    Each file with probes takes a descriptor for each of its programs, and a host with containers
    has many copies of a library.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
