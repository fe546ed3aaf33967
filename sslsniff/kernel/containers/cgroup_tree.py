"""Reads the cgroups of processes, and the tree of cgroup v2: cgroups(7).

The id of a cgroup v2 is the inode number of its folder (kernfs, 64 bits). It is never used again.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")
_V2 = re.compile(r"^\S+ \S+ \S+ \S+ (\S+) .* - cgroup2 ", re.MULTILINE)
_OCTAL = re.compile(r"\\([0-7]{3})")
_DELETED = " (deleted)"  # kernel/cgroup/cgroup.c, proc_cgroup_show


def paths_of(pid: int, root: Path = _ROOT) -> list[str]:
    """Return the paths of a process's cgroups: in cgroup v2 first, then systemd's, then others.

    ``root``: the folder with ``proc``. Empty: the process has ended.
    """
    try:
        text = (root / "proc" / str(pid) / "cgroup").read_text("utf-8", "surrogateescape")
    except OSError:
        return []
    return parse(text)


def paths_in_v2(mount: Path, root: Path = _ROOT) -> set[str]:
    """Return the paths of all cgroups v2 that can be seen.

    In a cgroup namespace those outside it are not below ``mount``. Of these, the ones with
    processes are found, as /proc shows them: ``/../NAME`` (cgroup_namespaces(7)).
    """
    found = {path for _, path in walk(mount)}
    for each in (root / "proc").iterdir():
        if each.name.isdecimal():
            found.update(paths_of(int(each.name), root)[:1])
    return found


def parse(text: str) -> list[str]:
    """Return the paths in the text of /proc/PID/cgroup, in the order of ``paths_of``.

    The kernel forbids line ends in the names of cgroups (kernel/cgroup/cgroup.c, cgroup_mkdir).
    """
    found: list[tuple[int, str]] = []
    for line in text.split("\n"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if path:
            rank = 0 if number == "0" else 1 if controllers == "name=systemd" else 2
            found.append((rank, path.removesuffix(_DELETED)))
    return list(dict.fromkeys(path for _, path in sorted(found, key=lambda each: each[0])))


def mount_of_v2(root: Path = _ROOT) -> Path | None:
    """Return where cgroup v2 is mounted; None: nowhere. ``root``: the folder with ``proc``."""
    try:
        text = (root / "proc/self/mountinfo").read_text("utf-8", "surrogateescape")
    except OSError:
        return None
    found = _V2.search(text)
    return Path(_OCTAL.sub(lambda each: chr(int(each[1], 8)), found[1])) if found else None


def walk(mount: Path) -> Iterator[tuple[int, str]]:
    """Yield the id and path of each cgroup below ``mount``, with its own, ``/``.

    Cgroups that are made or removed meanwhile may be missing.
    """
    for folder, _, _, file in os.fwalk(mount):
        relative = folder.removeprefix(str(mount))
        yield os.fstat(file).st_ino, relative or "/"
