"""A spill keeps what the ring has no room for, whole and in order, as long as its file has room."""

import contextlib
import resource
import select
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslsniff.core.errors import OutputError
from sslsniff.core.ring_records import HEADER_BYTES
from sslsniff.kernel.ring_buffer import LARGEST_RECORD_BYTES
from sslsniff.kernel.spill_file import Spill
from tests.unit.kernel.kernel_ring import RING_BYTES, KernelRing
from tests.workload.processes import wait_until

ALL = 1 << 40
ROOM_BYTES = 1 << 20
FILE_BYTES = LARGEST_RECORD_BYTES + ROOM_BYTES
"""There is always room for a largest record: it is filled to about ROOM_BYTES."""
RECORD_BYTES = 10_000


@pytest.fixture
def kernel() -> Iterator[KernelRing]:
    made = KernelRing()
    yield made
    made.close()


@pytest.fixture
def spill(kernel: KernelRing) -> Iterator[Spill]:
    interval = sys.getswitchinterval()
    with contextlib.closing(Spill(kernel.ring, FILE_BYTES)) as made:
        yield made
    sys.setswitchinterval(interval)


def numbered(number: int) -> bytes:
    """Return a record that no other is like; it takes RECORD_BYTES of the ring."""
    return number.to_bytes(8, "little") * ((RECORD_BYTES - HEADER_BYTES) // 8)


def read(spill: Spill) -> list[int]:
    """Return which records one read gives, and give their room back."""
    records = spill.read(ALL)
    found = []
    for record in iter(records.next, None):
        number = int.from_bytes(record[:8], "little")
        assert record == numbered(number)
        found.append(number)
        record.release()
    spill.release()
    return found


def read_all(spill: Spill) -> list[int]:
    """Return which records wait, once nothing more comes."""
    found: list[int] = []
    while more := read(spill):
        found += more
    return found


def has_moved(kernel: KernelRing) -> bool:
    return kernel.ring.waiting_bytes == 0


def fill(kernel: KernelRing, spill: Spill) -> int:
    """Put records into the ring until the file and it are full; return how many had room."""
    count = 0
    while spill.waiting_bytes < ROOM_BYTES:
        kernel.output(numbered(count))
        count += 1
        wait_until(lambda: has_moved(kernel))
    while kernel.output(numbered(count)):
        count += 1
    return count


def test_a_file_that_has_no_room(
    kernel: KernelRing, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(OutputError, match=r"no room for \d+ bytes in .*: choose a smaller --spill"):
        Spill(kernel.ring, 1 << 60)
    assert not list(tmp_path.iterdir())


def test_what_is_moved_is_read_in_order(kernel: KernelRing, spill: Spill) -> None:
    spill.start()
    for number in range(50):
        assert kernel.output(numbered(number))
    wait_until(lambda: has_moved(kernel))
    assert spill.waiting_bytes == 50 * RECORD_BYTES
    spill.stop()
    assert read_all(spill) == list(range(50))
    assert spill.waiting_bytes == 0


def test_a_batch_wakes_who_polls(kernel: KernelRing, spill: Spill) -> None:
    with select.epoll() as poll:
        poll.register(spill.fd, select.EPOLLIN)
        spill.start()
        assert read(spill) == []
        assert not poll.poll(0.05)
        kernel.output(numbered(1))
        assert poll.poll(60)
        # The thread wakes who polls just before the batch can be read.
        wait_until(lambda: spill.waiting_bytes)
        while not (found := read(spill)):
            time.sleep(0.001)
        assert found == [1]
        assert not poll.poll(0.05)


def test_a_busy_record_stays_in_the_ring(kernel: KernelRing, spill: Spill) -> None:
    kernel.output(numbered(0))
    position = kernel.reserve(len(numbered(1)))
    assert position is not None
    kernel.output(numbered(2))
    spill.start()
    wait_until(lambda: kernel.ring.waiting_bytes == 2 * RECORD_BYTES)
    assert read(spill) == [0]
    kernel.commit(position, numbered(1))
    wait_until(lambda: has_moved(kernel))
    spill.stop()
    assert read_all(spill) == [1, 2]


def test_what_is_in_the_ring_comes_after_what_is_in_the_file(
    kernel: KernelRing, spill: Spill
) -> None:
    spill.start()
    for number in range(20):
        kernel.output(numbered(number))
    wait_until(lambda: has_moved(kernel))
    spill.stop()
    for number in range(20, 30):
        kernel.output(numbered(number))
    assert spill.waiting_bytes == 30 * RECORD_BYTES
    assert read_all(spill) == list(range(30))
    assert spill.waiting_bytes == 0


@pytest.mark.heavy
def test_a_full_file_leaves_the_rest_in_the_ring(kernel: KernelRing, spill: Spill) -> None:
    """Then records are lost as they are without a spill, and none but those."""
    spill.start()
    count = fill(kernel, spill)
    assert kernel.lost == 1
    assert ROOM_BYTES <= spill.waiting_bytes <= FILE_BYTES
    assert kernel.ring.waiting_bytes == (RING_BYTES - 1) // RECORD_BYTES * RECORD_BYTES
    spill.stop()
    assert read_all(spill) == list(range(count))


@pytest.mark.heavy
def test_a_full_file_has_room_again_where_it_was_read(kernel: KernelRing, spill: Spill) -> None:
    """What was in the ring moves; what the reader has not given back is not written over."""
    spill.start()
    count = fill(kernel, spill)
    first = spill.read(ALL)
    time.sleep(0.05)
    assert kernel.ring.waiting_bytes == (RING_BYTES - 1) // RECORD_BYTES * RECORD_BYTES
    assert bytes(first.next() or b"") == numbered(0)
    spill.release()
    wait_until(lambda: kernel.output(numbered(count)))
    found = [0]
    while found[-1] != count:
        found += read(spill)
    assert found == list(range(count + 1))


@pytest.mark.slow
def test_a_reader_beside_a_writer(kernel: KernelRing, spill: Spill) -> None:
    """The file goes round many times; each record is read, or was lost for want of room."""
    sent = []

    def write() -> None:
        for number in range(5_000):
            if kernel.output(numbered(number)):
                sent.append(number)
            else:
                time.sleep(0.001)

    writer = threading.Thread(target=write)
    spill.start()
    writer.start()
    found: list[int] = []
    while writer.is_alive():
        found += read(spill)
    writer.join()
    spill.stop()
    found += read_all(spill)
    assert found == sent
    assert len(sent) + kernel.lost == 5_000
    assert len(sent) * RECORD_BYTES > 3 * FILE_BYTES


def read_until_error(spill: Spill, found: list[int]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found += read(spill)


def test_a_file_that_cannot_be_written(kernel: KernelRing, spill: Spill) -> None:
    """What is in the file is read first."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM_BYTES // 2, before[1]))
    found: list[int] = []
    try:
        for number in range(20):
            kernel.output(numbered(number))
        spill.start()
        wait_until(lambda: has_moved(kernel))
        for number in range(20, 100):
            kernel.output(numbered(number))
        with pytest.raises(OutputError, match=r"cannot write to .* \(File too large\): go without"):
            read_until_error(spill, found)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert found == list(range(len(found)))
    assert 20 <= len(found) <= ROOM_BYTES // 2 // RECORD_BYTES


def test_its_end_leaves_the_ring(kernel: KernelRing) -> None:
    threads = threading.active_count()
    spill = Spill(kernel.ring, FILE_BYTES)
    spill.start()
    kernel.output(numbered(0))
    wait_until(lambda: has_moved(kernel))
    assert threading.active_count() == threads + 1
    spill.close()
    assert threading.active_count() == threads
    kernel.output(numbered(1))
    assert bytes(kernel.ring.read(ALL).next() or b"") == numbered(1)


def test_one_that_was_not_started_reads_the_ring(kernel: KernelRing, spill: Spill) -> None:
    kernel.output(numbered(0))
    assert spill.waiting_bytes == RECORD_BYTES
    assert read_all(spill) == [0]
    assert has_moved(kernel)
