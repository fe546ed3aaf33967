"""Reads the BPF ring buffer through a mapping of it: a third of the cost of libbpf's callbacks.

Layout (kernel/bpf/ringbuf.c): a page with the consumer position, a page with the
producer position, then the data.
"""

import contextlib
import mmap
import time
from typing import Protocol

from sslsniff.core.ring_records import Records
from sslsniff.kernel.memory.skipping import plaintext_bytes

LARGEST_RECORD_BYTES = (1 << 20) + (64 << 10)
"""No less than the largest record of ``bpf/data.bpf.h``, in whole pages."""

BYTES_A_POLL = 8 << 20
"""How much is read before a source returns to what else there is to do."""
LAST_BATCH_BYTES = 256 << 10
"""How much is read at a time when a capture ends: between batches it looks at the clock."""
_BATCH_BYTES = 4 << 20  # the ring gets the room of a batch back only after all of it is handled
_BATCH_SHARE = 8  # a batch is at most 1/8 of the ring, for the same reason
_REST_SHARE = 64  # 1/64 of the ring: fewer bytes wait for the next wake-up, which costs less

_POLL_DELAY_S = 0.002  # let events accumulate: one wake-up then handles many
_MOST_POLL_DELAYS = 4  # before one wake-up, while few events come
_WORK_S = 0.0003  # CPU time that a wake-up should take at most: programs wait for the processor


def batch_bytes(ring_bytes: int, share: int = _BATCH_SHARE) -> int:
    """Return how much of a ring to read at a time: 1/``share`` of it at most."""
    return min(_BATCH_BYTES, ring_bytes // share)


def rest_bytes(ring_bytes: int) -> int:
    """Return how much of a ring may wait unread for the next wake-up."""
    return ring_bytes // _REST_SHARE


class _Waiting(Protocol):
    @property
    def waiting_bytes(self) -> int:
        """How many bytes of records are not released yet."""


class ReadableRecords(_Waiting, Protocol):
    """Records that are read in batches, as from a ``RecordRing``."""

    def read(self, most_bytes: int) -> Records:
        """Return the unread records that begin in the next ``most_bytes``."""

    def release(self) -> int:
        """Give back the room of the records that were read; return its bytes."""

    def unread_plaintext(self) -> int:
        """Return how many bytes of plaintext the records have that nobody handled yet."""


class PollPacing:
    """Lets events accumulate before they are read, the longer the fewer they are.

    The kernel wakes no reader while unread records wait: that costs the watched programs.
    """

    def __init__(self) -> None:
        self._delays: float = _MOST_POLL_DELAYS
        self._began_s = 0.0

    def wait(self, records: _Waiting, enough_bytes: int) -> None:
        """Wait until ``enough_bytes`` of ``records`` wait, some milliseconds at most."""
        for _ in range(round(self._delays)):
            time.sleep(_POLL_DELAY_S)
            if records.waiting_bytes > enough_bytes:
                break
        self._began_s = time.thread_time()

    def worked(self) -> None:
        """Note that what had accumulated is handled: its time decides how long the next waits."""
        worked_s = time.thread_time() - self._began_s or _WORK_S
        self._delays = min(_MOST_POLL_DELAYS, max(1, self._delays * _WORK_S / worked_s))


class RecordRing:
    """Records in memory that is written by others: ``data``, mapped on after ``size_bytes``.

    ``consumer`` and ``producer``: the positions after what was read and written, one number each.
    """

    fd: int
    """What can be polled, or stands for it."""

    def __init__(
        self, consumer: memoryview, producer: memoryview, data: memoryview, size_bytes: int
    ) -> None:
        self._consumer = consumer
        self._producer = producer
        self._data = data
        self._mask = size_bytes - 1
        self._records = Records(data, 0, 0)
        self._start = 0

    @property
    def waiting_bytes(self) -> int:
        """How many bytes of records are not released yet."""
        waiting: int = self._producer[0] - self._consumer[0]
        return waiting

    def read(self, most_bytes: int) -> Records:
        """Return the unread records that begin in the next ``most_bytes``, up to the ring's end.

        They are valid until ``release``. Call that before the next ``read``.
        """
        self._start = start = self._consumer[0] & self._mask
        end = min(start + min(self.waiting_bytes, most_bytes), self._mask + 1)
        self._records = Records(self._data, start, end)
        return self._records

    def read_bytes(self, most_bytes: int) -> memoryview:
        """Read as ``read`` does; return the records in one piece."""
        records = self.read(most_bytes)
        while records.next() is not None:
            pass
        return self._data[self._start : records.position]

    def release(self) -> int:
        """Give back the room of the records that were read; return its bytes."""
        size = self._records.position - self._start
        self._start = self._records.position
        self._consumer[0] += size
        return size

    def unread_plaintext(self) -> int:
        """Return how many bytes of plaintext the records have that nobody handled yet."""
        first = self._consumer[0] + self._records.position - self._start
        left = min(max(0, self._producer[0] - first), self._mask + 1)
        start = first & self._mask
        end = min(start + left, self._mask + 1)
        before_end = plaintext_bytes(Records(self._data, start, end))
        return before_end + plaintext_bytes(Records(self._data, 0, left - (end - start)))

    def start(self) -> None:
        """Do nothing: only ``Spill`` has a thread to start."""

    def stop(self) -> None:
        """See ``start``."""

    def close(self) -> None:
        """Release the views of the memory."""
        self._data.release()
        self._producer.release()
        self._consumer.release()


class Ring(RecordRing):
    """A mapped ring buffer of ``size_bytes``; ``fd`` is the map's, pollable when records wait."""

    def __init__(self, fd: int, size_bytes: int) -> None:
        page = mmap.PAGESIZE
        self.fd = fd
        self._consumer_map = mmap.mmap(fd, page, offset=0)
        # The kernel maps the data twice in a row, so that no record wraps. Of the second time the
        # length of one record is enough: this process then counts as using less memory.
        self._producer_map = mmap.mmap(
            fd, page + size_bytes + LARGEST_RECORD_BYTES, prot=mmap.PROT_READ, offset=page
        )
        producer = memoryview(self._producer_map)
        consumer = memoryview(self._consumer_map).cast("Q")
        super().__init__(consumer, producer[:8].cast("Q"), producer[page:], size_bytes)

    def close(self) -> None:
        """Unmap. While views of ``read`` exist, as in an error's traceback, the map stays."""
        super().close()
        with contextlib.suppress(BufferError):  # there are views
            self._producer_map.close()
        self._consumer_map.close()
