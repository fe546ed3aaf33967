"""The names of traced threads, as text and trace files show them."""

import functools
from collections.abc import Callable

from sslsniff.kernel import procfs

_MOST_NAMES = 65_536
_ENDED = "?"


class ThreadNames:
    """Looks up the name of each thread once, when it is seen first.

    ``ended_process``: returns the name that a process had at its end; None: unknown.
    """

    def __init__(self, ended_process: Callable[[int], str | None] = lambda _: None) -> None:
        self._ended_process = ended_process
        self.name = functools.lru_cache(_MOST_NAMES)(self._name)

    def label(self, pid: int, tid: int, task: int | None, *, is_go: bool) -> str:
        """Return what a call is shown beside: ``name[tid]``, of Go ``name[pid] goroutine 7``."""
        if is_go and task is not None:
            return f"{self.name(pid)}[{pid}] goroutine {task}"
        name = self.name(tid)
        shown = f"{self.name(pid) if name == _ENDED else name}[{tid}]"
        return shown if task is None else f"{shown} task {task}"

    def _name(self, tid: int) -> str:
        """Return a thread's name; ``?``: it has ended before, and is not a process's first."""
        return procfs.thread_name(tid) or self._ended_process(tid) or _ENDED
