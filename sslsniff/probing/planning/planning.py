"""Takes open files, returns plans: from the cache, or from a worker."""

import os
import select
import stat
from collections import deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from sslsniff.elf.elf_file import WantedDebugFile
from sslsniff.elf.file_format import code_spans
from sslsniff.probing import plan_cache
from sslsniff.probing.attachments import Attachment, Refusal
from sslsniff.probing.planning.process import PlanningProcess
from sslsniff.probing.planning.queue import Job, Queue
from sslsniff.probing.plans import PLANS
from sslsniff.probing.probe_set import ReturnStyle

# Seconds of CPU per file; Node.js (126 MB) takes 0.4. A file that needs more than the first limit
# is tried again with the second one, when no other file is waiting.
_QUICK_CPU_S, _MOST_CPU_S = 1, 10
_MOST_WAITING = 512
_LIKELY = tuple({each for plan in PLANS for each in plan.file_names})
_REMEDY = "if it is a TLS library, report that"


class Finished(NamedTuple):
    """What was found out about a file, and what fstat says of it.

    ``file`` is its descriptor, now the taker's to close; None where nothing is to be attached.
    """

    path: str
    status: os.stat_result
    file: int | None
    plan: Attachment | Refusal

    def close(self) -> None:
        """Close the file."""
        if self.file is not None:
            os.close(self.file)


class Planning:
    """Finds out where probes belong in files; a context manager.

    What is not known of a file is found out by a worker of ``process``, which is started if it is
    not given. ``style`` is how returns are seen. ``fd`` is pollable when something may be finished.
    """

    def __init__(
        self,
        style: ReturnStyle = ReturnStyle.INSTRUCTIONS,
        process: PlanningProcess | None = None,
    ) -> None:
        self._style = style
        self._process = process or PlanningProcess()
        self._ready = select.epoll()
        self.fd = self._ready.fileno()
        self._system = Queue(self._process, self._ready, _QUICK_CPU_S, shares_worker=True)
        self._quick = Queue(self._process, self._ready, _QUICK_CPU_S)
        self._slow = Queue(self._process, self._ready, _MOST_CPU_S)
        self._finished: deque[Finished] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def waiting(self) -> int:
        """How many files are not known yet."""
        return len(self._system) + len(self._quick) + len(self._slow)

    @property
    def is_busy(self) -> bool:
        """Say whether ``finished`` has something to yield, now or later."""
        return bool(self._finished or self.waiting)

    @property
    def is_quick(self) -> bool:
        """Say whether some may be finished soon: those that do not take long."""
        return bool(self._finished or len(self._system) + len(self._quick))

    @property
    def has_system_files(self) -> bool:
        """Say whether some are not known yet that only who may change the system can have made."""
        return bool(len(self._system))

    @property
    def is_full(self) -> bool:
        """Say whether no more should be given until some are finished: they are all open."""
        return self.waiting >= _MOST_WAITING

    def prepare(self) -> None:
        """Do the slow imports now, before the first file needs them."""
        self._process.prepare()

    def add(self, path: str, file: int) -> None:
        """Find out where probes belong in the open ``file``, which is given back or closed.

        ``path`` is the name that it has in messages, and where its debug file is looked for.
        """
        status = os.fstat(file)
        known = plan_cache.load(path, status, self._style)
        if known is not None and _is_in_code(known, file):
            self._finish(path, status, file, known)
        else:
            self._queue(Job(path, file, status, self._style))

    def collect(self) -> None:
        """Take the answers that are there, and give workers what waits for them."""
        for queue in (self._system, self._quick, self._slow):
            for job, answer in queue.answers():
                self._handle_answer(job, answer, queue)

    def finished(self) -> Iterator[Finished]:
        """Yield what is finished now, without a wait."""
        self.collect()
        while self._finished:
            yield self._finished.popleft()

    def wait(self, seconds: float) -> None:
        """Wait until something may be finished, so many seconds at most."""
        if not self._finished:
            self._ready.poll(seconds)

    def close(self) -> None:
        """End the process, and close all files that were not given back."""
        for queue in (self._system, self._quick, self._slow):
            queue.close()
        self._ready.close()
        self._process.close()
        for each in self._finished:
            each.close()
        self._finished.clear()

    def _queue(self, job: Job) -> None:
        queue = self._system if _is_of_system(job) else self._quick
        queue.add(job, is_urgent=Path(job.path).name.startswith(_LIKELY))

    def _handle_answer(self, job: Job, answer: dict[str, Any] | None, queue: Queue) -> None:
        """Handle what a worker of ``queue`` answered; None: it died."""
        if queue is not self._slow and (answer is None or "over" in answer):
            self._slow.add(job, is_urgent=False)
            return
        said = _believed(job, answer)
        if job.open_debug_files(said.wanted):
            queue.add(job, is_urgent=True)
            return
        if said.holds:
            tried = plan_cache.tried(said.wanted, job.offers)
            plan_cache.store(said.plan, job.status, self._style, tried)
        job.close_debug_files()
        self._finish(job.path, job.status, job.file, said.plan)

    def _finish(
        self, path: str, status: os.stat_result, file: int, plan: Attachment | Refusal
    ) -> None:
        if isinstance(plan, Attachment):
            self._finished.append(Finished(path, status, file, plan))
        else:
            os.close(file)
            self._finished.append(Finished(path, status, None, plan))


class _Said(NamedTuple):
    """An answer that is believed. ``holds``: it would be the same the next time."""

    plan: Attachment | Refusal
    wanted: WantedDebugFile | None = None
    holds: bool = True


def _believed(job: Job, answer: dict[str, Any] | None) -> _Said:
    """Return what is to be believed of an answer: a hostile file may have made it."""
    try:
        if answer is None:
            return _failed("the process that did so ended")
        if "over" in answer:
            over = f"planning it takes more than {answer['over']}"
            return _Said(Refusal(over, is_tls=True, remedy=_REMEDY))
        if "failed" in answer:
            return _failed(answer["failed"])
        plan = plan_cache.parse(answer["plan"], job.path, job.status.st_size)
        is_offered = plan.debug_file in (None, *(each.path for each in job.offers))
        if not (is_offered and _is_in_code(plan, job.file)):
            raise ValueError
        return _Said(plan, plan_cache.parse_wanted(answer["wanted"]))
    except plan_cache.UNBELIEVABLE:
        return _failed("what was found out makes no sense")


def _failed(reason: str) -> _Said:
    return _Said(
        Refusal(f"planning it failed ({reason})", is_tls=True, remedy=_REMEDY), holds=False
    )


def _is_in_code(plan: Attachment | Refusal, file: int) -> bool:
    """Say whether all probes of a plan are in a segment of code of the open file."""
    if isinstance(plan, Refusal):
        return True
    spans = code_spans(file)
    return all(
        any(start <= probe.offset < start + size for start, size in spans) for probe in plan.probes
    )


def _is_of_system(job: Job) -> bool:
    """Say whether only who may change the system can have written a file.

    It is root's, under a name of this process's own, on a disk that has the system on it.
    """
    status = job.status
    return (
        status.st_uid == 0
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        and status.st_dev in _system_devices()
        and not job.path.startswith("/proc/")
    )


@cache
def _system_devices() -> set[int]:
    return {Path(each).stat().st_dev for each in ("/", "/usr")}
