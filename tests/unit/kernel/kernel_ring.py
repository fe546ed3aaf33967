"""The kernel's side of a BPF ring buffer, on memory that is mapped as the kernel maps it.

The rules are those of kernel/bpf/ringbuf.c (Linux 6.1): a reservation advances the producer's
position with a record that is marked as busy, a commit or discard clears the mark, and the data's
pages follow themselves, so that a record may go over the end. Only the memory is another: a file's.
"""

import ctypes
import mmap
import os
from pathlib import Path

from sslsniff.core.ring_records import BUSY, DISCARDED, HEADER_BYTES
from sslsniff.kernel.ring_buffer import LARGEST_RECORD_BYTES, Ring

RING_BYTES = 1 << 21
"""A power of two, and no less than the largest record: the data are mapped twice only."""

_PAGE = mmap.PAGESIZE
_FIXED = 0x10
"""MAP_FIXED of <asm-generic/mman-common.h>, which ``mmap`` does not have."""


class KernelRing:
    """A ring of RING_BYTES; ``ring`` is what reads it. ``lost`` counts records without room."""

    def __init__(self) -> None:
        self._memory = os.memfd_create("ring")
        data_start = 2 * _PAGE
        os.truncate(self._memory, data_start + RING_BYTES + LARGEST_RECORD_BYTES)
        self._map = mmap.mmap(self._memory, data_start + RING_BYTES)
        view = memoryview(self._map)
        self._consumer = view[:8].cast("Q")
        self._producer = view[_PAGE : _PAGE + 8].cast("Q")
        self._data = view[data_start:]
        self.lost = 0
        self.ring = Ring(self._memory, RING_BYTES)
        self._map_again()
        # A file cannot be polled as the kernel's map can. This says so from the first commit on.
        self.ring.fd = self._wake = os.eventfd(0, os.EFD_NONBLOCK)

    def reserve(self, size: int) -> int | None:
        """Return the position of a new record, which is busy; None: it has no room, and is lost."""
        room = _aligned(HEADER_BYTES + size)
        position = self._producer[0]
        if position + room - self._consumer[0] > RING_BYTES - 1:
            self.lost += 1
            return None
        self._put(position, (size | BUSY).to_bytes(HEADER_BYTES, "little"))
        self._producer[0] = position + room
        return position

    def commit(self, position: int, record: bytes, *, discarded: bool = False) -> None:
        """Fill a record that was reserved, and let it be read; or passed over."""
        self._put(position + HEADER_BYTES, record)
        flag = DISCARDED if discarded else 0
        self._put(position, (len(record) | flag).to_bytes(4, "little"))
        os.eventfd_write(self._wake, 1)

    def output(self, record: bytes) -> bool:
        """Reserve and commit; return whether there was room."""
        position = self.reserve(len(record))
        if position is not None:
            self.commit(position, record)
        return position is not None

    def close(self) -> None:
        """Let go of the memory, and of the ring that reads it."""
        self.ring.close()
        os.close(self._wake)
        os.close(self._memory)

    def _put(self, position: int, data: bytes) -> None:
        start = position & (RING_BYTES - 1)
        before_end = min(len(data), RING_BYTES - start)
        self._data[start : start + before_end] = data[:before_end]
        self._data[: len(data) - before_end] = data[before_end:]

    def _map_again(self) -> None:
        """Map the data's first pages after the last one, in the reader's own mapping."""
        [mapped] = (
            line.split()
            for line in Path("/proc/self/maps").read_text().splitlines()
            if f" {os.fstat(self._memory).st_ino} " in line and f" {_PAGE:08x} " in line
        )
        start = int(mapped[0].partition("-")[0], 16) + _PAGE + RING_BYTES
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = (
            *(ctypes.c_void_p, ctypes.c_size_t),
            *(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long),
        )
        flags = mmap.MAP_SHARED | _FIXED
        at = libc.mmap(start, LARGEST_RECORD_BYTES, mmap.PROT_READ, flags, self._memory, 2 * _PAGE)
        assert at == start, os.strerror(ctypes.get_errno())


def _aligned(size: int) -> int:
    return (size + 7) & ~7
