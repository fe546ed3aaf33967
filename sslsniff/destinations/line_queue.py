"""Passes lines to another process, in memory that both share.

A pipe has 1 MB at most without rights (man 7 pipe), and while one end moves bytes the other waits:
a capture for a reader of low priority. Here the reader may come seldom, and the writer waits only
while ``MOST_WAITING_BYTES`` are not read.
"""

import mmap
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from sslsniff.destinations.output_files import LineFile

MOST_WAITING_BYTES = 64 << 20
"""So much may be written and not yet read; then the writer waits, as for a full pipe."""
_ROOM_CHECK_S = 0.01
_READ_BYTES = 64 << 10  # at once: it stays in the caches, so a line takes a quarter less CPU
_FREE_BYTES = 1 << 20
_BLOCK_BYTES = 512  # of st_blocks, man 3type stat


class LineQueue:
    """The end that reads. A process that inherits ``fd`` writes, by ``QueuedLines``."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("sslsniff-lines")
        self._read_bytes = 0
        self._freed_bytes = 0
        self._begun: list[bytes] = []  # the pieces of a line that has not ended

    @property
    def waiting_bytes(self) -> int:
        """How much was written and not yet read."""
        return self._size() - self._read_bytes

    def lines(self) -> Iterator[bytes]:
        """Yield the lines that wait now, without their ends, and free their memory."""
        size = self._size()
        while self._read_bytes < size:
            data = os.pread(self.fd, _READ_BYTES, self._read_bytes)
            self._read_bytes += len(data)
            first, *others = data.split(b"\n")
            self._begun.append(first)
            if others:
                yield b"".join(self._begun)
                self._begun = [others.pop()]
                yield from others
            if self._read_bytes - self._freed_bytes >= _FREE_BYTES:
                self._free()
        self._free()

    def close(self) -> None:
        """Free all memory, when the writer has ended, too."""
        os.close(self.fd)

    def _size(self) -> int:
        return os.fstat(self.fd).st_size

    def _free(self) -> None:
        """Remove what was read from the file; its size stays (man 2 madvise, MADV_REMOVE)."""
        whole_bytes = self._read_bytes // mmap.PAGESIZE * mmap.PAGESIZE
        if whole_bytes > self._freed_bytes:
            size = whole_bytes - self._freed_bytes
            with mmap.mmap(self.fd, size, offset=self._freed_bytes) as read:
                read.madvise(mmap.MADV_REMOVE)
            self._freed_bytes = whole_bytes


class QueuedLines(LineFile):
    """The end that writes, to the ``fd`` of the parent process's ``LineQueue``.

    ``reader_gone`` is called when the parent process has ended.
    """

    def __init__(self, fd: int, reader_gone: Callable[[], None]) -> None:
        super().__init__(fd, "the queue of lines", reader_gone, own=False)
        self._reader = os.getppid()

    def write(self, data: Any, /) -> int:
        """See ``io.RawIOBase``."""
        while (is_read := os.getppid() == self._reader) and not self._has_room():
            time.sleep(_ROOM_CHECK_S)
        return super().write(data) if is_read else self.stop_writing(data)

    def _has_room(self) -> bool:
        return os.fstat(self.fileno()).st_blocks * _BLOCK_BYTES < MOST_WAITING_BYTES
