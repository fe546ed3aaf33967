"""The page by which sslsniff tells preloaded programs what to do: ``preload/shared.h``.

Programs can only read it: the kernel refuses to write to its file, or to change its size, since
Linux 5.1.
"""

import fcntl
import mmap
import os
import struct
from typing import NamedTuple

MAGIC = 0x36304C5053535373
_PAGE = struct.Struct("<QQQQII64s32s16s")
"""``struct control_page``."""
_RING_BYTES_AT, _SAMPLE_AT, _STOPPED_AT = 8, 24, 32
_ALL = (1 << 32) - 1  # the largest hash of a connection
_NAME = "sslsniff-control"
_F_ADD_SEALS = 1033  # include/uapi/linux/fcntl.h
_F_SEAL_SEAL, _F_SEAL_SHRINK, _F_SEAL_GROW, _F_SEAL_FUTURE_WRITE = 1, 2, 4, 16


class SocketAddress(NamedTuple):
    """How programs reach this process.

    ``path``: the socket's file. ``name``: an abstract socket's name without its first zero byte.
    ``token``: what programs send, to show that they could read this.
    """

    path: str
    name: bytes
    token: bytes


class ControlPage:
    """What all programs read: how large a new ring is, and what to capture.

    ``call_limit_bytes``: the most plaintext of one call. ``filters``: how many seccomp filters this
    process has. Raises ``OSError``.
    """

    def __init__(
        self, ring_bytes: int, call_limit_bytes: int, address: SocketAddress, filters: int
    ) -> None:
        self._fd = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self._fd, mmap.PAGESIZE)
        self._page = mmap.mmap(self._fd, mmap.PAGESIZE)
        self._page.madvise(mmap.MADV_DONTFORK)
        fields = (MAGIC, ring_bytes, call_limit_bytes, _ALL, 0, filters)
        path, name = address.path.encode(), b"\0" + address.name
        _PAGE.pack_into(self._page, 0, *fields, path, name, address.token)
        fcntl.fcntl(self._fd, _F_ADD_SEALS, _F_SEAL_SHRINK | _F_SEAL_GROW)
        try:
            fcntl.fcntl(self._fd, _F_ADD_SEALS, _F_SEAL_FUTURE_WRITE | _F_SEAL_SEAL)
        except OSError:  # before Linux 5.1
            fcntl.fcntl(self._fd, _F_ADD_SEALS, _F_SEAL_SEAL)

    @property
    def path(self) -> str:
        """The file that programs open."""
        return f"/proc/{os.getpid()}/fd/{self._fd}"

    def set_ring_bytes(self, ring_bytes: int) -> None:
        """Let rings that are made from now on have this size."""
        struct.pack_into("<Q", self._page, _RING_BYTES_AT, ring_bytes)

    def sample(self, most: int) -> None:
        """Leave out connections with a ``sampling_hash`` above ``most``, from now on."""
        struct.pack_into("<Q", self._page, _SAMPLE_AT, most)

    def stop_programs(self) -> None:
        """Let programs write no more records."""
        struct.pack_into("<I", self._page, _STOPPED_AT, 1)

    def close(self) -> None:
        """Unmap it; programs keep it."""
        self._page.close()
        os.close(self._fd)
