"""Reads facts about processes, and the files that they map, from /proc.

A process can end at any moment: for one that has ended, functions return None or nothing.
"""

import mmap
import os
import re
import stat
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from sslsniff.kernel.regular_files import open_regular

_PROC = Path("/proc")
_LD_SO_CACHE = Path("/etc/ld.so.cache")
_DELETED = " (deleted)"
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO, include/linux/proc_ns.h

# glibc: sysdeps/generic/dl-cache.h, struct cache_file_new and struct file_entry_new
_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
_CACHE_HEADER = struct.Struct("<20sII20x")
_CACHE_ENTRY = struct.Struct("<iIIIQ")
_X86_64_LIBC6 = 0x0303


class RunningProcess(NamedTuple):
    """A running process.

    ``exe``: the path of its program; None: a kernel thread, or the path may not be read.
    ``start_ticks``: its start since boot; a later process with the same pid has another.
    ``has_seccomp``: a filter limits its system calls. ``has_locked_memory``: it used mlock(2).
    """

    pid: int
    comm: str
    uid: int
    exe: str | None
    start_ticks: int
    has_seccomp: bool
    has_locked_memory: bool


class MappedFile(NamedTuple):
    """A file that a process has mapped executable.

    All fields are those of a line of /proc/PID/maps. ``device`` and ``inode`` can differ from those
    of stat(2) (btrfs, overlayfs).
    """

    path: str
    device: int
    inode: int
    addresses: str


class CodeMapping(NamedTuple):
    """Executable memory of a process from ``start`` to before ``end``.

    ``file``: None: it has no file; ``name`` then is what maps shows, such as ``[vdso]``.
    ``offset``: where ``start`` is in the file.
    """

    start: int
    end: int
    offset: int
    file: MappedFile | None
    name: str


def pid_namespace() -> tuple[int, int] | None:
    """Return the device and inode of this process's PID namespace; None: it is the host's."""
    status = (_PROC / "self/ns/pid").stat()
    is_inside = status.st_ino != _INITIAL_PID_NAMESPACE
    return (status.st_dev, status.st_ino) if is_inside else None


def pids() -> list[int]:
    """Return the ids of all processes."""
    return sorted(int(each.name) for each in _PROC.iterdir() if each.name.isdecimal())


def exists(pid: int) -> bool:
    """Say whether there is a process ``pid`` that has not ended (a zombie has)."""
    return state(pid) not in {None, "Z", "X"}


def state(pid: int) -> str | None:
    """Return the state of a process or thread, a letter of proc(5); None: it has ended."""
    text = _read(pid, "stat")
    return None if text is None else text.rpartition(")")[2].split()[0]


def thread_name(tid: int) -> str | None:
    """Return the name of a thread; None: it has ended."""
    text = _read(tid, "comm")
    return None if text is None else text.removesuffix("\n")


def program(pid: int) -> str | None:
    """Return the path of a process's program; None: it ended, or the path may not be read."""
    return _link(pid, "exe")


def has_own_root(pid: int) -> bool:
    """Say whether a process has another root than this one, or its root may not be looked at.

    False if it has ended.
    """
    try:
        return not Path(f"/proc/{pid}/root").samefile("/")
    except FileNotFoundError:
        return False
    except OSError:
        return True


def process(pid: int) -> RunningProcess | None:
    """Return a process; None: it has ended."""
    text, fields = _read(pid, "stat"), _status_fields(pid)
    if text is None or not fields:
        return None
    comm = text[text.index("(") + 1 : text.rindex(")")]
    return RunningProcess(
        pid=pid,
        comm=comm,
        uid=int(fields["Uid"].split()[1]),
        exe=program(pid),
        start_ticks=int(text.rpartition(")")[2].split()[19]),  # proc(5): field 22
        has_seccomp=fields.get("Seccomp", "0").strip() != "0",
        has_locked_memory=fields.get("VmLck", "0").split()[0] != "0",
    )


def children(pid: int) -> list[int]:
    """Return the ids of the living processes that threads of ``pid`` started."""
    found: list[int] = []
    for thread in threads(pid):
        try:
            text = (_PROC / str(pid) / "task" / str(thread) / "children").read_text("ascii")
        except OSError:  # the thread is gone
            continue
        found += map(int, text.split())
    return found


def threads(pid: int) -> list[int]:
    """Return the ids of a process's threads."""
    try:
        return [int(each.name) for each in (_PROC / str(pid) / "task").iterdir()]
    except OSError:
        return []


def tracer(tid: int) -> int:
    """Return the process that traces a thread; 0: none does, or the thread has ended."""
    return int(_status_fields(tid).get("TracerPid", "0"))


def process_of(tid: int) -> int:
    """Return the process that a thread belongs to; the thread's own id if it has ended."""
    return int(_status_fields(tid).get("Tgid", tid))


def is_thread_of(pid: int, tid: int) -> bool:
    """Say whether a process has a thread with this number."""
    return (_PROC / str(pid) / "task" / str(tid)).exists()


def thread_by_inner_number(pid: int, number: int) -> int | None:
    """Return the thread of a process that has ``number`` in its own PID namespace, if any."""
    for tid in threads(pid):
        if _status_fields(tid).get("NSpid", "").split()[-1:] == [str(number)]:
            return tid
    return None


def own_filters() -> int:
    """Return how many seccomp filters this process has; before Linux 5.9 at most 1."""
    fields = _status_fields(os.getpid())
    return int(fields.get("Seccomp_filters", fields.get("Seccomp", "0") != "0"))


def _status_fields(pid: int) -> dict[str, str]:
    lines = (_read(pid, "status") or "").splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def descendants(pids: Iterable[int]) -> list[int]:
    """Return ``pids`` with their children, the children of these, and so on, each once.

    Processes that start during the call may be missing: call it again. So may descendants of a
    process that ends during the call, and these for good: the kernel gives them another parent.
    """
    found = list(dict.fromkeys(pids))
    for pid in found:  # the list grows in this loop
        found += [each for each in children(pid) if each not in found]
    return found


_EXECUTABLE = re.compile(
    r"^(\S+) ..x. \S+ ([0-9a-f]+):([0-9a-f]+) ([1-9]\d*) +(/.*)$", re.MULTILINE
)
_ANY = re.compile(r"^(\S+) .... \S+ ([0-9a-f]+):([0-9a-f]+) ([1-9]\d*) +(/.*)$", re.MULTILINE)


def mapped_files(pid: int) -> list[MappedFile]:
    """Return the files that a process has mapped executable, each once.

    ``pid`` may be the id of any thread. Files differ by path, too: on btrfs two files of one device
    can have the same inode number, in different subvolumes.
    """
    found: dict[tuple[str, int, int], MappedFile] = {}
    for file in _mappings(pid, _EXECUTABLE):
        found.setdefault(file[:3], file)
    return list(found.values())


def maps_memory(pid: int, name: str) -> bool:
    """Say whether a process has memory mapped that memfd_create(2) made with ``name``."""
    return f" /memfd:{name} (deleted)\n" in (_read(pid, "maps") or "")


def has_variable(pid: int, name: str) -> bool:
    """Say whether a program was started with an environment variable; False: it may not be read."""
    return f"\0{name}=" in "\0" + (_read(pid, "environ") or "")


def _mappings(pid: int | str, pattern: re.Pattern[str]) -> Iterator[MappedFile]:
    for addresses, major, minor, inode, path in pattern.findall(_read(pid, "maps") or ""):
        yield MappedFile(path, os.makedev(int(major, 16), int(minor, 16)), int(inode), addresses)


_CODE = re.compile(r"^((\S+)-(\S+)) ..x. (\S+) ([0-9a-f]+):([0-9a-f]+) (\d+) *(.*)$", re.MULTILINE)


def code_mappings(pid: int) -> list[CodeMapping]:
    """Return the executable memory of a process, by address; nothing if it has ended."""
    found = []
    for each in _CODE.findall(_read(pid, "maps") or ""):
        addresses, start, end, offset, major, minor, inode, name = each
        device = os.makedev(int(major, 16), int(minor, 16))
        file = MappedFile(name, device, int(inode), addresses) if int(inode) else None
        found.append(CodeMapping(int(start, 16), int(end, 16), int(offset, 16), file, name))
    return found


def is_hidden(pid: int) -> bool:
    """Say whether this process may not list the files of ``pid``, which is no kernel thread."""
    try:
        (_PROC / str(pid) / "maps").read_bytes()
    except PermissionError:
        return "VmSize" in (_read(pid, "status") or "")
    except OSError:  # it is gone
        return False
    return False


def file_path(pid: int, file: MappedFile) -> str | None:
    """Return a path by which this process can open a file that ``pid`` has mapped.

    That is the file's own path if it leads to the same file; else a path through /proc/PID/root
    (containers) or /proc/PID/map_files (deleted or replaced files). None: no path leads there,
    because the process has ended, or may not follow map_files: that needs CAP_CHECKPOINT_RESTORE
    (Linux 5.9) or CAP_SYS_ADMIN (fs/proc/base.c, proc_map_files_get_link).
    """
    paths = _paths(pid, file)
    for path in paths:
        if _has_numbers(path, file):
            return path
    mapping = _mapping_path(pid, file)
    mapped = _status(mapping)
    for path in paths:
        status = _status(path)
        if status is None or not stat.S_ISREG(status.st_mode):
            continue
        if os.path.samestat(status, mapped) if mapped else _maps_as(path, file):
            return path
    return mapping if mapped else None


def reported_file_path(pid: int, file: MappedFile) -> str | None:
    """Return what ``file_path`` does, for a file whose mapping the kernel reported earlier.

    The process can have mapped it elsewhere by now. If the process has ended, the result is the
    file's own path, or None if another file is there.
    """
    for path in _paths(pid, file):
        if _has_numbers(path, file):
            return path
    for each in mapped_files(pid):
        if _numbers(each) == _numbers(file):
            return file_path(pid, each)
    return file.path if _maps_as(file.path, file) else None


def _paths(pid: int, file: MappedFile) -> tuple[str, str]:
    """Return a mapped file's path for this process, and through the root folder of ``pid``."""
    shown = file.path.removesuffix(_DELETED)
    return shown, f"{_PROC}/{pid}/root{shown}"


def _mapping_path(pid: int, file: MappedFile) -> str:
    start, end = (int(each, 16) for each in file.addresses.split("-"))
    return f"{_PROC}/{pid}/map_files/{start:x}-{end:x}"  # maps has leading zeros


def mapping_error(pid: int, file: MappedFile) -> int:
    """Return the ``errno`` of opening a mapped file through /proc/PID/map_files; 0: it opens."""
    # Where it is mapped now: a loader maps a file whole first, and then changes parts of it.
    now = next((each for each in mapped_files(pid) if _numbers(each) == _numbers(file)), file)
    try:
        os.close(open_regular(_mapping_path(pid, now)))
    except OSError as error:
        return error.errno or 0
    return 0


def _numbers(file: MappedFile) -> tuple[int, int]:
    return file.device, file.inode


def _has_numbers(path: str, file: MappedFile) -> bool:
    """Say whether ``path`` leads to ``file`` by stat's device and inode; if not, it still may.

    The numbers prove it: no two mounted file systems have the same device number.
    """
    status = _status(path)
    return status is not None and (status.st_dev, status.st_ino) == _numbers(file)


def _maps_as(path: str, file: MappedFile) -> bool:
    """Say whether ``path`` leads to ``file``: map it, and compare the numbers in maps.

    This works on every file system, also where maps and stat have different numbers.
    """

    def count() -> int:
        return sum(_numbers(each) == _numbers(file) for each in _mappings("self", _ANY))

    before = count()
    try:
        fd = open_regular(path)
    except OSError:
        return False
    try:
        with mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ):
            return count() > before
    except (OSError, ValueError):  # it cannot be mapped, or is empty
        return False
    finally:
        os.close(fd)


def _status(path: str) -> os.stat_result | None:
    try:
        return Path(path).stat()
    except (OSError, ValueError):
        return None


def libraries() -> Iterator[tuple[str, str]]:
    """Yield the name and path of each x86-64 library that the dynamic linker knows.

    They are in /etc/ld.so.cache. Nothing if there is none (musl) or if it has another form.
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


def _read(pid: int | str, name: str) -> str | None:
    try:
        return (_PROC / str(pid) / name).read_text("utf-8", "surrogateescape")
    except OSError:
        return None


def _link(pid: int, name: str) -> str | None:
    try:
        return str((_PROC / str(pid) / name).readlink())
    except OSError:
        return None
