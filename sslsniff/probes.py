"""Probes in files: planned, placed, and taken away again."""

import os
import resource
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from sslsniff.attachments import Attachment, Refusal
from sslsniff.errors import KernelError, TargetError
from sslsniff.file_identity import Identity, identify
from sslsniff.kernel import sockets
from sslsniff.kernel.loader import Detach, Loader
from sslsniff.parts import Part, Unprobed
from sslsniff.planning.planning import Planning
from sslsniff.plans.rustls import RustlsLayout
from sslsniff.regular_files import NotRegularError, open_regular
from sslsniff.tables import LAYOUT_BITS, MOST_LAYOUTS, Tables

_FORK = ("process_fork", "sched_process_fork")
_LIFE = (("process_exec", "sched_process_exec"), ("process_exit", "sched_process_exit"))
_SOCKET_GONE = ("socket_gone", "tcp_destroy_sock")
_UNSEEN = -1


class Planned(NamedTuple):
    """A file that is to be probed, and the descriptor by which it is open."""

    path: str
    file: int
    plan: Attachment


class Decided(NamedTuple):
    """It is known what belongs into the file at ``path``; ``planned``: None where nothing does."""

    path: str
    identity: Identity
    planned: Planned | None


class Planner:
    """Decides what belongs into a file; each file is looked at once, until it changes.

    ``refusal`` is why the first file was not taken that could not be; ``untold`` are lines about
    those with a TLS library, for who has told them to take out. ``unprobed`` are, likewise, each
    file, its path, and the libraries in it that have no probes, perhaps none.
    ``left_out`` counts files that were not looked at, as too many waited.
    """

    def __init__(self, planning: Planning) -> None:
        self.refusal: TargetError | None = None
        self.untold: list[str] = []
        self.unprobed: list[tuple[Identity, str, tuple[Unprobed, ...]]] = []
        self.left_out = 0
        self._planning = planning
        self._waiting: dict[tuple[int, int], Identity] = {}
        """Device and inode, as fstat says them -> the file: few, and all of them are open."""
        self._seen: dict[Identity, int | None] = {}
        """A file -> its time of change; None: it has probes, which hold its inode in the kernel."""

    def has_seen(self, device: int, inode: int, path: str) -> bool:
        """Say whether this file was looked at, and not its inode's last one or what it was before.

        ``path`` is where it is now; it does not matter if it is gone.
        """
        changed_ns = self._seen.get((device, inode), _UNSEEN)
        if changed_ns in (None, _UNSEEN):
            return changed_ns is None
        try:
            return self._knows(*identify(path))
        except OSError:  # its process is gone
            return True

    def _knows(self, identity: Identity, status: os.stat_result) -> bool:
        return self._seen.get(identity, _UNSEEN) in (None, status.st_ctime_ns)

    def add(self, path: str) -> bool:
        """Let be found out what belongs into the file at ``path``, if that is not known.

        It stays open meanwhile, and is named by its descriptor: a container could put another one
        in its place between two looks at its path. Returns whether it ``is_waiting`` then.
        """
        try:
            file = open_regular(path)
        except NotRegularError as error:
            self._refuse(path, Refusal(f"{path} {error.strerror}"))
            return False
        except OSError:  # its process is gone
            return False
        identity, status = identify(_handle(file))
        is_full = self._planning.is_full
        if is_full or self._knows(identity, status):
            self.left_out += is_full
            os.close(file)
            return False
        self._seen[identity] = status.st_ctime_ns
        self._waiting[status.st_dev, status.st_ino] = identity
        self._planning.add(path, file)
        return True

    def waits_for(self, path: str) -> Identity | None:
        """Return what identifies the file at ``path`` if ``decided`` will come to it."""
        if not self._waiting:
            return None
        try:
            identity, _ = identify(path)
        except OSError:  # its process is gone
            return None
        return identity if identity in self._waiting.values() else None

    def decided(self) -> Iterator[Decided]:
        """Yield the files of which it is known by now what belongs into them.

        What is planned is open until the next is asked for. Of the others there is ``refusal`` or
        a line in ``untold``, if anything.
        """
        for each in self._planning.finished():
            identity = self._waiting.pop((each.status.st_dev, each.status.st_ino))
            decided = Decided(each.path, identity, None)
            self.unprobed.append((identity, each.path, each.plan.unprobed))
            if isinstance(each.plan, Refusal):
                self._refuse(each.path, each.plan)
            elif each.file is not None:
                decided = decided._replace(planned=Planned(each.path, each.file, each.plan))
            try:
                yield decided
            finally:
                each.close()

    def keep(self, planned: Planned) -> None:
        """Take note that a file has its probes: its inode is that file's until they are gone.

        One that the kernel refused is not tried again until it changes: each process that maps it
        would have the same told again.
        """
        identity, _ = identify(_handle(planned.file))
        self._seen[identity] = None

    def _refuse(self, path: str, refusal: Refusal) -> None:
        reason = refusal.reason
        remedy = refusal.remedy or "name a TLS library (sslsniff list shows those in use)"
        fact = reason if path in reason else f"nothing to probe in {path}, {reason}"
        self.refusal = self.refusal or TargetError(fact, remedy)
        if refusal.is_tls and not refusal.unprobed:
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

    def attach_tracepoints(self, *, follows_children: bool = True) -> None:
        """Follow the life of processes, and their socket calls. Raises ``KernelError``."""
        for program, tracepoint in (*((_FORK,) if follows_children else ()), *_LIFE):
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
            for (program, is_return), probes in part.places().items():
                detach = self._loader.attach_uprobes(
                    program,
                    _handle(planned.file),
                    [each.offset for each in probes],
                    is_return=is_return,
                    cookies=[index | each.convention << LAYOUT_BITS for each in probes],
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
