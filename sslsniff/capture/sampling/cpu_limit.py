"""Says how many connections to keep, so that this process stays below ``--most-cpu``."""

import time
from collections.abc import Callable

_PERIOD_S = 5.0
"""Some work comes in bursts, such as the writing of a table."""
_AIM = 0.9
_LEAST_KEPT = 1 / 4
"""Of the connections, each time."""


class CpuLimit:
    """Says how many connections to keep, so that at most ``most`` of one processor is used.

    ``used_s``: returns the CPU seconds of this process so far.
    """

    def __init__(self, most: float, used_s: Callable[[], float] = time.process_time) -> None:
        self._most = most
        self._used_s = used_s
        self._began: tuple[float, float] | None = None
        self.share = 0.0
        """How much of one processor was used in the last period."""

    @property
    def is_near(self) -> bool:
        """Whether more than half of what may be used is used: twice as much does not fit."""
        return self.share > self._most / 2

    def kept(self, now_s: float) -> float:
        """Return the share of the connections to keep; less than 1 once a period at most."""
        used_s = self._used_s()
        if self._began is None:
            self._began = now_s, used_s
        began_s, used_before_s = self._began
        if now_s - began_s < _PERIOD_S:
            return 1
        self._began = now_s, used_s
        self.share = (used_s - used_before_s) / (now_s - began_s)
        return 1 if self.share <= self._most else max(_LEAST_KEPT, _AIM * self._most / self.share)
