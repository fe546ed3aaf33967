"""A ring that a preloaded program made, and that no other program has: ``preload/shared.h``.

Its program may write anything into it at any moment. ``rings.c`` reads the records; here is the
rest: the checks of the file, and what the program counts.
"""

import ctypes
import fcntl
import mmap
import os
import stat
import struct
from ctypes import POINTER, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import NamedTuple

from sslsniff.kernel import procfs
from sslsniff.kernel.memory.mapped_memory import MappedMemory
from sslsniff.kernel.memory.ring_listener import SentRing

MEMORY_NAME = "sslsniff"
"""What /proc/PID/maps calls the memory, after ``memfd:``."""
CUTS = 5
COUNTERS = struct.Struct(f"<{2 * CUTS}Q9Q")
"""``struct writer_page`` of ``preload/shared.h`` from its losses on."""
SMALLEST_RING_BYTES = 1 << 18
"""It has room for three of the largest records."""
_COUNTERS_AT = 128
_COPIES_AT = _COUNTERS_AT + COUNTERS.size
_MOST_COPY_BYTES = 2048
"""``COPY_NAMES_BYTES``."""
_LOADED_AT = _COPIES_AT + 8 + _MOST_COPY_BYTES
_MOST_LOADED_BYTES = 1600
"""``LOADED_NAMES_BYTES``."""
_MOST_COUNTED = 1 << 53
_F_GET_SEALS, _SEALS = 1034, 2 | 4  # F_SEAL_SHRINK | F_SEAL_GROW, include/uapi/linux/fcntl.h
_MOST_THREADS = 1 << 22  # PID_MAX_LIMIT, include/linux/threads.h
_MOST_KNOWN_THREADS = 4096
"""A program may write any numbers; what is known of its threads is then asked for again."""
_ENDED = (None, "Z", "X")
"""States of threads that write no more: gone, or not waited for yet."""
_GOOD, _DAMAGED = 0, 1


class RingState(ctypes.Structure):
    """``struct ring`` of ``rings.c``."""

    _fields_ = (
        ("memory", c_void_p),
        ("page_bytes", c_uint64),
        ("data_bytes", c_uint64),
        ("consumed", c_uint64),
        ("end", c_uint64),
        ("filled", c_uint64),
        ("number", c_uint64),
        ("since_ns", c_uint64),
        ("pid", c_uint32),
        ("uid", c_uint32),
        ("inner_pid", c_uint32),
        ("state", c_uint32),
        ("next_read", c_void_p),
        ("threads", c_uint32 * 512),
    )


LIBRARY = ctypes.CDLL(str(Path(__file__).with_name("librings.so")))
LIBRARY.writing_thread.argtypes = [POINTER(RingState)]
LIBRARY.writing_thread.restype = c_uint32
LIBRARY.unread_plaintext.argtypes = [POINTER(RingState)]
LIBRARY.unread_plaintext.restype = c_uint64
LIBRARY.skip_record.argtypes = [POINTER(RingState)]
LIBRARY.skip_record.restype = c_uint64


class UnwrappedCopy(NamedTuple):
    """A copy of a TLS library for which a program had no wrappers left.

    ``library``: its number in ``enum library_name`` of ``preload/library.h``.
    """

    pid: int
    comm: str
    library: int
    path: str


class UnusableRingError(Exception):
    """What a program sent is no ring, or can be taken away from under the reader."""


class SharedRing:
    """A ring of ``sent.pid``; closes ``sent.fd``.

    ``number``: its own among all rings of a capture. ``most_bytes``: its largest size.
    ``since_ns``: no record is older. Raises ``UnusableRingError``.
    """

    def __init__(self, sent: SentRing, number: int, most_bytes: int, since_ns: int) -> None:
        self.pid, self.comm = sent.pid, sent.comm
        self.own_pid, self.program = sent.own_pid, procfs.program(sent.pid)
        self.is_over = False
        self.stuck_since_s: float | None = None
        try:
            data_bytes = _data_bytes(sent.fd, most_bytes)
            self._memory = MappedMemory(sent.fd, 2 * mmap.PAGESIZE + data_bytes)
        except OSError:
            raise UnusableRingError from None
        finally:
            os.close(sent.fd)
        inner_pid = 0 if sent.own_pid == sent.pid else sent.own_pid
        self.state = RingState(
            memory=self._memory.address,
            page_bytes=mmap.PAGESIZE,
            data_bytes=data_bytes,
            number=number,
            since_ns=since_ns,
            pid=sent.pid,
            uid=sent.uid,
            inner_pid=inner_pid,
        )
        self._counters = (0,) * (COUNTERS.size // 8)
        self._threads: dict[int, int] = {}
        self.loaded_files: list[str] = []
        """The files that the program had in memory, as far as it had room to name them; known when
        it has ended. Empty where it had another root: its paths are of other files."""
        self._copies = 0
        self._has_own_root = procfs.has_own_root(sent.pid)

    @property
    def is_damaged(self) -> bool:
        """Whether the program wrote into it what cannot be."""
        return bool(self.state.state == _DAMAGED)

    @property
    def has_records(self) -> bool:
        """Whether anything was read from it."""
        return bool(self.state.consumed)

    @property
    def counters(self) -> tuple[int, ...]:
        """What the program counted: ``COUNTERS``. It is damaged if that cannot be."""
        if not self.is_damaged:
            at = self._memory.address + mmap.PAGESIZE + _COUNTERS_AT
            found = COUNTERS.unpack(ctypes.string_at(at, COUNTERS.size))
            if max(found) > _MOST_COUNTED:
                self.state.state = _DAMAGED
            else:
                self._counters = found
        return self._counters

    def new_copies(self) -> list[UnwrappedCopy]:
        """Return the copies of libraries that the program named since the last call."""
        found = self._names(_COPIES_AT, _MOST_COPY_BYTES)
        new = found[self._copies :]
        self._copies += len(new)
        return [
            UnwrappedCopy(self.pid, self.comm, each[0], os.fsdecode(each[1:]))
            for each in new
            if len(each) > 1
        ]

    def _names(self, at: int, most_bytes: int) -> list[bytes]:
        """Return the texts at ``at`` in the program's page. It is damaged if that cannot be."""
        at += self._memory.address + mmap.PAGESIZE
        used = 0 if self.is_damaged else c_uint64.from_address(at).value
        if used > most_bytes:
            self.state.state = _DAMAGED
            return []
        return ctypes.string_at(at + 8, used).split(b"\0")[:-1]

    def shown_thread(self, tid: int) -> int:
        """Return the number to show of a thread that a record has: never one of another process.

        A thread that has ended cannot be checked any more.
        """
        found = self._threads.get(tid)
        if found is None:
            if len(self._threads) == _MOST_KNOWN_THREADS:
                self._threads.clear()
            found = self._threads[tid] = self._find_thread(tid)
        return found

    def skip_abandoned(self, *, whoever: bool = False) -> int:
        """Skip the next record if the thread that writes it has ended; return its length, or 0.

        ``whoever``: no thread writes any more, and another may have that number now.
        """
        tid = LIBRARY.writing_thread(self.state)
        if not tid or not (whoever or procfs.state(self.shown_thread(tid)) in _ENDED):
            return 0
        return int(LIBRARY.skip_record(self.state))

    def close(self) -> None:
        """Unmap it, as its program has ended."""
        if not self._has_own_root:
            self.loaded_files = [*map(os.fsdecode, self._names(_LOADED_AT, _MOST_LOADED_BYTES))]
        self._memory.close()

    def _find_thread(self, tid: int) -> int:
        if self.state.inner_pid:
            return procfs.thread_by_inner_number(self.pid, tid) or self.pid
        is_own = procfs.is_thread_of(self.pid, tid)
        if is_own or (0 < tid <= _MOST_THREADS and procfs.state(tid) is None):
            return tid
        return self.pid


def _data_bytes(fd: int, most_bytes: int) -> int:
    """Return the size of a ring's data. Raises ``OSError`` and ``UnusableRingError``.

    The file must be memory whose size is fixed: reading beyond the end of a file is SIGBUS. That
    of huge pages has sizes that a ring cannot have.
    """
    status = os.fstat(fd)
    size = status.st_size - 2 * mmap.PAGESIZE
    is_size = SMALLEST_RING_BYTES <= size <= most_bytes and not size & (size - 1)
    if not is_size or not stat.S_ISREG(status.st_mode):
        raise UnusableRingError
    if fcntl.fcntl(fd, _F_GET_SEALS) & _SEALS != _SEALS:
        raise UnusableRingError
    return size
