"""The ring in shared memory: what its reader does for writers without a lock."""

import struct
import subprocess
from collections.abc import Iterator

import pytest

from sslsniff.kernel.memory.shared_ring import SharedRing
from sslsniff.kernel.ring_records import HEADER_BYTES
from tests.unit.kernel.memory.ring_writer import PAGE, SIZE, Writer


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
