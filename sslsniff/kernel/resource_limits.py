"""Limits of this process: CPU time and memory for one task, and open files."""

import contextlib
import math
import resource
import signal
from collections.abc import Iterator
from types import FrameType

GRACE_S = 2
"""Seconds of CPU between the first ``OverTimeError`` and the end of the process."""


class OverTimeError(BaseException):
    """The limit of CPU time is reached."""


def lower(kind: int, soft: int, hard: int) -> None:
    """Set a limit, a ``resource.RLIMIT_...``, unless sslsniff was started with a lower one."""
    _, highest = resource.getrlimit(kind)
    if highest != resource.RLIM_INFINITY:
        hard = highest if hard == resource.RLIM_INFINITY else min(hard, highest)
        soft = min(soft, hard)
    resource.setrlimit(kind, (soft, hard))


def raise_when_over_time() -> None:
    """Let ``OverTimeError`` be raised when the limit of CPU time is reached, instead of an end."""
    signal.signal(signal.SIGXCPU, _raise)


def allow_cpu(seconds: int) -> None:
    """Let this process take so many more seconds of CPU; raises ``OverTimeError`` then."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most_s = math.ceil(used.ru_utime + used.ru_stime + seconds)
    lower(resource.RLIMIT_CPU, most_s, resource.RLIM_INFINITY)


def end_after(seconds: int) -> None:
    """Let the kernel end this process ``GRACE_S`` after so many seconds of CPU in all.

    From ``seconds`` on ``OverTimeError`` is raised, each second again (the kernel sends SIGXCPU
    so, setrlimit(2)): Python drops one that comes in a finaliser or in a callback from C.
    """
    lower(resource.RLIMIT_CPU, seconds, seconds + GRACE_S)


def allow_open_files() -> None:
    """Use all the open files that this process may have: usual are 1024 until it asks for more.

    Each file with probes takes a descriptor for each of its programs, and a host with containers
    has many copies of a library.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextlib.contextmanager
def limited(cpu_s: int, memory_bytes: int) -> Iterator[None]:
    """Raise ``OverTimeError`` or ``MemoryError`` in what is done here when it takes more."""
    before = {kind: resource.getrlimit(kind) for kind in (resource.RLIMIT_CPU, resource.RLIMIT_AS)}
    raise_when_over_time()
    allow_cpu(cpu_s)
    lower(resource.RLIMIT_AS, memory_bytes, resource.RLIM_INFINITY)
    try:
        yield
    finally:
        for kind, each in before.items():
            resource.setrlimit(kind, each)


def _raise(_number: int, _frame: FrameType | None) -> None:
    raise OverTimeError
