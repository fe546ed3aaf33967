"""Maps part of a file twice in a row, so that what wraps around its end can be read in one piece.

Python's mmap cannot choose addresses.
"""

import ctypes
import mmap
import os

_PROT_NONE, _MAP_FIXED, _MAP_NORESERVE = 0, 0x10, 0x4000  # include/uapi/asm-generic/mman*.h
_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class DoubledMemory:
    """``size_bytes`` of the file ``fd`` from ``offset`` on, mapped twice; both whole pages.

    ``data`` is the memory, readable and writable. Raises ``OSError``.
    """

    def __init__(self, fd: int, offset: int, size_bytes: int) -> None:
        self._whole_bytes = 2 * size_bytes
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        self._address = _map(None, self._whole_bytes, _PROT_NONE, flags, -1, 0)
        both, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | _MAP_FIXED
        for at in (self._address, self._address + size_bytes):
            _map(at, size_bytes, both, flags, fd, offset)
        array = (ctypes.c_char * self._whole_bytes).from_address(self._address)
        self.data = memoryview(array).cast("B")

    def close(self) -> None:
        """Unmap it: nothing may refer to ``data`` any more."""
        self.data.release()
        _libc.munmap(self._address, self._whole_bytes)


def _map(at: int | None, size: int, protection: int, flags: int, fd: int, offset: int) -> int:
    address = _libc.mmap(at, size, protection, flags, fd, offset)
    if address == _FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(address)
