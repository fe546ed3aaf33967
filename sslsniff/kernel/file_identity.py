"""Identifies a file, whatever paths lead to it.

On overlayfs, a file of an image has another device number in each container. But the kernel maps,
and places probes in, the one file of the lower layer (fs/overlayfs/file.c).
"""

import ctypes
import os
import struct
from pathlib import Path

Identity = tuple[int | bytes, int]
"""Device and inode; on overlayfs, the lower file's handle and its time of change (ns)."""

_AT_FDCWD = -100  # include/uapi/linux/fcntl.h
_AT_HANDLE_FID, _AT_SYMLINK_FOLLOW = 0x200, 0x400
_MOST_BYTES = 128  # MAX_HANDLE_SZ, include/linux/exportfs.h
_HEADER = struct.Struct("<Ii")  # struct file_handle
_OF_OVERLAY = 0xF8  # OVL_FILEID_V1, fs/overlayfs/overlayfs.h

_libc = ctypes.CDLL(None)


def identify(path: str) -> tuple[Identity, os.stat_result]:
    """Return the identity of the file at ``path``, and its status; raises ``OSError``."""
    status = Path(path).stat()
    lower = _lower_file(path)
    if lower is not None:
        return (lower, status.st_ctime_ns), status
    return (status.st_dev, status.st_ino), status


def _lower_file(path: str) -> bytes | None:
    """Return the handle of the lower file of ``path``; None: not on overlayfs, or before Linux 6.6.

    It identifies the file only with the time of change: a file that a container changes keeps its
    handle, though it is another file from then on.
    """
    handle = ctypes.create_string_buffer(_HEADER.pack(_MOST_BYTES, 0), _HEADER.size + _MOST_BYTES)
    mount = ctypes.c_int()
    flags = _AT_HANDLE_FID | _AT_SYMLINK_FOLLOW
    name = os.fsencode(path)
    if _libc.name_to_handle_at(_AT_FDCWD, name, handle, ctypes.byref(mount), flags) != 0:
        return None
    size, kind = _HEADER.unpack_from(handle)
    return handle.raw[_HEADER.size : _HEADER.size + size] if kind == _OF_OVERLAY else None
