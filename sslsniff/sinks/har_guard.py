"""A program that keeps an archive whole when sslsniff is killed in the middle of a write.

The kernel ends a write between two pages when its process gets SIGKILL (``generic_perform_write``
in mm/filemap.c): 1 of 60 kills left half an entry with bodies of 20 kB, 3 of 60 with 1 MB. This
waits until sslsniff is gone (its end of a pipe closes), and puts the end of the archive where it
belonged last. It imports nothing of sslsniff, and is started as ``har_guard.py ARCHIVE PLACE END``:
two file descriptors, of which PLACE holds the position of the end in 8 bytes, and the end itself.
It needs nothing else, and so no rights: it is started before sslsniff gives up its own.
"""

import contextlib
import os
import sys

_NOBODY = 65534  # the overflow user id: kernel/sys.c, DEFAULT_OVERFLOWUID


def put_end(archive: int, at: int, end: bytes) -> None:
    """Let the open file ``archive`` stop with ``end`` at position ``at``."""
    os.pwrite(archive, end, at)
    os.ftruncate(archive, at + len(end))


def main() -> None:
    """Wait until standard input ends, then mend."""
    _drop_rights()
    archive, place, end = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode()
    sys.stdin.buffer.read()
    put_end(archive, int.from_bytes(os.pread(place, 8, 0), "little"), end)


def _drop_rights() -> None:
    """Become nobody, if root: an other user has no rights to begin with."""
    with contextlib.suppress(OSError):  # root without the right to change users, or user namespace
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)


if __name__ == "__main__":
    main()
