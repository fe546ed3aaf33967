"""What /proc tells of processes and the files they run.

A process can end at any moment: whatever is asked of one that is gone is None or empty.
"""

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_LD_SO_CACHE = Path("/etc/ld.so.cache")
_DELETED = " (deleted)"
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO, include/linux/proc_ns.h

# glibc: sysdeps/generic/dl-cache.h, struct cache_file_new and struct file_entry_new
_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
_CACHE_HEADER = struct.Struct("<20sII20x")
_CACHE_ENTRY = struct.Struct("<iIIIQ")
_X86_64_LIBC6 = 0x0303


class Process(NamedTuple):
    """A running process. ``start_ticks`` (since boot) tells it from a later one of the same pid.

    ``exe`` is None for kernel threads and where it may not be seen. ``has_seccomp`` says that
    its system calls are filtered.
    """

    pid: int
    comm: str
    uid: int
    exe: str | None
    start_ticks: int
    has_seccomp: bool


class MappedFile(NamedTuple):
    """A file that a process has mapped executable.

    ``path`` is what /proc/PID/maps shows; ``device`` and ``inode`` are what it gives for the file,
    whose device is not always the one that stat gives (btrfs, overlayfs). ``addresses`` is the
    name of the mapping in /proc/PID/map_files.
    """

    path: str
    device: int
    inode: int
    addresses: str


def pid_namespace() -> tuple[int, int] | None:
    """Return device and inode of this process's PID namespace; None: it is the host's."""
    status = (_PROC / "self/ns/pid").stat()
    is_inside = status.st_ino != _INITIAL_PID_NAMESPACE
    return (status.st_dev, status.st_ino) if is_inside else None


def pids() -> list[int]:
    """Return the ids of all processes."""
    return sorted(int(each.name) for each in _PROC.iterdir() if each.name.isdecimal())


def exists(pid: int) -> bool:
    """Say whether there is a process ``pid`` that has not ended (a zombie has)."""
    stat = _read(pid, "stat")
    return stat is not None and stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def process(pid: int) -> Process | None:
    """Return the facts of a process, None where it is gone."""
    stat, status = _read(pid, "stat"), _read(pid, "status")
    if stat is None or status is None:
        return None
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    comm = stat[stat.index("(") + 1 : stat.rindex(")")]
    return Process(
        pid=pid,
        comm=comm,
        uid=int(fields["Uid"].split()[1]),
        exe=_link(pid, "exe"),
        start_ticks=int(stat.rpartition(")")[2].split()[19]),  # proc(5): field 22
        has_seccomp=fields.get("Seccomp", "0").strip() != "0",
    )


_EXECUTABLE = re.compile(
    r"^(\S+) ..x. \S+ ([0-9a-f]+):([0-9a-f]+) ([1-9]\d*) +(/.*)$", re.MULTILINE
)


def mapped_files(pid: int) -> list[MappedFile]:
    """Return the files that a process has mapped executable, each once."""
    found: dict[tuple[int, int], MappedFile] = {}
    for addresses, major, minor, inode, path in _EXECUTABLE.findall(_read(pid, "maps") or ""):
        file = MappedFile(path, os.makedev(int(major, 16), int(minor, 16)), int(inode), addresses)
        found.setdefault((file.device, file.inode), file)
    return list(found.values())


def is_hidden(pid: int) -> bool:
    """Say whether what ``pid`` has mapped may not be seen, though it is not a kernel thread."""
    try:
        (_PROC / str(pid) / "maps").read_bytes()
    except PermissionError:
        return "VmSize" in (_read(pid, "status") or "")
    except OSError:  # it is gone
        return False
    return False


def file_path(pid: int, file: MappedFile) -> str | None:
    """Return a path under which this process can open a file that ``pid`` has mapped.

    The file's own path where that is the same file, else one through /proc/PID/root (containers)
    or /proc/PID/map_files (deleted or replaced since). None where the process is gone.
    """
    shown = file.path.removesuffix(_DELETED)
    for path in (shown, _in_root(pid, shown)):
        try:
            if Path(path).stat().st_ino == file.inode:
                return path
        except OSError:
            continue
    mapping = _PROC / str(pid) / "map_files" / file.addresses
    return str(mapping) if mapping.exists() else None


def host_path(pid: int, path: str) -> str:
    """Return under what path this process sees ``path`` of process ``pid``."""
    if path.startswith(f"{_PROC}/") or _shares_files(pid):
        return path
    return _in_root(pid, path)


def _in_root(pid: int, path: str) -> str:
    return f"{_PROC}/{pid}/root{path}"


def _shares_files(pid: int) -> bool:
    """Say whether ``pid`` sees the same files under the same names. True where it is gone."""
    try:
        if not (_PROC / str(pid) / "root").samefile("/"):
            return False
        theirs, ours = ((_PROC / each / "ns/mnt").readlink() for each in (str(pid), "self"))
    except OSError:
        return True
    return theirs == ours


def libraries() -> Iterator[tuple[str, str]]:
    """Yield the name and path of each x86-64 library that the dynamic linker knows.

    From /etc/ld.so.cache; nothing where there is none (musl) or it is of another form.
    """
    try:
        data = _LD_SO_CACHE.read_bytes()
    except OSError:
        return
    start = data.find(_CACHE_MAGIC)  # older ones have the libc5 form in front
    if start < 0:
        return
    cache = data[start:]
    _, count, _ = _CACHE_HEADER.unpack_from(cache)
    entries = cache[_CACHE_HEADER.size :][: count * _CACHE_ENTRY.size]
    for flags, name, path, _, _ in _CACHE_ENTRY.iter_unpack(entries):
        if flags == _X86_64_LIBC6:
            yield _string(cache, name), _string(cache, path)


def _string(data: bytes, offset: int) -> str:
    return os.fsdecode(data[offset : data.index(b"\0", offset)])


def _read(pid: int, name: str) -> str | None:
    try:
        return (_PROC / str(pid) / name).read_text("utf-8", "surrogateescape")
    except OSError:
        return None


def _link(pid: int, name: str) -> str | None:
    try:
        return str((_PROC / str(pid) / name).readlink())
    except OSError:
        return None
