"""Opens files that others name: regular files only, and without waiting."""

import errno
import os
import stat

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


class NotRegularError(OSError):
    """What is at a path is a device, FIFO, socket or folder."""


def open_regular(path: str) -> int:
    """Return a descriptor that reads the regular file at ``path``.

    Anything else is never opened: to open a device may act on it, to open a FIFO may wait. O_PATH
    finds the file without opening it (open(2)), and ``/proc/self/fd`` then opens that very file,
    whatever ``path`` leads to by then. O_NONBLOCK: the file may have a lease (fcntl(2)). Raises
    ``NotRegularError`` or another ``OSError``.
    """
    found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise NotRegularError(errno.EINVAL, "is not a file", path)
        return os.open(descriptor_path(found), _READ)
    finally:
        os.close(found)


def descriptor_path(file: int) -> str:
    """Return a path by which this process and the kernel find an open file, whatever its name."""
    return f"/proc/self/fd/{file}"
