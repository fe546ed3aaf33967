"""Notes which goroutine passed plaintext when, in a live capture.

An exchange has the time of a record of the kernel, so that time tells the goroutine. Goroutines
have numbers that are not used again (src/runtime/proc.go, ``newproc1``).
"""

from collections import OrderedDict

from sslsniff.core.events import Data
from sslsniff.fetching.locations import R14
from sslsniff.fetching.task_location import TaskLocation

_MOST_NOTES = 200_000
_GOID_OFFSET = 152
"""Of ``goid`` in ``runtime.g`` from Go 1.17 on, without 1.23 and 1.24."""
_NO_GOROUTINE = frozenset((0, 2, 3, 4, 0x1002))
"""In 1.23 and 1.24 the status of the goroutine is there: it runs, or is asked to stop. In others, 2
to 4 are goroutines of the runtime (src/runtime/runtime2.go)."""


class TaskNotes:
    """See ``capture.served_hits.ServedHits``: it has no probes of its own."""

    def __init__(self) -> None:
        self.task: TaskLocation | None = TaskLocation(R14, (_GOID_OFFSET,))
        self._notes: OrderedDict[tuple[int, int], int] = OrderedDict()

    def attach(self, loader: object, scope: object) -> None:
        """Do nothing."""

    def detach(self) -> None:
        """Do nothing."""

    def handle(self, record: memoryview, clock_offset_ns: int) -> bool:
        """Return that a record is no hit."""
        return False

    def note(self, data: Data, pid: int) -> None:
        """Note the goroutine that passed plaintext of a process."""
        if data.task in _NO_GOROUTINE:
            return
        key = pid, data.time_ns
        if self._notes.setdefault(key, data.task) != data.task:
            self._notes[key] = 0  # two at the same time
        if len(self._notes) > _MOST_NOTES:
            self._notes.popitem(last=False)

    def goroutine(self, pid: int, time_ns: int) -> int:
        """Return which goroutine of a process passed plaintext then; 0: that is not known."""
        return self._notes.get((pid, time_ns), 0)
