"""A temporary file for records that the reader has no time for yet.

A thread moves records from the ring into the file as they come, and does nothing else: the ring
stays empty while a decoder is busy. It writes many records with one system call, during which
other threads run. The file is a ring too, as long as it was made; where it is full, records stay in
the ring buffer, and what has no room there is lost and counted as ever.
"""

import os
import select
import sys
import tempfile
import threading
from collections import deque

from sslsniff.errors import OutputError
from sslsniff.kernel.ring_buffer import LARGEST_RECORD_BYTES, Ring
from sslsniff.kernel.ring_records import PADDING_BYTES, Records

_GATHER_S = 0.002
_IDLE_S = 0.02
_MOST_BATCH_BYTES = 1 << 20
_TURN_S = 0.001
"""So long may the thread have to wait for the decoder, between two batches."""


class Spill:
    """Reads as ``ring_buffer`` does, which it moves into a file of ``size_bytes``.

    ``fd`` is pollable when records wait. The file is in the folder for temporary files (TMPDIR),
    has no name and is readable by its owner only. Raises ``OutputError`` where it cannot be made.
    """

    def __init__(self, ring: Ring, size_bytes: int) -> None:
        self._ring = ring
        self._size = size_bytes
        self._file = _open_file(size_bytes)
        self.fd = os.eventfd(0, os.EFD_SEMAPHORE | os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._batches: deque[int] = deque()
        """The lengths of what is in the file and was not read, in whole records; each wakes."""
        self._written = self._read = self._released = 0
        self._error: OSError | None = None
        self._to_stop = threading.Event()
        self._thread = threading.Thread(target=self._move, name="spill", daemon=True)

    def start(self) -> None:
        """Begin to move, unless that was done. The thread has the rights of its caller for good."""
        if self._thread.ident is None:
            sys.setswitchinterval(_TURN_S)
            self._thread.start()

    @property
    def waiting_bytes(self) -> int:
        """See ``Ring``."""
        waiting = self._written - self._read
        return waiting if self._thread.is_alive() else waiting + self._ring.waiting_bytes

    def read(self, most_bytes: int) -> Records:
        """Return the records of one batch; once stopped, at last what is left in the ring.

        Raises ``OutputError`` where the file could not be written.
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
        size = self._batches.popleft()
        start = self._read % self._size
        data = memoryview(bytearray(size + PADDING_BYTES))
        before_end = min(size, self._size - start)
        os.preadv(self._file, [data[:before_end]], start)
        os.preadv(self._file, [data[before_end:size]], 0)
        self._read += size
        return Records(data, 0, size)

    def release(self) -> int:
        """Give the room of what was read back; return how many bytes that are."""
        size = self._read - self._released
        if not size and not self._thread.is_alive():
            return self._ring.release()
        self._released = self._read
        return size

    def stop(self) -> None:
        """Move no more; what is in the file and the ring can still be read."""
        self._to_stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def close(self) -> None:
        """Stop, and let go of the file; the ring stays open."""
        self.stop()
        os.close(self._file)
        os.close(self.fd)

    def _move(self) -> None:
        """Move records until stopped, or until the file cannot be written."""
        with select.epoll() as waiting:
            waiting.register(self._ring.fd, select.EPOLLIN)
            while not self._to_stop.is_set():
                if not waiting.poll(_IDLE_S):
                    continue
                self._to_stop.wait(_GATHER_S)
                try:
                    while self._move_batch():
                        pass
                except OSError as error:
                    self._error = error.with_traceback(None)  # that would hold the ring's memory
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
            self._batches.append(size)
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
