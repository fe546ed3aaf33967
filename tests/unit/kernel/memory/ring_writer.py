"""Writes into the shared ring, as a preloaded program does."""

import mmap
import os
import struct

from sslsniff.kernel.ring_records import BUSY

SIZE = 1 << 16
PAGE = mmap.PAGESIZE


class Writer:
    """Writes as ``preload/ring.h`` does, one record at a time."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_RDWR)
        self.pages = mmap.mmap(self.fd, 2 * PAGE + SIZE)

    def word(self, position: int) -> int:
        [word] = struct.unpack_from("<Q", self.pages, 2 * PAGE + position % SIZE)
        return int(word)

    def put(self, data: bytes, busy_thread: int = 0) -> int:
        """Write a record; return its position. It is unfinished if ``busy_thread`` is given."""
        [position] = struct.unpack_from("<Q", self.pages, PAGE)
        assert self.word(position) == position // SIZE << 32  # free in this lap
        flag = BUSY if busy_thread else 0
        record = struct.pack("<II", len(data) | flag, busy_thread) + data
        record += bytes(-len(record) % 8)
        for index, byte in enumerate(record):
            self.pages[2 * PAGE + (position + index) % SIZE] = byte
        struct.pack_into("<Q", self.pages, PAGE, position + len(record))
        return int(position)
