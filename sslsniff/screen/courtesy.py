"""Gives the screen the CPU time that other programs leave."""

import contextlib
import math
import os
from pathlib import Path

NICE = 10
"""Of a thread that is late: it gets a tenth of what each busy program gets."""
_LATE_FOR_S = 5.0
_TICKS_S = os.sysconf("SC_CLK_TCK")
_MOST_SHARE = 0.6
"""What a process may use of its processor where a thread runs beside it."""


class Courtesy:
    """Lets the calling thread run only when nothing else wants the CPU, unless it is late.

    In Linux's policy SCHED_IDLE, any other program takes the CPU from it at once (man 7 sched). But
    since Linux 6.12 only programs of its own group do so, and each terminal is a group ("The
    autogroup feature"). The others wait for 2 ms and more. So a thread can run ``beside`` a process
    of its own group: on the processor where that last ran, if that has time left. Then the others
    keep the rest.
    """

    def __init__(self, beside: int | None = None) -> None:
        os.nice(NICE)  # of this thread alone (man 2 setpriority, "C library/kernel differences")
        self._beside = beside
        self._all = os.sched_getaffinity(0)
        self._used_s, self._seen_s = 0.0, -math.inf
        self._policy = os.SCHED_OTHER
        self._until_s = 0.0
        self.update(now_s=0.0, is_late=False)

    def update(self, *, now_s: float, is_late: bool) -> None:
        """Say whether the work has waited too long; ``now_s``: a monotonic time in seconds."""
        if is_late:
            self._until_s = now_s + _LATE_FOR_S
        is_hurried = now_s < self._until_s
        if self._beside is not None:
            place = self._place_beside(self._beside, now_s)
            with contextlib.suppress(OSError):  # it may be offline by now
                os.sched_setaffinity(0, self._all if is_hurried or place is None else {place})
        policy = os.SCHED_OTHER if is_hurried else os.SCHED_IDLE
        if policy != self._policy:
            os.sched_setscheduler(0, policy, os.sched_param(0))
            self._policy = policy

    def _place_beside(self, pid: int, now_s: float) -> int | None:
        """Return the processor where a process last ran; None if it has ended, or is busy."""
        try:
            stat = Path(f"/proc/{pid}/stat").read_text("latin-1")
        except OSError:
            return None
        fields = stat.rpartition(")")[2].split()  # from the third of proc(5) on
        used_s = (int(fields[11]) + int(fields[12])) / _TICKS_S
        is_busy = used_s - self._used_s > _MOST_SHARE * (now_s - self._seen_s)
        self._used_s, self._seen_s = used_s, now_s
        return None if is_busy else int(fields[36])
