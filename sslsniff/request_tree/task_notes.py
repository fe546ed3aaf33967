"""Notes which goroutine or thread passed plaintext when, in a live capture.

An exchange has the time of a record of the kernel, so that time tells the task.

A goroutine does one thing at a time, and its number is not used again (src/runtime/proc.go,
``newproc1``).

A thread is known only if it waited inside of a read of TLS, on a socket that blocks, for the first
bytes that a connection then had (bpf/waits.bpf.h). So it is no event loop: a loop does not wait for
one peer, as all others would wait, too. What it reads from this connection it serves alone, until
another thread waits there, or its socket no longer blocks. All that such a thread passes is noted:
if it reads a request elsewhere, it has two in hand, and nothing is known.
"""

from collections import OrderedDict
from typing import NamedTuple

from sslsniff.core.events import Data
from sslsniff.core.tree_place import GOROUTINE, THREAD
from sslsniff.fetching.locations import R14
from sslsniff.fetching.task_location import TaskLocation

_MOST_NOTES = 200_000
_MOST_THREADS = 65_536
"""That wait for a connection; beyond, those that began to wait first are forgotten."""
_GOID_OFFSET = 152
"""Of ``goid`` in ``runtime.g`` from Go 1.17 on, without 1.23 and 1.24."""
_NO_GOROUTINE = frozenset((0, 2, 3, 4, 0x1002))
"""In 1.23 and 1.24 the status of the goroutine is there: it runs, or is asked to stop. In others, 2
to 4 are goroutines of the runtime (src/runtime/runtime2.go)."""

_WAITS_SHIFT = 56
_WAITS_BLOCKED, _WAITS_NEVER = 2, 4
"""See bpf/waits.bpf.h."""
_THREAD = 1 << 62
"""Added to the numbers of threads: no goroutine has such a number."""


class Task(NamedTuple):
    """A goroutine or a thread that passed bytes; 0: not known.

    ``serves_alone``: what it read is a request that it alone serves, with nothing beside it.
    """

    number: int
    serves_alone: bool

    @property
    def evidence(self) -> str:
        """The name of what this proves."""
        return THREAD if self.number & _THREAD else GOROUTINE


UNKNOWN_TASK = Task(0, serves_alone=False)


class TaskNotes:
    """See ``capture.served_hits.ServedHits``: it has no probes of its own."""

    def __init__(self) -> None:
        self.task: TaskLocation | None = TaskLocation(R14, (_GOID_OFFSET,))
        self._notes: OrderedDict[tuple[int, int], Task] = OrderedDict()
        self._readers: OrderedDict[int, tuple[int, int]] = OrderedDict()
        """By the kernel's number of a connection: the process and thread that waits for it."""
        self._threads: OrderedDict[tuple[int, int], None] = OrderedDict()
        """The threads that waited for a connection."""

    def attach(self, loader: object, scope: object) -> None:
        """Do nothing."""

    def detach(self) -> None:
        """Do nothing."""

    def handle(self, record: memoryview, clock_offset_ns: int) -> bool:
        """Return that a record is no hit."""
        return False

    def note(self, data: Data, pid: int) -> None:
        """Note the task that passed plaintext of a process."""
        waits = data.task >> _WAITS_SHIFT
        if waits or not data.task:
            task = self._thread(data, pid, waits)
        else:
            task = Task(data.task, serves_alone=True)
        if task.number in _NO_GOROUTINE:
            return
        key = pid, data.time_ns
        if self._notes.setdefault(key, task) != task:
            self._notes[key] = UNKNOWN_TASK  # two at the same time
        if len(self._notes) > _MOST_NOTES:
            self._notes.popitem(last=False)

    def task_at(self, pid: int, time_ns: int) -> Task:
        """Return what passed plaintext of a process then."""
        return self._notes.get((pid, time_ns), UNKNOWN_TASK)

    def _thread(self, data: Data, pid: int, waits: int) -> Task:
        """Return the thread that passed bytes, if it has waited for a connection."""
        thread = pid, data.tid
        if waits & _WAITS_NEVER:
            self._readers.pop(data.connection, None)
        elif waits & _WAITS_BLOCKED:
            self._readers[data.connection] = thread
            self._threads[thread] = None
            for known in (self._readers, self._threads):
                if len(known) > _MOST_THREADS:
                    known.popitem(last=False)
        if thread not in self._threads:
            return UNKNOWN_TASK
        return Task(_THREAD | data.tid, self._readers.get(data.connection) == thread)
