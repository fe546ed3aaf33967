"""The process that workers are forked from.

sslsniff forks it before it starts a thread or reads a byte of traffic. It waits, then imports what
workers need and drops all privileges. It never reads a file itself.

It gets orders on a socket, one in each message, and answers none:

- prepare, after a pause or at once;
- start a worker, with its number, its limit in seconds of CPU or 0, and its end of a socket;
- stop the worker with a number.
"""

import contextlib
import os
import select
import signal
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, Protocol

from sslsniff.core.garbage_collection import collector_off
from sslsniff.kernel import privileges

_ORDER = struct.Struct("<cII")
_PREPARE, _START, _STOP = b"p", b"s", b"k"
_PAUSE_S = 0.5  # a command that starts, or sslsniff if it ends at once, needs the processors first
_FIRST_TO_KILL = b"1000"  # proc(5), oom_score_adj: the first to be killed if memory is short


class WorkerProgram(Protocol):
    """The module that a worker runs."""

    def import_all(self) -> None:
        """Import the modules that a worker needs: it cannot open files later."""

    def run(self, channel: socket.socket, parent: int, cpu_s: int) -> NoReturn:
        """Run a worker, in the child of a fork, until ``channel`` is closed.

        ``cpu_s``: the limit in seconds of CPU; 0: each request has its own limit.
        """


def _file_analysis() -> WorkerProgram:
    from sslsniff.analysis import worker

    return worker


class AnalysisProcess:
    """Starts the process, and sends it orders.

    ``load_program``: imports what its workers run, in that process; by default ``worker``.
    """

    def __init__(self, load_program: Callable[[], WorkerProgram] = _file_analysis) -> None:
        self._orders, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._workers = 0
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _run(child_end.detach(), parent, load_program)
        child_end.close()

    def prepare(self, *, at_once: bool = False) -> None:
        """Let it import what workers need, and drop its privileges, in ``_PAUSE_S``.

        ``at_once``: now, because a worker is needed soon.
        """
        self._send(_PREPARE, value=int(at_once))

    def start_worker(self, cpu_s: int) -> tuple[int, socket.socket]:
        """Return the number of a new worker, and a socket to it: see ``worker``.

        ``cpu_s``: the worker's limit in seconds of CPU; 0: each request has its own limit.
        """
        self._workers += 1
        own_end, worker_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with worker_end:
            self._send(_START, self._workers, cpu_s, worker_end.fileno())
        return self._workers, own_end

    def stop_worker(self, number: int) -> None:
        """End a worker, also one that has ended by itself. Call it once for each."""
        self._send(_STOP, number)

    def close(self) -> None:
        """End it, and all workers."""
        if self._orders.fileno() < 0:
            return
        self._orders.close()
        # After sudo this process may not kill it: then it ends when its socket is closed.
        with contextlib.suppress(PermissionError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def _send(self, kind: bytes, number: int = 0, value: int = 0, *files: int) -> None:
        # If the process has ended, the caller notices it on the worker's socket.
        with contextlib.suppress(OSError):
            socket.send_fds(self._orders, [_ORDER.pack(kind, number, value)], files)


def _run(orders: int, parent: int, load_program: Callable[[], WorkerProgram]) -> NoReturn:
    """Run the process, in the child of a fork."""
    try:
        os.setsid()  # Ctrl-C is for sslsniff only
        for number in (
            signal.SIGINT,
            signal.SIGTERM,
            signal.SIGHUP,
            signal.SIGQUIT,
            signal.SIGUSR1,
        ):
            signal.signal(number, signal.SIG_DFL)
        os.closerange(0, orders)
        os.closerange(orders + 1, 1 << 30)
        for _ in range(3):
            os.open(os.devnull, os.O_RDWR)
        privileges.end_with(parent)
        _Forker(socket.socket(fileno=orders), parent, load_program).serve()
    finally:
        os._exit(0)


class _Forker:
    """Executes the orders: forks and ends workers."""

    def __init__(
        self, orders: socket.socket, parent: int, load_program: Callable[[], WorkerProgram]
    ) -> None:
        self._orders = orders
        self._parent = parent
        self._load_program = load_program
        self._pids: dict[int, int] = {}
        self._dying: set[int] = set()
        self._is_prepared = False

    def serve(self) -> None:
        is_to_prepare = False
        while True:
            pause_s = _PAUSE_S if is_to_prepare or self._dying else None
            if not select.select([self._orders], [], [], pause_s)[0]:
                if is_to_prepare:
                    self._prepare()
                is_to_prepare = False
                self._reap()
                continue
            order, files, _, _ = socket.recv_fds(self._orders, _ORDER.size, 1)
            if not order:
                return  # sslsniff has ended, and workers end with this process
            kind, number, value = _ORDER.unpack(order)
            if kind == _PREPARE and not value:
                is_to_prepare = True
            elif kind == _PREPARE:
                self._prepare()
            elif kind == _STOP:
                self._stop(number)
            else:
                self._prepare()
                self._start(number, value, files[0])

    def _prepare(self) -> None:
        if self._is_prepared:
            return
        with collector_off():
            self._load_program().import_all()
            with contextlib.suppress(OSError):
                Path("/proc/self/oom_score_adj").write_bytes(_FIRST_TO_KILL)
            privileges.drop_all_and_user()
            privileges.end_with(self._parent)
        self._is_prepared = True

    def _start(self, number: int, cpu_s: int, file: int) -> None:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            os.close(file)
            return
        if pid:
            self._pids[number] = pid
            os.close(file)
            return
        self._orders.close()
        self._load_program().run(socket.socket(fileno=file), parent, cpu_s)

    def _stop(self, number: int) -> None:
        pid = self._pids.pop(number, None)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            # This does not wait: the worker may be reading from a disk that does not answer.
            self._dying.add(pid)

    def _reap(self) -> None:
        self._dying = {each for each in self._dying if os.waitpid(each, os.WNOHANG) == (0, 0)}
