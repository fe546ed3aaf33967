"""Queues files for a worker, which analyses them."""

import contextlib
import json
import os
import select
import socket
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from sslsniff.analysis.analysis_process import AnalysisProcess
from sslsniff.analysis.worker_messages import LARGEST_MESSAGE_BYTES
from sslsniff.elf.debug_files import Offer, open_offers
from sslsniff.elf.wanted_files import WantedDebugFile
from sslsniff.matching.probe_set import ReturnStyle

_MOST_JOB_S = 60.0
"""How long a job may take, by the clock: its disk may not answer."""

_MOST_JOBS = 32
"""How many jobs a shared worker has at once."""

_MOST_IDLE_S = 2.0
"""How long a shared worker waits for a job: a program that starts maps one file after another."""


class Job:
    """A file to plan: its path in messages, its open descriptor, and its status by fstat(2).

    ``offers`` are open files that may be its debug file.
    """

    def __init__(
        self,
        path: str,
        file: int,
        status: os.stat_result,
        style: ReturnStyle,
        *,
        key_log: bool = False,
    ) -> None:
        self.path = path
        self.file = file
        self.status = status
        self.style = style
        self.key_log = key_log
        self.offers: list[Offer] = []
        self._has_tried_debug_files = False
        self._opened = contextlib.ExitStack()

    def open_debug_files(self, wanted: WantedDebugFile | None) -> bool:
        """Open the files that may be the ``wanted`` debug file, once; False: there are none."""
        if wanted is None or self._has_tried_debug_files:
            return False
        self._has_tried_debug_files = True
        self.offers = open_offers(self.path, self.status.st_uid, wanted, self._opened)
        return bool(self.offers)

    def close_debug_files(self) -> None:
        """Close the offered debug files."""
        self._opened.close()

    def close(self) -> None:
        """Close the file and the offered debug files."""
        self._opened.close()
        os.close(self.file)


class _Worker:
    """A running worker: its number, the socket to it, and its jobs.

    ``deadline_s``, on the monotonic clock: when its first job must be finished, or without jobs,
    when it is ended.
    """

    def __init__(self, number: int, channel: socket.socket) -> None:
        self.number = number
        self.socket = channel
        self.jobs: deque[Job] = deque()
        self.restart_deadline()

    def restart_deadline(self) -> None:
        """Set the deadline of the next job, or of the wait for one."""
        most_s = _MOST_JOB_S if self.jobs else _MOST_IDLE_S
        self.deadline_s = time.monotonic() + most_s


class Queue:
    """A queue of jobs with ``cpu_s`` seconds of CPU for each.

    ``ready``: an epoll object, which the workers' sockets are added to.
    ``shares_worker``: one worker analyses many files. Else each file has a worker of its own, so
    that a hostile file cannot forge the answer about another.
    """

    def __init__(
        self,
        process: AnalysisProcess,
        ready: select.epoll,
        cpu_s: int,
        *,
        shares_worker: bool = False,
    ) -> None:
        self.cpu_s = cpu_s
        self._process = process
        self._ready = ready
        self._shares_worker = shares_worker
        self._waiting: deque[Job] = deque()
        self._worker: _Worker | None = None

    def __len__(self) -> int:
        return len(self._waiting) + (len(self._worker.jobs) if self._worker else 0)

    def add(self, job: Job, *, is_urgent: bool) -> None:
        """Add a job: an urgent one before all that wait, any other after them."""
        if is_urgent:
            self._waiting.appendleft(job)
        else:
            self._waiting.append(job)
        self._send()

    def answers(self) -> Iterator[tuple[Job, dict[str, Any] | None]]:
        """Yield the jobs that are over, each with its answer; None: the worker died."""
        self._end_idle()
        while (worker := self._worker) is not None and worker.jobs:
            try:
                answer = worker.socket.recv(LARGEST_MESSAGE_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                if time.monotonic() < worker.deadline_s:
                    return
                answer = b""
            except OSError:
                answer = b""
            job = worker.jobs.popleft()
            if not answer or not self._shares_worker:
                self._end_worker()
            self._send()
            worker.restart_deadline()
            yield job, _parsed(answer)

    def _end_idle(self) -> None:
        """End a worker without jobs, if it was idle for too long or has ended by itself."""
        worker = self._worker
        if worker is None or worker.jobs:
            return
        try:
            worker.socket.recv(1, socket.MSG_DONTWAIT)
            is_over = True
        except BlockingIOError:
            is_over = time.monotonic() >= worker.deadline_s
        except OSError:
            is_over = True
        if is_over:
            self._end_worker()

    def close(self) -> None:
        """End the worker, and close the jobs that wait."""
        self._end_worker()
        while self._waiting:
            self._waiting.popleft().close()

    def _send(self) -> None:
        """Send the worker the next jobs, up to its limit; start one if there is none."""
        while self._waiting and self._has_room():
            worker = self._worker or self._start_worker()
            job = self._waiting.popleft()
            request = {
                "path": job.path,
                "style": job.style.value,
                "key_log": job.key_log,
                "cpu_s": self.cpu_s,
                "debug": [each.path for each in job.offers],
            }
            files = [job.file, *(each.file for each in job.offers)]
            try:
                socket.send_fds(
                    worker.socket, [json.dumps(request).encode()], files, socket.MSG_DONTWAIT
                )
            except BlockingIOError:
                self._waiting.appendleft(job)
                return
            except OSError:
                pass  # it died: there will be no answer
            worker.jobs.append(job)
            if len(worker.jobs) == 1:
                worker.restart_deadline()

    def _has_room(self) -> bool:
        jobs = len(self._worker.jobs) if self._worker else 0
        return jobs < (_MOST_JOBS if self._shares_worker else 1)

    def _start_worker(self) -> _Worker:
        cpu_s = 0 if self._shares_worker else self.cpu_s
        number, channel = self._process.start_worker(cpu_s)
        self._ready.register(channel, select.EPOLLIN)
        self._worker = _Worker(number, channel)
        return self._worker

    def _end_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.socket.close()
            self._process.stop_worker(worker.number)
            self._waiting.extendleft(reversed(worker.jobs))


def _parsed(answer: bytes) -> dict[str, Any] | None:
    try:
        parsed = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None
