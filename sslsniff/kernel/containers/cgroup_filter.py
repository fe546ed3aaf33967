"""Says which cgroups the options choose: ``--container``, ``--cgroup`` and ``--unit``."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sslsniff.core.errors import TargetError
from sslsniff.core.process import Container
from sslsniff.kernel.containers import cgroup_tree, runtimes
from sslsniff.kernel.containers.container_names import ContainerNames

_PREFIX = re.compile(r"[0-9a-f]{4,64}")
_SURE_PREFIX = re.compile(r"[0-9a-f]{12,64}")
"""As long as runtimes show it: no name, but an id."""
_UNIT_TYPES = (".service", ".scope", ".slice")  # the units that have a cgroup
_MOST_LISTED = 8
_V2_LINE = "0::"
_SHOW = "see docker ps, podman ps or crictl ps"


class CgroupFilter:
    """Says which cgroups v2 the options choose; each kind of option that is given must match.

    ``containers``: names, or beginnings of ids. ``cgroups``: paths; what is below counts, too.
    ``units``: names of systemd units. ``root``: the folder with ``proc`` and the runtimes' files.

    Raises ``TargetError`` if cgroup v2 is not mounted, or a container is ambiguous or has an id
    that does not exist. Names, paths and units that nothing has yet may come later: ``waits_for``.
    """

    def __init__(
        self,
        containers: Sequence[str] = (),
        cgroups: Sequence[str] = (),
        units: Sequence[str] = (),
        root: Path = Path("/"),
    ) -> None:
        mount = cgroup_tree.mount_of_v2(root)
        if mount is None:
            raise TargetError(
                "--container, --cgroup and --unit need cgroup v2, which is not mounted here",
                "use --pid or --comm, or mount it: mount -t cgroup2 none FOLDER",
            )
        self.names = ContainerNames(root)
        self._mount = mount
        self._root = root
        self._cgroups = [self._path(each) for each in cgroups]
        self._units = [each if each.endswith(_UNIT_TYPES) else f"{each}.service" for each in units]
        self._ids: set[str] = set()
        self._names: set[str] = set()
        paths = cgroup_tree.paths_in_v2(mount, root)
        self.waits_for: list[str] = []
        """Sentences about what is not there yet."""
        running = _distinct(each for path in paths for each in self._containers(path))
        for each in containers:
            self._choose(each, running)
        for cgroup in self._cgroups:
            if not any(_is_below(path, cgroup) for path in paths):
                self.waits_for.append(f"there is no cgroup {cgroup} yet")
        for unit in self._units:
            if not any(unit in path.split("/") for path in paths):
                self.waits_for.append(f"unit {unit} is not active yet")

    def matches(self, path: str) -> bool:
        """Say whether the options choose the cgroup v2 at ``path``."""
        return (
            (not self._cgroups or any(_is_below(path, each) for each in self._cgroups))
            and (not self._units or not set(self._units).isdisjoint(path.split("/")))
            and (
                not (self._ids or self._names) or any(map(self._is_chosen, self._containers(path)))
            )
        )

    def lacks_name(self, path: str) -> bool:
        """Say whether names count, and ``path`` has a container whose name is not known (yet)."""
        return bool(self._names) and any(not each.name for each in self._containers(path))

    def includes(self, pid: int) -> bool:
        """Say whether the options choose the cgroup v2 of process ``pid``; not if it has ended."""
        paths = cgroup_tree.paths_of(pid, self._root)
        return bool(paths) and self.matches(paths[0])

    def _containers(self, path: str) -> Iterator[Container]:
        return map(self.names.complete, runtimes.containers(path))

    def _is_chosen(self, container: Container) -> bool:
        return container.id in self._ids or not self._names.isdisjoint(_names_of(container))

    def _choose(self, wanted: str, running: Sequence[Container]) -> None:
        """Add a container to those to watch: by its id, its name, or the beginning of its id."""
        existing = _distinct(self.names.existing())
        for known in (running, existing):
            if found := [each for each in known if wanted in _names_of(each)]:
                self._names.add(wanted)
            elif _PREFIX.fullmatch(wanted):
                found = [each for each in known if each.id and each.id.startswith(wanted)]
                self._ids |= {each.id for each in found if each.id}
            if len(found) > 1:
                raise TargetError(
                    f"--container {wanted} is ambiguous: {_listed(found)}", "name one of them"
                )
            if found:
                break
        else:
            if _SURE_PREFIX.fullmatch(wanted):
                raise TargetError(f"there is no container {wanted}", _SHOW)
            self._names.add(wanted)
        if not any(map(self._is_chosen, running)):
            self.waits_for.append(f"container {wanted} is not running yet")

    def _path(self, text: str) -> str:
        """Return the path below the root of cgroup v2 that ``text`` means, without / at its end."""
        if text.startswith("/../"):  # outside sslsniff's cgroup namespace
            return text.rstrip("/")
        path = posixpath.normpath("/" + text.removeprefix(_V2_LINE).lstrip("/"))
        if _is_below(path, str(self._mount)):
            path = path.removeprefix(str(self._mount))
        elif _is_below(path, "/sys/fs/cgroup"):
            raise TargetError(
                f"{text} is no cgroup v2", f"name one below {self._mount}, as a path there"
            )
        return path.rstrip("/")


def _is_below(path: str, folder: str) -> bool:
    """Say whether ``path`` is ``folder`` or in it."""
    return path == folder or path.startswith(folder + "/")


def _names_of(container: Container) -> set[str]:
    """Return the names that choose a container."""
    if container.name is None:
        return set()
    names = {container.name}
    if container.pod:
        names.add(f"{container.pod}/{container.name}")
        names.add(f"{container.namespace}/{container.pod}/{container.name}")
    return names


def _distinct(containers: Iterable[Container]) -> list[Container]:
    """Return containers, each once."""
    return list({each.id or each.name: each for each in containers}.values())


def _listed(containers: Sequence[Container]) -> str:
    shown = [
        f"{each.label} ({each.id[:12]})" if each.id else str(each.label) for each in containers
    ]
    more = len(shown) - _MOST_LISTED
    return ", ".join(shown[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
