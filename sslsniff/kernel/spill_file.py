"""A temporary file for records that the reader has no time for yet.

A thread only moves records from the ring buffer into the file: so the ring buffer stays empty while
a decoder is busy. It writes many records with one system call, during which other threads run. The
file is a ring too, of a fixed size. When it is full, records stay in the ring buffer; those that
have no room there are lost and counted.
"""

import os
import select
import sys
import tempfile
import threading
from collections import deque
from typing import NamedTuple

from sslsniff.core.errors import OutputError
from sslsniff.core.ring_records import PADDING_BYTES, Records
from sslsniff.kernel.memory.skipping import plaintext_bytes
from sslsniff.kernel.ring_buffer import LARGEST_RECORD_BYTES, Ring

_BATCH_DELAY_S = 0.002  # let records accumulate: one write then moves many
_STOP_CHECK_S = 0.02  # how often the thread checks whether it should stop, while it is idle
_MOST_BATCH_BYTES = 1 << 20
_SWITCH_INTERVAL_S = 0.001
"""The longest that the decoder may run, before Python lets the thread move the next batch."""


class _MovedBatch(NamedTuple):
    """Records in the file: their size, and how much plaintext they carry."""

    size: int
    plaintext_bytes: int


class Spill:
    """Reads the records of ``ring`` as ``Ring`` does, through a file of ``size_bytes``.

    ``fd`` is pollable when records wait. The file is in the folder for temporary files (TMPDIR),
    has no name and is readable by its owner only. Raises ``OutputError`` if it cannot be made.
    """

    def __init__(self, ring: Ring, size_bytes: int) -> None:
        self._ring = ring
        self._size = size_bytes
        self._file = _open_file(size_bytes)
        self.fd = os.eventfd(0, os.EFD_SEMAPHORE | os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._batches: deque[_MovedBatch] = deque()
        """The unread batches in the file; each made ``fd`` readable once."""
        self._reading = Records(memoryview(b""), 0, 0)
        self._written = self._read = self._released = 0
        self._error: OSError | None = None
        self._to_stop = threading.Event()
        self._thread = threading.Thread(target=self._move, name="spill", daemon=True)

    def start(self) -> None:
        """Start the thread, once. It keeps the privileges that its caller has now."""
        if self._thread.ident is None:
            sys.setswitchinterval(_SWITCH_INTERVAL_S)
            self._thread.start()

    @property
    def waiting_bytes(self) -> int:
        """See ``Ring``."""
        waiting = self._written - self._read
        return waiting if self._thread.is_alive() else waiting + self._ring.waiting_bytes

    def read(self, most_bytes: int) -> Records:
        """Return the records of one batch; after ``stop``, at last those in the ring buffer.

        Raises ``OutputError`` if the file could not be written.
        """
        is_moving = self._thread.is_alive()
        if not self._batches:
            if self._error is not None:
                raise OutputError(
                    f"cannot write to {tempfile.gettempdir()} ({self._error.strerror})",
                    "go without --spill, or choose another folder by TMPDIR",
                ) from self._error
            return Records(memoryview(b""), 0, 0) if is_moving else self._ring.read(most_bytes)
        os.eventfd_read(self.fd)
        size = self._batches.popleft().size
        start = self._read % self._size
        data = memoryview(bytearray(size + PADDING_BYTES))
        before_end = min(size, self._size - start)
        os.preadv(self._file, [data[:before_end]], start)
        os.preadv(self._file, [data[before_end:size]], 0)
        self._read += size
        self._reading = Records(data, 0, size)
        return self._reading

    def unread_plaintext(self) -> int:
        """See ``Ring``; after ``stop``."""
        batches = sum(batch.plaintext_bytes for batch in self._batches)
        return batches + plaintext_bytes(self._reading) + self._ring.unread_plaintext()

    def release(self) -> int:
        """Free the room of the records that were read; return its bytes."""
        size = self._read - self._released
        if not size and not self._thread.is_alive():
            return self._ring.release()
        self._released = self._read
        return size

    def stop(self) -> None:
        """Stop the thread. The records in the file and in the ring buffer can still be read."""
        self._to_stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def close(self) -> None:
        """Stop, and close the file; the ring buffer stays open."""
        self.stop()
        os.close(self._file)
        os.close(self.fd)

    def _move(self) -> None:
        """Move records until stopped, or until the file cannot be written."""
        with select.epoll() as waiting:
            waiting.register(self._ring.fd, select.EPOLLIN)
            while not self._to_stop.is_set():
                if not waiting.poll(_STOP_CHECK_S):
                    continue
                self._to_stop.wait(_BATCH_DELAY_S)
                try:
                    while self._move_batch():
                        pass
                except OSError as error:
                    self._error = error.with_traceback(None)  # it refers to the ring's memory
                    os.eventfd_write(self.fd, 1)
                    return

    def _move_batch(self) -> bool:
        room = self._size - (self._written - self._released) - LARGEST_RECORD_BYTES
        if room <= 0 or self._to_stop.is_set():
            return False
        batch = self._ring.read_bytes(min(room, _MOST_BATCH_BYTES))
        size = len(batch)
        start = self._written % self._size
        before_end = min(size, self._size - start)
        self._write(batch[:before_end], start)
        self._write(batch[before_end:], 0)
        self._written += size
        if size:
            os.eventfd_write(self.fd, 1)
            self._batches.append(_MovedBatch(size, plaintext_bytes(Records(batch, 0, size))))
        return self._ring.release() > 0

    def _write(self, data: memoryview, position: int) -> None:
        while data:
            count = os.pwrite(self._file, data, position)
            data, position = data[count:], position + count


def _open_file(size_bytes: int) -> int:
    try:
        with tempfile.TemporaryFile(buffering=0) as file:
            os.posix_fallocate(file.fileno(), 0, size_bytes)
            return os.dup(file.fileno())
    except OSError as error:
        raise OutputError(
            f"no room for {size_bytes} bytes in {tempfile.gettempdir()} ({error.strerror})",
            "choose a smaller --spill, or another folder by TMPDIR",
        ) from error
