"""Reports files that any process maps executable: so libraries that are loaded later are found.

The kernel's perf events report each executable mapping (PERF_RECORD_MMAP2,
include/uapi/linux/perf_event.h), on every kernel, without a probe and without other costs.
"""

import errno
import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sslsniff.core.errors import KernelError, counted
from sslsniff.kernel import perf_event, privileges
from sslsniff.kernel.procfs import MappedFile

_ONLINE = Path("/sys/devices/system/cpu/online")
_BIT_MMAP = 1 << 8
_BIT_WATERMARK = 1 << 14
_BIT_MMAP2 = 1 << 23
_GONE = 0xFFFFFFFF
_RECORD_LOST = 2
_RECORD_MMAP2 = 10
_DATA_PAGES = 64
_LARGEST_RECORD = 4096 + 256  # its path may have PATH_MAX bytes
_HEAD_OFFSET = 1024
_HEADER = struct.Struct("<IHH")
_MMAP2 = struct.Struct("<I4xQQQIIQ16x")
_AS_ROOT = "run sslsniff as root, and outside of a sandbox that forbids perf_event_open"
_REMEDIES = {  # perf_event_open(2), ERRORS
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENODEV: "start sslsniff again: a CPU went offline",
    errno.ENOSYS: "use a kernel with CONFIG_PERF_EVENTS",
}


class Mapped(NamedTuple):
    """A file that ``pid`` mapped executable; its path is as that process sees it.

    ``offset``: the file offset of the first byte that it mapped.
    """

    pid: int
    file: MappedFile
    offset: int

    @property
    def is_visible(self) -> bool:
        """Say whether the process is alive, and in a PID namespace that this process sees.

        The kernel reports other mappings, too: with process 0 if it is not visible, -1 if it has
        ended (kernel/events/core.c, perf_event_pid_type).
        """
        return self.pid not in (0, _GONE)


class Mappings:
    """Reads the reports of executable mappings of all CPUs that are online.

    Raises ``KernelError``.
    """

    def __init__(self) -> None:
        self.fds: list[int] = []
        """Readable when there are reports."""
        self.lost = 0
        """How many reports were lost for lack of room, as far as the kernel has said it."""
        self.overfull = 0
        """How often a ring had no room for any report: what it lost, a later report says."""
        self._maps: list[mmap.mmap] = []
        try:
            for cpu in _online_cpus():
                self._open(cpu)
        except BaseException:
            self.close()
            raise

    def _open(self, cpu: int) -> None:
        # Without the watermark only samples wake a reader (perf_event_open(2)), and there are none.
        bits = _BIT_MMAP | _BIT_MMAP2 | _BIT_WATERMARK
        try:
            fd = perf_event.open_dummy(-1, cpu, bits, wakeup=1)
            self.fds.append(fd)
            self._maps.append(mmap.mmap(fd, (1 + _DATA_PAGES) * mmap.PAGESIZE))
        except OSError as error:
            raise _refused(error.errno or 0) from error

    def read(self) -> Iterator[Mapped]:
        """Yield the mappings that were reported since the last call."""
        for ring in self._maps:
            head, tail = struct.unpack_from("<QQ", ring, _HEAD_OFFSET)
            self.overfull += head - tail > len(ring) - mmap.PAGESIZE - _LARGEST_RECORD
            while tail < head:
                kind, _, size = _HEADER.unpack(_wrapped(ring, tail, _HEADER.size))
                record = _wrapped(ring, tail, size)
                tail += size
                if kind == _RECORD_LOST:
                    self.lost += struct.unpack_from("<Q", record, 16)[0]
                elif kind == _RECORD_MMAP2:
                    mapped = _mapped(record)
                    if mapped.file.inode:  # else it is memory, such as the vdso
                        yield mapped
            struct.pack_into("<Q", ring, _HEAD_OFFSET + 8, tail)

    def losses(self) -> str | None:
        """Say how many reports were lost; None: none."""
        if self.lost:
            what = counted(self.lost, "report of a mapped file was", "reports of mapped files were")
            return f"{what} lost"
        return "reports of mapped files may be lost" if self.overfull else None

    def close(self) -> None:
        """Close all: no more mappings are reported."""
        for ring in self._maps:
            ring.close()
        for fd in self.fds:
            os.close(fd)
        self._maps, self.fds = [], []


def _refused(number: int) -> KernelError:
    fact = f"the kernel does not report mapped files ({os.strerror(number)})"
    return KernelError(fact, _remedy(number, "run sslsniff doctor"))


def _remedy(number: int, otherwise: str) -> str:
    if number in (errno.EACCES, errno.EPERM):
        return privileges.remedy(privileges.missing(), _AS_ROOT)
    return _REMEDIES.get(number, otherwise)


def _online_cpus() -> list[int]:
    try:
        return parse_cpus(_ONLINE.read_text(encoding="ascii"))
    except OSError as error:
        raise KernelError(
            f"cannot read {_ONLINE} ({error.strerror})",
            _remedy(error.errno or 0, "mount sysfs at /sys"),
        ) from error


def parse_cpus(text: str) -> list[int]:
    """Return the numbers in a list of CPUs as the kernel writes it, such as ``0-2,4``.

    If some CPUs are offline, the numbers of the others may have gaps (Documentation/admin-guide/
    cputopology.rst).
    """
    spans = (part.partition("-") for part in text.strip().split(","))
    return [cpu for first, _, last in spans for cpu in range(int(first), int(last or first) + 1)]


def _wrapped(ring: mmap.mmap, position: int, size: int) -> bytes:
    """Return ``size`` bytes of the data pages from ``position`` on, which may wrap."""
    room = _DATA_PAGES * mmap.PAGESIZE
    start = position % room
    first = ring[mmap.PAGESIZE + start : mmap.PAGESIZE + min(start + size, room)]
    return first + ring[mmap.PAGESIZE : mmap.PAGESIZE + size - len(first)]


def _mapped(record: bytes) -> Mapped:
    pid, start, size, offset, major, minor, inode = _MMAP2.unpack_from(record, _HEADER.size)
    path = record[_HEADER.size + _MMAP2.size :].split(b"\0", 1)[0]
    addresses = f"{start:x}-{start + size:x}"
    file = MappedFile(os.fsdecode(path), os.makedev(major, minor), inode, addresses)
    return Mapped(pid, file, offset)
