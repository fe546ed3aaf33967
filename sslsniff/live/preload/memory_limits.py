"""Limits of memory that the preloaded library's own memory would count for."""

import contextlib
import resource

_LIMITS = {
    resource.RLIMIT_AS: ("address space", "ulimit -v"),
    resource.RLIMIT_DATA: ("data segment", "ulimit -d"),
}
"""As ``preload/limits.h`` has them, each with what sets it in a shell."""


def own_limit() -> str:
    """Return the first limit that this process and its commands have, in words; "": none."""
    for limit, (what, command) in _LIMITS.items():
        size = resource.getrlimit(limit)[0]
        if size != resource.RLIM_INFINITY:
            return f"the {what} is limited to {size:,} bytes ({command})"
    return ""


def is_limited(pid: int) -> bool:
    """Say whether a process has one of these limits; False, too, if it may not be asked."""
    with contextlib.suppress(OSError):
        return any(resource.prlimit(pid, each)[0] != resource.RLIM_INFINITY for each in _LIMITS)
    return False
