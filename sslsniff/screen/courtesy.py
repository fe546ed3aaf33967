"""What the screen takes of the CPU beside the programs that are watched: what they leave."""

import os

NICE = 10
"""Of a thread that is late: it gets a tenth of what each busy program gets."""
_LATE_FOR_S = 5.0


class Courtesy:
    """Lets the calling thread run only when nothing else wants the CPU, unless it is late.

    In Linux's policy SCHED_IDLE, any other program takes the CPU from it at once (man 7 sched).
    """

    def __init__(self) -> None:
        os.nice(NICE)  # of this thread alone (man 2 setpriority, "C library/kernel differences")
        self._policy = os.SCHED_OTHER
        self._until_s = 0.0
        self.update(now_s=0.0, is_late=False)

    def update(self, *, now_s: float, is_late: bool) -> None:
        """Say whether the work has waited too long; ``now_s``: a monotonic time in seconds."""
        if is_late:
            self._until_s = now_s + _LATE_FOR_S
        policy = os.SCHED_OTHER if now_s < self._until_s else os.SCHED_IDLE
        if policy != self._policy:
            os.sched_setscheduler(0, policy, os.sched_param(0))
            self._policy = policy
