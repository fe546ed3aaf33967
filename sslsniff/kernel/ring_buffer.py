"""Reads the BPF ring buffer through a mapping of it: a third of the cost of libbpf's callbacks.

Layout (kernel/bpf/ringbuf.c): a page with the consumer position, a page with the
producer position, then the data.
"""

import contextlib
import mmap

from sslsniff.kernel.ring_records import Records

LARGEST_RECORD_BYTES = (1 << 20) + (64 << 10)
"""No less than the largest record of ``bpf/data.bpf.h``, in whole pages."""


class Ring:
    """A mapped ring buffer of ``size_bytes``; ``fd`` is the map's, pollable when records wait."""

    def __init__(self, fd: int, size_bytes: int) -> None:
        page = mmap.PAGESIZE
        self.fd = fd
        self._mask = size_bytes - 1
        self._consumer_map = mmap.mmap(fd, page, offset=0)
        # The kernel maps the data twice in a row, so that no record wraps. Of the second time the
        # length of one record is enough: this process then counts as using less memory.
        self._producer_map = mmap.mmap(
            fd, page + size_bytes + LARGEST_RECORD_BYTES, prot=mmap.PROT_READ, offset=page
        )
        self._consumer = memoryview(self._consumer_map).cast("Q")
        producer = memoryview(self._producer_map)
        self._producer = producer[:8].cast("Q")
        self._data = producer[page:]
        self._records = Records(self._data, 0, 0)
        self._start = 0

    @property
    def waiting_bytes(self) -> int:
        """How many bytes of records are not released yet."""
        return self._producer[0] - self._consumer[0]

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
        """Give the room of the records that were read to the kernel; return its bytes."""
        size = self._records.position - self._start
        self._start = self._records.position
        self._consumer[0] += size
        return size

    def start(self) -> None:
        """Do nothing: only ``Spill`` has a thread to start."""

    def stop(self) -> None:
        """See ``start``."""

    def close(self) -> None:
        """Unmap. While views of ``read`` exist, as in an error's traceback, the map stays."""
        self._data.release()
        self._producer.release()
        self._consumer.release()
        with contextlib.suppress(BufferError):  # there are views
            self._producer_map.close()
        self._consumer_map.close()
