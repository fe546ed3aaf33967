"""Makes a ring, sends it and writes into it, as a preloaded program does."""

import array
import fcntl
import mmap
import os
import socket
import struct

from sslsniff.core.ring_records import BUSY
from sslsniff.kernel.memory.control_page import MAGIC
from sslsniff.kernel.memory.ring_set import RingSet

SIZE = 1 << 18
PAGE = mmap.PAGESIZE
SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


def make_memory(size: int = 2 * PAGE + SIZE, seals: int = SEALS) -> int:
    """Return a descriptor of memory as a ring has it."""
    fd = os.memfd_create("sslsniff", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def send(rings: RingSet, *fds: int, token: bytes | None = None, by_file: bool = False) -> None:
    """Send descriptors as a ring of this process."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sender:
        connect(sender, rings, by_file=by_file)
        send_by(sender, rings, *fds, token=token)


def connect(sender: socket.socket, rings: RingSet, *, by_file: bool = False) -> None:
    address = rings.address
    sender.connect(address.path if by_file else b"\0" + address.name.ljust(31, b"\0"))


def send_by(sender: socket.socket, rings: RingSet, *fds: int, token: bytes | None = None) -> None:
    """Send descriptors as a ring of this process, by a socket that is connected."""
    said = rings.address.token if token is None else token
    text = struct.pack("<QII16s16s", MAGIC, os.getpid(), 0, b"writer", said)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sender.sendmsg([text], rights)


class Writer:
    """Writes as ``preload/ring.h`` does, one record at a time."""

    def __init__(self, rings: RingSet) -> None:
        fd = make_memory()
        self.pages = mmap.mmap(fd, 2 * PAGE + SIZE)
        send(rings, fd)
        os.close(fd)

    def word(self, position: int) -> int:
        [word] = struct.unpack_from("<Q", self.pages, 2 * PAGE + position % SIZE)
        return int(word)

    def put(self, data: bytes, busy_thread: int = 0) -> int:
        """Write a record; return its position. It is unfinished if ``busy_thread`` is given."""
        [position] = struct.unpack_from("<Q", self.pages, PAGE)
        assert self.word(position) == position // SIZE << 32  # free in this lap
        flag = BUSY if busy_thread else 0
        record = struct.pack("<II", len(data) | flag, busy_thread) + data
        record += bytes(-len(record) % 8)
        at = position % SIZE
        first = record[: SIZE - at]
        self.pages[2 * PAGE + at : 2 * PAGE + at + len(first)] = first
        self.pages[2 * PAGE : 2 * PAGE + len(record) - len(first)] = record[len(first) :]
        struct.pack_into("<Q", self.pages, PAGE, position + len(record))
        return int(position)
