"""Which calls served an exchange? Those of the task that read its request, until the response.

A *task* is a goroutine, a task of an async runtime, or else a thread. A call belongs to an exchange
only if that is known:

- one task alone wrote the response, and it read bytes of the request, too. Its calls count from the
  first byte of the request that it read until the last byte of the response that it wrote.
- in that time the task had no request of another connection, as an event loop has.
- the exchange was the only open one of its connection. So it is never known for HTTP/2.
- no exchange of the process was passed by several threads before, as a pool that threads share
  does: there a thread may go on with another request. Tasks are not shared like that.

Bytes of connections on which the process is the client do not matter: a handler may ask other
servers. Bytes are noted in the order of the ring buffer; an exchange may be reported later, as
events of rustls wait until their connection is known.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import NamedTuple

from sslsniff.core.events import BytesPassed
from sslsniff.core.model import Connection, Direction, Exchange
from sslsniff.decoders.messages import Side
from sslsniff.functions.outputs.traced_call import TracedCall

MOST_CALLS = 65_536
"""Calls of requests that are not answered yet; beyond, those of the task idle for longest go."""
MOST_TASKS = 16_384
MOST_REQUESTS = 256
"""Connections whose requests a task read; beyond, the oldest is forgotten."""


_UNKNOWN = 0  # the number of no task


class TaskKey(NamedTuple):
    """A thread, or if ``is_task`` what an async runtime or Go numbers in its process."""

    pid: int
    number: int
    is_task: bool


@dataclass(slots=True)
class _TaskRequest:
    """When a task read bytes of a connection, and when that connection's exchange ended.

    ``previous_ns``: the end of the exchange before it.
    """

    first_ns: int
    last_ns: int
    ended_ns: int | None = None
    previous_ns: int = 0

    def overlaps(self, window: "_Window") -> bool:
        is_over = self.ended_ns is not None and self.ended_ns < window.start_ns
        return self.previous_ns >= window.start_ns or (
            self.first_ns <= window.end_ns and not is_over
        )


@dataclass(slots=True)
class _TaskLog:
    requests: OrderedDict[int, _TaskRequest] = field(default_factory=OrderedDict)
    """By the number of the connection."""
    calls: deque[TracedCall] = field(default_factory=deque)
    forgotten_ns: int = 0
    """What happened before this time is not known completely."""


@dataclass(slots=True)
class _PassedRun:
    """Bytes that one task passed in one direction, without others in between."""

    task: TaskKey
    direction: Direction
    first_ns: int
    last_ns: int


@dataclass(slots=True)
class _ConnectionLog:
    """``connection``: None until its first bytes were decoded."""

    connection: Connection | None = None
    runs: list[_PassedRun] = field(default_factory=list)
    tasks: set[TaskKey] = field(default_factory=set)


class _Window(NamedTuple):
    """From when until when which task served an exchange."""

    task: TaskKey
    start_ns: int
    end_ns: int


class ServedCalls:
    """Collects calls until the exchange ends that they served.

    ``has_tasks``: the program's threads run goroutines or tasks: what a thread does is not known to
    belong together. ``entered`` counts the calls, ``served`` those that an exchange got.
    """

    def __init__(self, *, has_tasks: bool) -> None:
        self.entered = 0
        self.served = 0
        self._has_tasks = has_tasks
        self._tasks: OrderedDict[TaskKey, _TaskLog] = OrderedDict()
        self._connections: dict[int, _ConnectionLog] = {}
        self._numbers: dict[str, set[int]] = {}
        """The kernel's numbers of each connection, by its id."""
        self._ends_ns: dict[str, int] = {}
        """When the last exchange of each connection ended, by its id."""
        self._count = 0
        self._sharing: set[int] = set()
        """Processes with an exchange that several threads passed."""

    def note_bytes(self, passed: BytesPassed) -> None:
        """Note bytes, in the order of the ring buffer."""
        key = self._key(passed.pid, passed.tid, passed.task)
        if key is None:
            key = TaskKey(passed.pid, _UNKNOWN, is_task=True)
        connection = self._connections.setdefault(passed.connection, _ConnectionLog())
        connection.tasks.add(key)
        runs = connection.runs
        if runs and (runs[-1].task, runs[-1].direction) == (key, passed.direction):
            runs[-1].last_ns = passed.time_ns
        else:
            runs.append(_PassedRun(key, passed.direction, passed.time_ns, passed.time_ns))
            del runs[:-MOST_REQUESTS]
        if passed.direction is Direction.READ:
            self._note_request(self._task(key), passed)

    def enter(self, call: TracedCall) -> None:
        """Note a call that began, in the order of the ring buffer."""
        self.entered += 1
        key = self._key(call.pid, call.tid, call.task or 0)
        task = None if key is None else self._tasks.get(key)
        if task is None or all(each.ended_ns is not None for each in task.requests.values()):
            return
        task.calls.append(call)
        self._count += 1
        while self._count > MOST_CALLS:
            self._forget_oldest(call.time_ns)

    def join(self, connection: Connection, number: int) -> None:
        """Note that the kernel's number of a connection, or of one direction, is that of this."""
        log = self._connections.get(number)
        if log is not None:
            log.connection = connection
            self._numbers.setdefault(connection.id, set()).add(number)

    def end_exchange(self, exchange: Exchange, *, is_alone: bool) -> list[TracedCall] | None:
        """Return the calls that served an exchange, which has ended; None: that is not known.

        ``is_alone``: no other exchange of its connection is open.
        """
        connection, ended_ns = exchange.connection, exchange.ended_ns or exchange.started_ns
        if connection.role is not Side.SERVER:
            return None
        numbers = self._numbers.get(connection.id, set())
        window = self._window(exchange, ended_ns, numbers) if exchange.stream is None else None
        is_known = window is not None and is_alone and self._is_known(window, numbers)
        served = self._take(window) if window is not None else []
        self._end_requests(connection, ended_ns, numbers)
        if not is_known:
            return None
        self.served += len(served)
        return served

    def close(self, connection: Connection) -> None:
        """Forget a connection that was closed; its exchanges have ended."""
        self._ends_ns.pop(connection.id, None)
        for number in self._numbers.pop(connection.id, ()):
            log = self._connections.pop(number, None)
            for key in log.tasks if log is not None else ():
                task = self._tasks.get(key)
                if task is not None:
                    task.requests.pop(number, None)
                    self._drop_unserved(task)

    def end_process(self, pid: int) -> None:
        """Forget a process that ended, after its connections were closed."""
        self._sharing.discard(pid)
        for key in [each for each in self._tasks if each.pid == pid]:
            self._count -= len(self._tasks.pop(key).calls)
        for number, log in list(self._connections.items()):
            if any(key.pid == pid for key in log.tasks):
                del self._connections[number]

    def _key(self, pid: int, tid: int, task: int) -> TaskKey | None:
        if task:
            return TaskKey(pid, task, is_task=True)
        return None if self._has_tasks else TaskKey(pid, tid, is_task=False)

    def _task(self, key: TaskKey) -> _TaskLog:
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = _TaskLog()
            if len(self._tasks) > MOST_TASKS:
                _, oldest = self._tasks.popitem(last=False)
                self._count -= len(oldest.calls)
        self._tasks.move_to_end(key)
        return task

    def _note_request(self, task: _TaskLog, passed: BytesPassed) -> None:
        request = task.requests.get(passed.connection)
        if request is not None and request.ended_ns is None:
            request.last_ns = passed.time_ns
            return
        previous_ns = (request.ended_ns or 0) if request is not None else 0
        new = _TaskRequest(passed.time_ns, passed.time_ns, previous_ns=previous_ns)
        task.requests[passed.connection] = new
        if len(task.requests) > MOST_REQUESTS:
            task.requests.popitem(last=False)
            task.forgotten_ns = passed.time_ns

    def _window(self, exchange: Exchange, ended_ns: int, numbers: set[int]) -> _Window | None:
        """Return which task served an exchange when; None: several tasks did, or it is unknown."""
        previous_ns = self._ends_ns.get(exchange.connection.id, 0)
        runs = [
            run
            for number in numbers
            for run in self._connections[number].runs
            if run.last_ns > previous_ns and run.first_ns <= ended_ns
        ]
        if len({run.task for run in runs if not run.task.is_task}) > 1:
            self._sharing.add(runs[0].task.pid)
        reads = [run for run in runs if run.direction is Direction.READ]
        writes = [run for run in runs if run.direction is Direction.WRITE]
        tasks = {run.task for run in writes or reads}
        starts_ns = [run.first_ns for run in reads if run.task in tasks]
        if len(tasks) != 1 or not starts_ns:
            return None
        (task,) = tasks
        if task.number == _UNKNOWN:
            return None
        end_ns = max((run.last_ns for run in writes), default=ended_ns)
        return _Window(task, max(min(starts_ns), previous_ns), min(end_ns, ended_ns))

    def _is_known(self, window: _Window, numbers: set[int]) -> bool:
        """Say whether the task of a window had only the request of these numbers in it."""
        task = self._tasks.get(window.task)
        if task is None or window.start_ns <= task.forgotten_ns:
            return False
        if not window.task.is_task and window.task.pid in self._sharing:
            return False
        return not any(
            request.overlaps(window) and not self._is_client(number)
            for number, request in task.requests.items()
            if number not in numbers
        )

    def _is_client(self, number: int) -> bool:
        log = self._connections.get(number)
        return log is not None and log.connection is not None and log.connection.role is Side.CLIENT

    def _take(self, window: _Window) -> list[TracedCall]:
        """Remove the calls of a task up to the end of a window; return those in the window."""
        task = self._tasks.get(window.task)
        taken = []
        while task is not None and task.calls and task.calls[0].time_ns <= window.end_ns:
            call = task.calls.popleft()
            self._count -= 1
            if call.time_ns >= window.start_ns:
                taken.append(call)
        return taken

    def _end_requests(self, connection: Connection, ended_ns: int, numbers: set[int]) -> None:
        """Note that what tasks read of a connection until ``ended_ns`` was answered."""
        self._ends_ns[connection.id] = ended_ns
        for number in numbers:
            log = self._connections[number]
            log.runs = [run for run in log.runs if run.last_ns > ended_ns]
            for key in log.tasks:
                task = self._tasks.get(key)
                request = task.requests.get(number) if task is not None else None
                if request is None or task is None or request.ended_ns is not None:
                    continue
                if request.last_ns > ended_ns:  # the next request has begun
                    request.first_ns = request.previous_ns = ended_ns
                else:
                    request.ended_ns = ended_ns
                    task.requests.move_to_end(number)
                    self._drop_unserved(task)

    def _drop_unserved(self, task: _TaskLog) -> None:
        """Drop the calls of a task that has no request any more."""
        if all(each.ended_ns is not None for each in task.requests.values()):
            self._count -= len(task.calls)
            task.calls.clear()

    def _forget_oldest(self, now_ns: int) -> None:
        """Drop the calls of the task that read nothing for the longest time, of those with any."""
        task = next(each for each in self._tasks.values() if each.calls)
        self._count -= len(task.calls)
        task.calls.clear()
        task.forgotten_ns = now_ns
