"""Maps a file into memory without keeping its descriptor, as Python's mmap does.

Nobody can open the memory then who has it not mapped already.
"""

import ctypes
import mmap
import os

_MADV_DONTFORK, _MADV_DONTDUMP = 10, 16  # include/uapi/asm-generic/mman-common.h
_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class MappedMemory:
    """``size_bytes`` of the file ``fd``, readable and writable at ``address``.

    Forked children and core dumps do not have it.

    Raises ``OSError``.
    """

    def __init__(self, fd: int, size_bytes: int) -> None:
        both = mmap.PROT_READ | mmap.PROT_WRITE
        address = _libc.mmap(None, size_bytes, both, mmap.MAP_SHARED, fd, 0)
        if address == _FAILED:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        self.address = int(address)
        self._size_bytes = size_bytes
        for advice in (_MADV_DONTFORK, _MADV_DONTDUMP):
            _libc.madvise(self.address, size_bytes, advice)

    def close(self) -> None:
        """Unmap it."""
        _libc.munmap(self.address, self._size_bytes)
