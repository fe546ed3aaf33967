"""Keeps the beginning of a capture in a private file, from which connections can be saved.

The capture writes pcapng into a pipe, and a thread copies it into the file. Once that has
``MOST_BYTES``, the rest is dropped: a file on a disk must not grow without an end.
"""

import os
import threading
from pathlib import Path
from typing import BinaryIO

MOST_BYTES = 256 << 20

_COPIED_BYTES = 1 << 20


class CaptureSpool:
    """A pipe ``pipe`` and a file ``path`` in ``folder``, which only this user can read."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self.pipe = folder / "packets"
        self.path = folder / "capture.pcapng"
        self.is_full = False
        self._most_bytes = most_bytes
        os.mkfifo(self.pipe, 0o600)
        reader = os.open(self.pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(reader, True)
        # Until the capture has opened it, the pipe must not seem to be at its end.
        self._writer = os.open(self.pipe, os.O_WRONLY | os.O_CLOEXEC)
        packets = os.fdopen(reader, "rb", buffering=0)
        self.thread = threading.Thread(target=self._copy, args=(packets,), daemon=True)
        self.thread.start()

    def end(self) -> None:
        """Copy what is in the pipe to its end: the capture has ended."""
        os.close(self._writer)

    def _copy(self, packets: BinaryIO) -> None:
        room = self._most_bytes
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with packets, os.fdopen(descriptor, "wb", buffering=0) as file:
            while data := packets.read(_COPIED_BYTES):
                try:
                    file.write(data[:room])
                except OSError:  # the disk is full: then the file is, too
                    room = 0
                room = max(0, room - len(data))
                self.is_full = room == 0
