"""The ring in shared memory: what its reader does for writers without a lock."""

import mmap
import os
import struct
import subprocess
from collections.abc import Iterator

import pytest

from sslsniff.kernel.memory.shared_ring import SharedRing
from sslsniff.kernel.ring_records import BUSY, HEADER_BYTES

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


@pytest.fixture
def ring() -> Iterator[SharedRing]:
    made = SharedRing(SIZE, 1 << 20)
    yield made
    made.close()


@pytest.fixture
def writer(ring: SharedRing) -> Writer:
    return Writer(ring.path)


def read_all(ring: SharedRing) -> list[bytes]:
    records = ring.read(SIZE)
    found = []
    while (record := records.next()) is not None:
        found.append(bytes(record))
    ring.release()
    return found


def test_many_laps(ring: SharedRing, writer: Writer) -> None:
    """Records wrap around the end; what was read is free in the next lap, whole."""
    for number in range(1000):
        data = bytes([number % 256]) * (number * 7 % 3000)
        writer.put(data)
        assert read_all(ring) == [data]
        assert ring.waiting_bytes == 0


def test_unfinished_record(ring: SharedRing, writer: Writer) -> None:
    """It is waited for while its thread lives, and skipped once that was killed."""
    writer.put(b"before")
    with subprocess.Popen(["sleep", "60"]) as process:
        writer.put(b"never finished", busy_thread=process.pid)
        writer.put(b"after")
        assert read_all(ring) == [b"before"]
        assert not ring.skip_abandoned()
        process.kill()
        process.wait()
    assert ring.skip_abandoned() == HEADER_BYTES + len(b"never finished")
    assert read_all(ring) == [b"after"]


def test_counters(ring: SharedRing, writer: Writer) -> None:
    assert set(ring.counters) == {0}
    struct.pack_into("<QQ", writer.pages, PAGE + 128, 3, 4000)
    assert ring.counters[:2] == (3, 4000)
