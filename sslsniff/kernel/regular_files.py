"""Opens files at untrusted paths: regular files only, and without waiting."""

import errno
import os
import stat

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


class NotRegularError(OSError):
    """A path leads to a device, FIFO, socket or folder."""


def open_regular(path: str) -> int:
    """Return a descriptor that reads the regular file at ``path``.

    Other files are never opened: to open a device may act on it, to open a FIFO may wait. O_PATH
    finds the file without opening it (open(2)). ``/proc/self/fd`` then opens this same file, even
    if ``path`` leads to another one by then. O_NONBLOCK is for files with a lease (fcntl(2)).
    Raises ``NotRegularError`` or another ``OSError``.
    """
    found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise NotRegularError(errno.EINVAL, "is not a file", path)
        return os.open(descriptor_path(found), _READ)
    finally:
        os.close(found)


def descriptor_path(file: int) -> str:
    """Return a path to an open file, for this process and the kernel, whatever the file's name."""
    return f"/proc/self/fd/{file}"
