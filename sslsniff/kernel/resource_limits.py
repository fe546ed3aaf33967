"""Limits of this process: CPU time and memory for one task, and open files."""

import contextlib
import math
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

_COUNTED = ~0 << 3
"""The clock of this process that RLIMIT_CPU is compared with: CPUCLOCK_PROF of process 0, itself
(make_process_cpuclock in Linux's posix-timers_types.h). It counts user and system time by ticks,
and may be seconds away from what getrusage(2) says."""

GRACE_S = 2
"""Seconds of CPU after the first ``OverTimeError``: then the kernel ends the process."""


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
    """Raise ``OverTimeError`` at the limit of CPU time, where the kernel would end the process."""
    signal.signal(signal.SIGXCPU, _raise)


def allow_cpu(seconds: int) -> None:
    """Raise ``OverTimeError`` when this process has used so many more ``seconds`` of CPU."""
    most_s = math.ceil(time.clock_gettime(_COUNTED) + seconds)
    lower(resource.RLIMIT_CPU, most_s, resource.RLIM_INFINITY)


def end_after(seconds: int) -> None:
    """Raise ``OverTimeError`` after ``seconds`` of CPU in all, and end ``GRACE_S`` later.

    Until then ``OverTimeError`` is raised again each second, because the kernel repeats SIGXCPU
    (setrlimit(2)): Python drops an exception in a finaliser or in a callback from C.
    """
    lower(resource.RLIMIT_CPU, seconds, seconds + GRACE_S)


def allow_open_files() -> None:
    """Raise the limit of open files, usually 1024, to the most that this process may set.

    Each file with probes takes a descriptor for each of its programs, and a host with containers
    has many copies of a library.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextlib.contextmanager
def limited(cpu_s: int, memory_bytes: int) -> Iterator[None]:
    """Limit the CPU time and the address space that a ``with`` block takes more.

    What the process used before does not count: libraries reserve gigabytes that they never use.
    Raises ``OverTimeError`` or ``MemoryError`` beyond that.
    """
    before = {kind: resource.getrlimit(kind) for kind in (resource.RLIMIT_CPU, resource.RLIMIT_AS)}
    raise_when_over_time()
    try:  # OverTimeError may be raised from here on
        allow_cpu(cpu_s)
        lower(resource.RLIMIT_AS, address_space() + memory_bytes, resource.RLIM_INFINITY)
        yield
    finally:
        for kind, each in before.items():
            resource.setrlimit(kind, each)


def address_space() -> int:
    """Return the bytes of this process's address space: the first number of statm, proc(5)."""
    pages = Path("/proc/self/statm").read_text().split()[0]
    return int(pages) * resource.getpagesize()


def _raise(_number: int, _frame: FrameType | None) -> None:
    raise OverTimeError
