"""What the screen takes of the CPU beside the programs that are watched: what they leave."""

import contextlib
import os
from pathlib import Path

NICE = 10
"""Of a thread that is late: it gets a tenth of what each busy program gets."""
_LATE_FOR_S = 5.0


class Courtesy:
    """Lets the calling thread run only when nothing else wants the CPU, unless it is late.

    In Linux's policy SCHED_IDLE, any other program takes the CPU from it at once (man 7 sched). But
    since Linux 6.12 only programs of its own group do so, and each terminal is a group ("The
    autogroup feature"). The others wait for 2 ms and more. So a thread can run ``beside`` a process
    of its own group: on the processor where that last ran. Then the others keep the rest.
    """

    def __init__(self, beside: int | None = None) -> None:
        os.nice(NICE)  # of this thread alone (man 2 setpriority, "C library/kernel differences")
        self._beside = beside
        self._all = os.sched_getaffinity(0)
        self._policy = os.SCHED_OTHER
        self._until_s = 0.0
        self.update(now_s=0.0, is_late=False)

    def update(self, *, now_s: float, is_late: bool) -> None:
        """Say whether the work has waited too long; ``now_s``: a monotonic time in seconds."""
        if is_late:
            self._until_s = now_s + _LATE_FOR_S
        is_hurried = now_s < self._until_s
        if self._beside is not None:
            where = self._all if is_hurried else _processor_of(self._beside) or self._all
            with contextlib.suppress(OSError):  # it may be offline by now
                os.sched_setaffinity(0, where)
        policy = os.SCHED_OTHER if is_hurried else os.SCHED_IDLE
        if policy != self._policy:
            os.sched_setscheduler(0, policy, os.sched_param(0))
            self._policy = policy


def _processor_of(pid: int) -> set[int]:
    """Return where a process last ran (proc(5), the 39th field of stat); empty if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("latin-1")
    except OSError:
        return set()
    return {int(text.rpartition(")")[2].split()[36])}
