"""The ring buffer that preloaded programs write to: memory with the form of the BPF ring buffer.

Its layout is that of ``preload/shared.h``; ``preload/ring.h`` says how records are written without
a lock. The reader has two more things to do than in the kernel's ring: it marks the memory that it
gives back as free in the next lap, and it skips records whose thread was killed while it wrote.
"""

import contextlib
import mmap
import os
import struct

from sslsniff.kernel import procfs
from sslsniff.kernel.memory.doubled_memory import DoubledMemory
from sslsniff.kernel.ring_buffer import RecordRing
from sslsniff.kernel.ring_records import BUSY, DISCARDED, HEADER_BYTES, Records

MEMORY_NAME = "sslsniff"
"""What /proc/PID/maps calls the memory, after ``memfd:``."""
MAGIC = 0x32304C5053535373
READER_AT = 64
READER = struct.Struct("<QQQQI")
"""``struct reader_page`` of ``preload/shared.h`` after the position."""
COUNTERS_AT = 128
CUTS = 5
COUNTERS = struct.Struct(f"<{2 * CUTS}Q8Q")
"""``struct writer_page`` from its losses on."""
_SAMPLE_AT = READER_AT + 24
_ALL = (1 << 32) - 1  # the largest hash of a connection
_STOPPED_AT = READER_AT + 32
_PATTERN_BYTES = 32 << 10  # it stays in the cache while it is copied
_ENDED = (None, "Z", "X")
"""States of threads that write no more: gone, or not waited for yet."""


class DamagedRingError(Exception):
    """A program has written into the ring what cannot be."""


class SharedRing(RecordRing):
    """A ring of ``size_bytes``, a power of two, for programs that open ``path``.

    ``call_limit_bytes``: the most plaintext of one call. Raises ``OSError``.
    """

    def __init__(self, size_bytes: int, call_limit_bytes: int) -> None:
        page = mmap.PAGESIZE
        self.fd = os.memfd_create(MEMORY_NAME, os.MFD_CLOEXEC)
        os.ftruncate(self.fd, 2 * page + size_bytes)
        self._pages = mmap.mmap(self.fd, 2 * page)
        fields = (MAGIC, size_bytes, call_limit_bytes, _ALL, 0)
        READER.pack_into(self._pages, READER_AT, *fields)
        self._memory = DoubledMemory(self.fd, 2 * page, size_bytes)
        pages = memoryview(self._pages)
        super().__init__(
            pages[:8].cast("Q"), pages[page : page + 8].cast("Q"), self._memory.data, size_bytes
        )
        self._size_bytes = size_bytes
        self._is_given_up = False
        self._free = (0, b"")  # a lap, and memory that is free in it

    @property
    def path(self) -> str:
        """The file that programs open."""
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    @property
    def counters(self) -> tuple[int, ...]:
        """What programs counted: ``COUNTERS``."""
        return COUNTERS.unpack_from(self._pages, mmap.PAGESIZE + COUNTERS_AT)

    @property
    def waiting_bytes(self) -> int:
        """See ``RecordRing``."""
        return 0 if self._is_given_up else super().waiting_bytes

    def read(self, most_bytes: int) -> Records:
        """See ``RecordRing``. Raises ``DamagedRingError``."""
        if not 0 <= self.waiting_bytes <= self._size_bytes:
            raise DamagedRingError
        return super().read(most_bytes)

    def sample(self, most: int) -> None:
        """Leave out connections with a ``sampling_hash`` above ``most``, from now on."""
        struct.pack_into("<Q", self._pages, _SAMPLE_AT, most)

    def stop_programs(self) -> None:
        """Let programs write no more records."""
        struct.pack_into("<I", self._pages, _STOPPED_AT, 1)

    def give_up(self) -> None:
        """Let programs write no more records, and leave what they wrote."""
        self.stop_programs()
        self._is_given_up = True

    def release(self) -> int:
        """See ``RecordRing``; marks the room as free in the next lap.

        Raises ``DamagedRingError``.
        """
        at, size = self._start, self._size_bytes
        lap = self._consumer[0] // size + 1
        end = self._records.position
        if end - at > self.waiting_bytes:
            raise DamagedRingError
        self._mark_free(at, min(end, size), lap)
        if end > size:
            self._mark_free(size, end, lap + 1)
        return super().release()

    def _mark_free(self, start: int, end: int, lap: int) -> None:
        if self._free[0] != lap:
            self._free = (lap, (lap << 32).to_bytes(8, "little") * (_PATTERN_BYTES // 8))
        pattern = self._free[1]
        for at in range(start, end, _PATTERN_BYTES):
            size = min(_PATTERN_BYTES, end - at)
            self._data[at : at + size] = pattern[:size]

    def skip_abandoned(self, *, whoever: bool = False) -> int:
        """Skip the next record if the thread that writes it has ended; return its length, or 0.

        ``whoever``: no thread writes any more, and another may have that number now.
        """
        start = self._consumer[0] & self._size_bytes - 1
        if not self.waiting_bytes:
            return 0
        length: int
        length, thread = struct.unpack_from("<II", self._data, start)
        if not length & BUSY or not (whoever or procfs.state(thread) in _ENDED):
            return 0
        length &= ~BUSY
        struct.pack_into("<I", self._data, start, length | DISCARDED)
        return length + HEADER_BYTES

    def close(self) -> None:
        """Unmap it. While views of ``read`` exist, as in an error's traceback, the map stays."""
        super().close()
        with contextlib.suppress(BufferError):  # there are views
            self._memory.close()
        with contextlib.suppress(BufferError):
            self._pages.close()
        os.close(self.fd)
