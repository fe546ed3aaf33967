"""Runs a program with mounts of its own, also inside a chroot: apart.py PROGRAM [ARGUMENT]...

``unshare --mount`` makes "/" private, which fails where that is no mount point, as in a chroot.
Here the mounts of the whole namespace become private, seen from its root: setns(2) goes there. So
nobody else sees a mount that the program makes, whatever was shared before.
"""

import ctypes
import os
import sys

_CLONE_NEWNS = 0x20000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def main() -> None:
    _call("unshare", _CLONE_NEWNS)
    root, here = os.open("/", os.O_RDONLY), os.open(".", os.O_RDONLY)  # of the new namespace
    own = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    _call("setns", own, _CLONE_NEWNS)
    _call("mount", None, b"/", None, _MS_REC | _MS_PRIVATE, None)
    os.fchdir(root)
    os.chroot(".")
    os.fchdir(here)
    os.execvp(sys.argv[1], sys.argv[1:])


main()
