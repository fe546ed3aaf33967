"""Finds where probes belong in open files: by the cache, or by a worker."""

import os
import select
import stat
from collections import deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from sslsniff.analysis import result_cache
from sslsniff.analysis.analysis_process import AnalysisProcess
from sslsniff.analysis.checked_fields import INVALID
from sslsniff.analysis.queue import Job, Queue
from sslsniff.core.debug_log import DebugLog
from sslsniff.elf.file_format import code_spans
from sslsniff.elf.wanted_files import WantedDebugFile
from sslsniff.libraries.supported import PLANS
from sslsniff.matching.explained import explained
from sslsniff.matching.probe_set import Attachment, Refusal, ReturnStyle

_QUICK_CPU_S = 1  # for a file at first; Node.js (126 MB) takes 0.4
_SEARCH_CPU_S = 5  # for a file in which functions without symbols are searched; Bun takes 1.5
_MOST_CPU_S = 10  # for a file at its second try, in a queue for slow files
_MOST_WAITING = 512
_LIKELY_NAMES = tuple({each for plan in PLANS for each in plan.file_names})
_SEARCHED = frozenset({"SSL_read"})  # what a worker may say that it looks for
_log = DebugLog("analysis")
_REMEDY = "if it is a TLS library, report that"


class AnalysedFile(NamedTuple):
    """A file with what is to be probed in it, or why nothing is; and its status by fstat(2).

    ``file``: its descriptor, which the receiver closes; None: it is closed, as it gets no probes.
    """

    path: str
    status: os.stat_result
    file: int | None
    result: Attachment | Refusal

    def close(self) -> None:
        """Close the file."""
        if self.file is not None:
            os.close(self.file)


class LongSearch(NamedTuple):
    """A file of ``size`` bytes in which the function ``wanted`` is searched, which takes long."""

    path: str
    size: int
    wanted: str


class FileAnalyzer:
    """Finds out where probes belong in files; a context manager.

    ``style``: how returns are seen.
    ``key_log``: whether to find where secrets can be seen, too.
    ``process``: its workers analyse the files that the cache does not know; by default a new one.
    ``fd``: pollable when a file may be finished.
    ``searches``: the long searches that began; the reader removes them.
    """

    def __init__(
        self,
        style: ReturnStyle = ReturnStyle.INSTRUCTIONS,
        process: AnalysisProcess | None = None,
        *,
        key_log: bool = False,
    ) -> None:
        self._style = style
        self._key_log = key_log
        self._process = process or AnalysisProcess()
        self._ready = select.epoll()
        self.fd = self._ready.fileno()
        self._system = Queue(self._process, self._ready, _QUICK_CPU_S, shares_worker=True)
        self._quick = Queue(self._process, self._ready, _QUICK_CPU_S)
        self._searched = Queue(self._process, self._ready, _SEARCH_CPU_S)
        self._slow = Queue(self._process, self._ready, _MOST_CPU_S)
        self._queues = (self._system, self._quick, self._searched, self._slow)
        self._finished: deque[AnalysedFile] = deque()
        self.searches: list[LongSearch] = []

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
        """How many files are not analysed yet."""
        return sum(map(len, self._queues))

    @property
    def is_busy(self) -> bool:
        """Whether ``results`` will yield a file, now or later."""
        return bool(self._finished or self.waiting)

    @property
    def is_quick(self) -> bool:
        """Whether a file may be finished soon: one that is not in the queue for slow files."""
        return bool(self._finished or len(self._system) + len(self._quick))

    @property
    def has_system_files(self) -> bool:
        """Whether a file of the system is not analysed yet: one that only root can have written."""
        return bool(len(self._system))

    @property
    def is_full(self) -> bool:
        """Whether no more files should be added now: all that wait are open."""
        return self.waiting >= _MOST_WAITING

    def prepare(self) -> None:
        """Do the slow imports now, before the first file needs them."""
        self._process.prepare()

    def add(self, path: str, file: int) -> None:
        """Find out where probes belong in the open ``file``, which ``results`` yields or closes.

        ``path``: its name in messages; its debug file is searched beside it, too.
        """
        status = os.fstat(file)
        known = result_cache.load(path, status, self._style, key_log=self._key_log)
        if known is not None and _is_in_code(known, file):
            _log("%s: known from the cache", path)
            self._finish(path, status, file, known)
        else:
            self._queue(Job(path, file, status, self._style, key_log=self._key_log))

    def collect(self) -> None:
        """Handle the answers that have come, and send workers the next files."""
        for queue in self._queues:
            for job, answer in queue.answers():
                self._handle_answer(job, answer, queue)

    def results(self) -> Iterator[AnalysedFile]:
        """Yield the files that are finished now, without waiting."""
        self.collect()
        while self._finished:
            yield self._finished.popleft()

    def wait(self, seconds: float) -> None:
        """Wait until a file may be finished, ``seconds`` at most."""
        if not self._finished:
            self._ready.poll(seconds)

    def close(self) -> None:
        """End the process, and close all files that were not yielded."""
        for queue in self._queues:
            queue.close()
        self._ready.close()
        self._process.close()
        for each in self._finished:
            each.close()
        self._finished.clear()

    def _queue(self, job: Job) -> None:
        queue = self._system if _is_of_system(job) else self._quick
        queue.add(job, is_urgent=Path(job.path).name.startswith(_LIKELY_NAMES))

    def _handle_answer(self, job: Job, answer: dict[str, Any] | None, queue: Queue) -> None:
        """Handle the answer of a worker of ``queue``; None: the worker died."""
        if queue is not self._slow and (answer is None or "over" in answer):
            _log("%s: not finished, tried again with more time: %s", job.path, answer)
            wanted = None if answer is None else answer.get("wants")
            if wanted in _SEARCHED and queue is not self._searched:
                self.searches.append(LongSearch(job.path, job.status.st_size, wanted))
                self._searched.add(job, is_urgent=False)
            else:
                self._slow.add(job, is_urgent=False)
            return
        checked = _checked(job, answer)
        if job.open_debug_files(checked.wanted):
            queue.add(job, is_urgent=True)
            return
        if checked.is_lasting:
            tried = result_cache.tried(checked.wanted, job.offers)
            result_cache.store(checked.plan, job.status, self._style, tried, key_log=self._key_log)
        job.close_debug_files()
        self._finish(job.path, job.status, job.file, checked.plan)

    def _finish(
        self, path: str, status: os.stat_result, file: int, plan: Attachment | Refusal
    ) -> None:
        if _log.is_on:
            for line in explained(plan):
                _log("%s: %s", path, line)
        if isinstance(plan, Attachment):
            self._finished.append(AnalysedFile(path, status, file, plan))
        else:
            os.close(file)
            self._finished.append(AnalysedFile(path, status, None, plan))


class _CheckedAnswer(NamedTuple):
    """A worker's answer after its check.

    ``wanted``: the debug file that the worker asks for.
    ``is_lasting``: another worker would give the same answer, so it is cached.
    """

    plan: Attachment | Refusal
    wanted: WantedDebugFile | None = None
    is_lasting: bool = True


def _checked(job: Job, answer: dict[str, Any] | None) -> _CheckedAnswer:
    """Check a worker's answer, which a hostile file may have forged."""
    try:
        if answer is None:
            return _failed("the process that did so ended")
        if "over" in answer:
            over = f"planning it takes more than {answer['over']}"
            return _CheckedAnswer(Refusal(over, is_tls=True, remedy=_REMEDY))
        if "failed" in answer:
            return _failed(answer["failed"])
        plan = result_cache.parse(answer["plan"], job.path, job.status.st_size)
        is_offered = plan.debug_file in (None, *(each.path for each in job.offers))
        if not (is_offered and _is_in_code(plan, job.file)):
            raise ValueError
        return _CheckedAnswer(plan, result_cache.parse_wanted(answer["wanted"]))
    except (OSError, *INVALID):
        return _failed("what was found out makes no sense")


def _failed(reason: str) -> _CheckedAnswer:
    refusal = Refusal(f"planning it failed ({reason})", is_tls=True, remedy=_REMEDY)
    return _CheckedAnswer(refusal, is_lasting=False)


def _is_in_code(plan: Attachment | Refusal, file: int) -> bool:
    """Say whether all probes of a plan are in a segment of code of the open file."""
    if isinstance(plan, Refusal):
        return True
    spans = code_spans(file)
    return all(
        any(start <= offset < start + size for start, size in spans) for offset in plan.offsets
    )


def _is_of_system(job: Job) -> bool:
    """Say whether only root can have written a file.

    The file belongs to root, is on a disk with the system's files, and is no file of a container.
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
