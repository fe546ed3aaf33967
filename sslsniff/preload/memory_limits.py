"""Limits that the preloaded library's own memory would count for."""

import contextlib
import mmap
import resource

_UNLIMITED = resource.RLIM_INFINITY
_LIMITS = {
    resource.RLIMIT_AS: ("address space", "ulimit -v"),
    resource.RLIMIT_DATA: ("data segment", "ulimit -d"),
    resource.RLIMIT_FSIZE: ("size of files", "ulimit -f"),
}
"""As ``preload/limits.h`` and ``joining.h`` there have them, each with what sets it in a shell."""


def own_limit(ring_bytes: int) -> str:
    """Return the first limit that this process and its commands have, in words; "": none.

    ``ring_bytes``: of the data of the command's ring. A limit of files that has room for it is no
    limit: the ring is a file, in memory.
    """
    for limit, (what, command) in _LIMITS.items():
        size = resource.getrlimit(limit)[0]
        is_file = limit == resource.RLIMIT_FSIZE
        has_room = is_file and size >= 2 * mmap.PAGESIZE + ring_bytes
        if size != _UNLIMITED and not has_room:
            return f"the {what} is limited to {size:,} bytes ({command})"
    return ""


def is_limited(pid: int) -> bool:
    """Say whether a process has one of these limits; False, too, if it may not be asked."""
    with contextlib.suppress(OSError):
        return any(resource.prlimit(pid, each)[0] != _UNLIMITED for each in _LIMITS)
    return False
