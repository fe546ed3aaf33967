"""The ring buffer is read whole and in order, wherever its end is; what was read is given back."""

import threading
import time
from collections.abc import Iterator
from random import Random

import pytest

from sslsniff.core.ring_records import HEADER_BYTES
from sslsniff.kernel.ring_buffer import LARGEST_RECORD_BYTES
from tests.unit.kernel.kernel_ring import RING_BYTES, KernelRing

ALL = 1 << 40


@pytest.fixture
def kernel() -> Iterator[KernelRing]:
    made = KernelRing()
    yield made
    made.close()


def numbered(number: int, size: int) -> bytes:
    """Return a record that no other is like, of ``size`` bytes; 8 or more."""
    return number.to_bytes(8, "little") + bytes([number & 0xFF]) * (size - 8)


def read(kernel: KernelRing, most_bytes: int = ALL) -> list[bytes]:
    """Return what one read gives, and give its room back."""
    records = kernel.ring.read(most_bytes)
    found = [bytes(record) for record in iter(records.next, None)]
    kernel.ring.release()
    return found


def fill(kernel: KernelRing, size: int) -> int:
    """Put records of ``size`` into the ring until one is lost; return how many had room."""
    count = 0
    while kernel.output(numbered(count, size)):
        count += 1
    return count


def test_what_was_put_in_is_read_once(kernel: KernelRing) -> None:
    sent = [numbered(number, 8 + number) for number in range(50)]
    assert all(map(kernel.output, sent))
    assert read(kernel) == sent
    assert (read(kernel), kernel.ring.waiting_bytes) == ([], 0)


@pytest.mark.parametrize("before_end", [8, 16, 24, 1000, 65_536])
def test_a_record_over_the_end_is_one_piece(kernel: KernelRing, before_end: int) -> None:
    """It begins so many bytes before the end, and goes on at the start."""
    first = bytes(RING_BYTES - HEADER_BYTES - before_end)
    assert kernel.output(first)
    assert read(kernel) == [first]
    over, after = numbered(7, 100_000), numbered(8, 64)
    assert kernel.output(over)
    assert kernel.output(after)
    assert read(kernel) == [over]
    assert read(kernel) == [after]


def test_the_largest_record_may_begin_at_the_very_end(kernel: KernelRing) -> None:
    first = bytes(RING_BYTES - 2 * HEADER_BYTES)
    assert kernel.output(first)
    assert read(kernel) == [first]
    largest = Random(1).randbytes(LARGEST_RECORD_BYTES - 8)
    assert kernel.output(largest)
    assert read(kernel) == [largest]


def test_those_after_a_busy_one_wait(kernel: KernelRing) -> None:
    """Another processor has reserved it, and is not done: all wait, as the order is that."""
    before, busy, after = numbered(1, 24), numbered(2, 40), numbered(3, 56)
    assert kernel.output(before)
    position = kernel.reserve(len(busy))
    assert position is not None
    assert kernel.output(after)
    assert read(kernel) == [before]
    assert read(kernel) == []
    assert kernel.ring.waiting_bytes == 2 * HEADER_BYTES + len(busy) + len(after)
    kernel.commit(position, busy)
    assert read(kernel) == [busy, after]


def test_discarded_ones_are_passed_over_and_their_room_is_given_back(kernel: KernelRing) -> None:
    for number in range(9):
        position = kernel.reserve(100)
        assert position is not None
        kernel.commit(position, numbered(number, 100), discarded=number % 3 != 1)
    assert read(kernel) == [numbered(number, 100) for number in (1, 4, 7)]
    assert kernel.ring.waiting_bytes == 0


def test_a_full_ring_loses_what_comes_until_there_is_room(kernel: KernelRing) -> None:
    size = 1000 - HEADER_BYTES
    count = fill(kernel, size)
    assert (count, kernel.lost) == ((RING_BYTES - 1) // 1000, 1)
    records = kernel.ring.read(1)
    assert bytes(records.next() or b"") == numbered(0, size)
    assert not kernel.output(numbered(count, size))  # its room is not given back yet
    assert (kernel.ring.release(), kernel.ring.release()) == (1000, 0)
    assert kernel.output(numbered(count, size))
    assert not kernel.output(numbered(count + 1, size))
    found = read(kernel) + read(kernel)
    assert found == [numbered(number, size) for number in range(1, count + 1)]
    assert kernel.lost == 3


def test_a_read_ends_after_so_many_bytes(kernel: KernelRing) -> None:
    sent = [numbered(number, 992) for number in range(10)]
    assert all(map(kernel.output, sent))
    assert read(kernel, 1) == sent[:1]
    assert read(kernel, 1000) == sent[1:2]
    assert read(kernel, 1001) == sent[2:4]
    assert read(kernel, 0) == []
    assert read(kernel) == sent[4:]


def test_what_is_taken_is_in_one_piece(kernel: KernelRing) -> None:
    """As it lies in the ring, with headers: so far as it is whole."""
    assert kernel.output(numbered(1, 24))
    assert kernel.reserve(24) is not None
    taken = kernel.ring.read_bytes(ALL)
    assert taken == (24).to_bytes(8, "little") + numbered(1, 24)
    taken.release()
    assert kernel.ring.release() == 32
    assert len(kernel.ring.read_bytes(ALL)) == kernel.ring.release() == 0


@pytest.mark.slow
def test_a_reader_beside_a_writer(kernel: KernelRing) -> None:
    """The ring goes round many times; each record is read or counted as lost."""
    random, sent, discarded = Random(14), dict[int, int](), dict[int, int]()

    def write() -> None:
        for number in range(20_000):
            size = 8 + int(random.expovariate(1 / 2_000))
            position = kernel.reserve(size)
            if position is None:
                time.sleep(0.001)
            else:
                is_discarded = number % 17 == 0
                (discarded if is_discarded else sent)[number] = size
                kernel.commit(position, numbered(number, size), discarded=is_discarded)

    writer = threading.Thread(target=write)
    writer.start()
    found: list[bytes] = []
    while writer.is_alive() or kernel.ring.waiting_bytes:
        found += read(kernel, 1 << 18)
    writer.join()
    assert found == [numbered(*each) for each in sent.items()]
    assert len(sent) + len(discarded) + kernel.lost == 20_000
    assert sum(sent.values()) > 3 * RING_BYTES


def test_a_record_outlives_the_ring() -> None:
    """A trace of an error may have it; then the memory goes with it."""
    kernel = KernelRing()
    assert kernel.output(b"plaintext")
    record = kernel.ring.read(ALL).next()
    kernel.close()
    assert bytes(record or b"") == b"plaintext"
