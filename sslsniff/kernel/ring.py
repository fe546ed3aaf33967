"""The BPF ring buffer, read by mapping it: a third of the cost of libbpf's callbacks.

Layout (kernel/bpf/ringbuf.c): a page with the consumer position, a page with the
producer position, then the data. Each record has an 8-byte header whose first
word is its length with two flag bits; records are aligned to 8 bytes.
"""

import contextlib
import mmap
from collections.abc import Iterator

_BUSY = 1 << 31
_DISCARDED = 1 << 30
_HEADER_BYTES = 8
LARGEST_RECORD_BYTES = (1 << 20) + (64 << 10)
"""No less than the largest record of ``bpf/data.bpf.h``, in whole pages."""


class Ring:
    """A mapped ring buffer of ``size_bytes``; ``fd`` is the map's, pollable when records wait."""

    def __init__(self, fd: int, size_bytes: int) -> None:
        page = mmap.PAGESIZE
        self.fd = fd
        self._mask = size_bytes - 1
        self._consumer_map = mmap.mmap(fd, page, offset=0)
        # The kernel offers the data twice in a row, so that no record wraps. One record's length
        # of the second time is enough, and counts less as memory of this process.
        self._producer_map = mmap.mmap(
            fd, page + size_bytes + LARGEST_RECORD_BYTES, prot=mmap.PROT_READ, offset=page
        )
        self._consumer = memoryview(self._consumer_map).cast("Q")
        producer = memoryview(self._producer_map)
        self._producer = producer[:8].cast("Q")
        self._data = producer[page:]
        self._lengths = self._data.cast("I")
        self._position = self._consumer[0]

    def read(self, most_bytes: int) -> Iterator[memoryview]:
        """Yield the records that wait and were not read, until they have ``most_bytes`` or more.

        The views are valid until ``release``.
        """
        data, lengths, mask = self._data, self._lengths, self._mask
        end = self._producer[0]
        position = self._position
        stop = min(end, position + most_bytes)
        while position < stop:
            start = position & mask
            length = lengths[start >> 2]
            if length & _BUSY:
                return
            size = length & ~_DISCARDED
            self._position = position = position + ((size + _HEADER_BYTES + 7) & ~7)
            if size == length:
                start += _HEADER_BYTES
                yield data[start : start + size]

    def take(self, most_bytes: int) -> memoryview:
        """Read as ``read`` does; return the records in one piece, for ``records``."""
        before = self._position
        start = before & self._mask
        for _ in self.read(min(most_bytes, self._mask + 1 - start)):
            pass
        return self._data[start : start + self._position - before]

    def release(self) -> bool:
        """Give the room of what was read back to the kernel; return whether there was any."""
        if self._consumer[0] == self._position:
            return False
        self._consumer[0] = self._position
        return True

    def start(self) -> None:
        """Nothing of its own goes on here; see ``Spill``."""

    def stop(self) -> None:
        """See ``start``."""

    def close(self) -> None:
        """Unmap; or leave that to the last view that ``read`` gave: an error's trace has some."""
        self._lengths.release()
        self._data.release()
        self._producer.release()
        self._consumer.release()
        with contextlib.suppress(BufferError):  # there are views
            self._producer_map.close()
        self._consumer_map.close()


def records(taken: memoryview) -> Iterator[memoryview]:
    """Yield the records of what ``Ring.take`` returned, wherever it was copied to."""
    lengths = taken.cast("B").cast("I")
    position = 0
    while position < len(taken):
        length = lengths[position >> 2]
        size = length & ~_DISCARDED
        if not length & _DISCARDED:
            yield taken[position + _HEADER_BYTES : position + _HEADER_BYTES + size]
        position += (size + _HEADER_BYTES + 7) & ~7
