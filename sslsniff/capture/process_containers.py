"""Says which container each process belongs to, and whether its cgroup is watched.

The kernel reports each cgroup that is made, with its path. So a process that ended at once has its
container, too, though nothing of it is left in /proc.
"""

from collections.abc import Callable

from sslsniff.core.events import CgroupMade, Exited, HandshakeEnded, Opened, Record, TlsSocket
from sslsniff.core.process import Container
from sslsniff.kernel.containers import cgroup_tree, runtimes
from sslsniff.kernel.containers.cgroup_filter import CgroupFilter
from sslsniff.kernel.containers.container_names import ContainerNames

_MOST_PATHS = 65536  # then all are found again
_MOST_PROCESSES = 65536  # that many ends were lost
_OF_PROCESSES = (Opened, HandshakeEnded)

Decide = Callable[[int, bool], None]
"""Tells the BPF programs whether to watch a cgroup: called with its id."""


class ProcessContainers:
    """Adds containers to ``Opened``. With a filter, leaves out connections of other cgroups.

    The BPF programs watch a cgroup that is new until ``decide`` is called for it: nothing is missed
    of a container that starts. ``chosen``: None where all cgroups are watched.
    """

    def __init__(self, chosen: CgroupFilter | None, decide: Decide) -> None:
        self.unknown = 0
        """How many connections were left out because their cgroup had no path any more."""
        self._chosen = chosen
        self._decide = decide
        self._names = chosen.names if chosen else ContainerNames()
        self._mount = cgroup_tree.mount_of_v2()
        self._paths: dict[int, str] = {}
        """The id of each known cgroup v2 -> its path."""
        self._processes: dict[int, tuple[int, Container | None]] = {}
        """Each process with a connection -> its cgroup, and what that belongs to."""

    def begin(self) -> None:
        """Decide for all cgroups that there are; call it once those made later are reported."""
        if self._chosen is not None:
            self._find_all()
            for cgroup, path in self._paths.items():
                self._decide(cgroup, self._chosen.matches(path))

    def handle(self, record: Record) -> Record | None:
        """Return a record of the kernel, with the container if it has one; None: leave it out."""
        if isinstance(record, CgroupMade):
            self._made(record)
            return None
        if isinstance(record, Exited):
            self._processes.pop(record.pid, None)
        return self._opened(record) if isinstance(record, _OF_PROCESSES) else record

    def is_watched(self, found: TlsSocket) -> bool:
        """Say whether a socket's process is in a cgroup that is watched."""
        return self._chosen is None or self._is_chosen(found, self._chosen)

    def _made(self, event: CgroupMade) -> None:
        self._add(event.cgroup, event.path)
        # If its container has no name yet, the first event of a process in it decides.
        if self._chosen is not None and not self._chosen.lacks_name(event.path):
            self._decide(event.cgroup, self._chosen.matches(event.path))

    def _opened(self, event: Opened | HandshakeEnded) -> Opened | HandshakeEnded | None:
        cgroup, container = self._processes.get(event.pid, (None, None))
        if cgroup != event.cgroup:
            if self._chosen is not None and not self._is_chosen(event, self._chosen):
                return None
            container = self._container(event.pid, event.cgroup)
            if len(self._processes) >= _MOST_PROCESSES:
                self._processes.clear()
            self._processes[event.pid] = event.cgroup, container
        return event._replace(container=container)

    def _is_chosen(self, event: Opened | HandshakeEnded | TlsSocket, chosen: CgroupFilter) -> bool:
        path = self._path(event.cgroup)
        if path is None:  # it is gone, or outside sslsniff's cgroup namespace
            path = next(iter(cgroup_tree.paths_of(event.pid)), None)
            if path is not None:
                self._add(event.cgroup, path)
        self.unknown += path is None
        is_chosen = path is not None and chosen.matches(path)
        self._decide(event.cgroup, is_chosen)
        return is_chosen

    def _container(self, pid: int, cgroup: int) -> Container | None:
        """Return what a process's cgroup belongs to, with its names."""
        path = self._paths.get(cgroup)
        found = None if path is None else runtimes.describe(path)
        if found is None or not found.label:
            # In cgroup v1, which may be in use beside v2, a process has other paths.
            paths = cgroup_tree.paths_of(pid) or [self._path(cgroup) or ""]
            described = [*filter(None, map(runtimes.describe, paths))]
            described.sort(key=lambda each: each.label is None)  # a container before a unit
            found = described[0] if described else found
        return found and self._names.complete(found)

    def _path(self, cgroup: int) -> str | None:
        if cgroup not in self._paths:
            self._find_all()
        return self._paths.get(cgroup)

    def _find_all(self) -> None:
        for cgroup, path in cgroup_tree.walk(self._mount) if self._mount else ():
            self._add(cgroup, path)

    def _add(self, cgroup: int, path: str) -> None:
        if len(self._paths) >= _MOST_PATHS:
            self._paths.clear()
        self._paths[cgroup] = path
