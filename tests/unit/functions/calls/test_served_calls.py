"""Which calls served which exchange, by the order of bytes, calls and ends."""

from typing import NamedTuple

import pytest

from sslsniff.core.events import BytesPassed
from sslsniff.core.model import Connection, Direction, Exchange
from sslsniff.core.process import Process
from sslsniff.decoders.messages import Side
from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.functions.calls import served_calls
from sslsniff.functions.calls.served_calls import ServedCalls
from sslsniff.functions.outputs.traced_call import TracedCall
from sslsniff.machine_code.probe_sites import Cost

PID = 100
PLACE = Place(PlaceKind.ENTRY, "handle", "/program", 0x1000, 0x1000, Cost.EMULATED)

A, B, C = "A", "B", "C"
NUMBERS = {A: (1,), B: (2,), C: (3,), "halves": (4, 5)}
UNKNOWN = None


class Step(NamedTuple):
    """``task``: a goroutine if it is at least 1000, else a thread; 0: not known."""

    kind: str
    task: int = 0
    connection: str = ""


def read(task: int, connection: str) -> Step:
    return Step("read", task, connection)


def write(task: int, connection: str) -> Step:
    return Step("write", task, connection)


def call(task: int) -> Step:
    return Step("call", task)


def end(connection: str) -> Step:
    return Step("end", 0, connection)


def end_pipelined(connection: str) -> Step:
    return Step("end pipelined", 0, connection)


def end_stream(connection: str) -> Step:
    return Step("end stream", 0, connection)


def close(connection: str) -> Step:
    return Step("close", 0, connection)


class Run:
    """Runs steps, one a nanosecond. A call is known by the number of its step."""

    def __init__(self, *, has_tasks: bool, clients: tuple[str, ...] = ()) -> None:
        self.served = ServedCalls(has_tasks=has_tasks)
        self.found: list[tuple[str, list[int] | None]] = []
        process = Process(PID, "server")
        self.connections = {
            name: Connection(
                name, process, "openssl", Side.CLIENT if name in clients else Side.SERVER, True, 0
            )
            for name in NUMBERS
        }
        self.started_ns: dict[str, int] = {}

    def run(self, steps: list[Step]) -> None:
        for time_ns, step in enumerate(steps, 1):
            self._step(time_ns, step)

    def _step(self, time_ns: int, step: Step) -> None:
        tid, task = (7, step.task) if step.task >= 1000 else (step.task or 7, 0)
        if step.kind == "call":
            self.served.enter(TracedCall(PLACE, time_ns, PID, tid, task or None, 0))
            return
        connection = self.connections[step.connection]
        if step.kind in ("read", "write"):
            direction = Direction(step.kind)
            numbers = NUMBERS[step.connection]
            number = numbers[-1] if step.kind == "write" else numbers[0]
            self.served.note_bytes(BytesPassed(time_ns, PID, tid, task, number, direction))
            self.served.join(connection, number)
        elif step.kind == "close":
            self.served.close(connection)
        else:
            stream = 1 if step.kind == "end stream" else None
            exchange = Exchange(connection, "http/1.1", stream, tid, 0, ended_ns=time_ns - 1)
            is_alone = step.kind != "end pipelined"
            calls = self.served.end_exchange(exchange, is_alone=is_alone)
            times = None if calls is None else [each.time_ns for each in calls]
            self.found.append((step.connection, times))


THREADS = {
    "one request": (
        [call(8), read(8, A), call(8), call(8), write(8, A), end(A)],
        [(A, [3, 4])],
    ),
    "another thread's calls": (
        [read(8, A), call(9), call(8), write(8, A), end(A)],
        [(A, [3])],
    ),
    "calls between two requests": (
        [
            *[read(8, A), call(8), write(8, A), end(A), call(8)],
            *[read(8, A), call(8), write(8, A), end(A)],
        ],
        [(A, [2]), (A, [7])],
    ),
    "calls after the last byte of the response": (
        [read(8, A), write(8, A), call(8), end(A)],
        [(A, [])],
    ),
    "a body in pieces, and a response in pieces": (
        [read(8, A), call(8), read(8, A), call(8), write(8, A), call(8), write(8, A), end(A)],
        [(A, [2, 4, 6])],
    ),
    "two threads at once": (
        [
            *[read(8, A), read(9, B), call(8), call(9), call(8)],
            *[write(9, B), end(B), write(8, A), end(A)],
        ],
        [(B, [4]), (A, [3, 5])],
    ),
    "one thread, one connection after the other": (
        [read(8, A), call(8), write(8, A), end(A), read(8, B), call(8), write(8, B), end(B)],
        [(A, [2]), (B, [6])],
    ),
    "an event loop with two open requests": (
        [
            *[read(8, A), call(8), read(8, B), call(8), write(8, B), end(B)],
            *[call(8), write(8, A), end(A), read(8, A), call(8), write(8, A), end(A)],
        ],
        [(B, UNKNOWN), (A, UNKNOWN), (A, [11])],
    ),
    "an event loop that ends the first request first": (
        [
            *[read(8, A), read(8, B), call(8), write(8, A), end(A)],
            *[call(8), write(8, B), end(B)],
        ],
        [(A, UNKNOWN), (B, UNKNOWN)],
    ),
    "a request that another thread answers": (
        [read(8, A), call(8), call(9), write(9, A), end(A)],
        [(A, UNKNOWN)],
    ),
    "a response of two threads": (
        [read(8, A), call(8), write(8, A), write(9, A), end(A)],
        [(A, UNKNOWN)],
    ),
    "the first byte was read by another thread": (
        [read(9, A), read(8, A), call(8), write(8, A), end(A)],
        [(A, UNKNOWN)],
    ),
    "a pool whose threads go on with each other's requests": (
        [
            *[read(8, A), call(8), write(9, A), end(A)],
            *[read(8, B), call(8), write(8, B), end(B)],
        ],
        [(A, UNKNOWN), (B, UNKNOWN)],
    ),
    "a pool in which a thread serves a whole request": (
        [
            *[read(8, A), call(8), write(8, A), end(A)],
            *[read(9, A), call(9), write(9, A), end(A)],
        ],
        [(A, [2]), (A, [6])],
    ),
    "no response": ([read(8, A), call(8), end(A)], [(A, [2])]),
    "the capture joined after the request": ([call(8), write(8, A), end(A)], [(A, UNKNOWN)]),
    "pipelined requests": (
        [read(8, A), call(8), write(8, A), end_pipelined(A), call(8), write(8, A), end(A)],
        [(A, UNKNOWN), (A, UNKNOWN)],
    ),
    "streams of HTTP/2": (
        [read(8, A), call(8), write(8, A), end_stream(A)],
        [(A, UNKNOWN)],
    ),
    "a request that was closed, then another one": (
        [read(8, A), call(8), close(A), read(8, B), call(8), write(8, B), end(B)],
        [(B, [5])],
    ),
    "an exchange that is reported after the next request began": (
        [read(8, A), call(8), write(8, A), read(8, A), call(8), write(8, A)],
        [],
    ),
    "directions with numbers of their own": (
        [read(8, "halves"), call(8), write(8, "halves"), end("halves")],
        [("halves", [2])],
    ),
}


@pytest.mark.parametrize("name", THREADS)
def test_threads(name: str) -> None:
    steps, expected = THREADS[name]
    run = Run(has_tasks=False)
    run.run(steps)
    assert run.found == expected


TASKS = {
    "two tasks on one thread": (
        [
            *[read(1001, A), call(1001), read(1002, B), call(1002), call(1001)],
            *[write(1002, B), end(B), call(1001), write(1001, A), end(A)],
        ],
        [(B, [4]), (A, [2, 5, 8])],
    ),
    "the first byte was read by another task": (
        [read(1002, A), read(1001, A), call(1001), write(1001, A), end(A)],
        [(A, [3])],
    ),
    "calls without a task": (
        [read(1001, A), call(7), call(1001), write(1001, A), end(A)],
        [(A, [3])],
    ),
    "bytes without a task": (
        [read(0, A), call(1001), write(0, A), end(A)],
        [(A, UNKNOWN)],
    ),
}


@pytest.mark.parametrize("name", TASKS)
def test_tasks(name: str) -> None:
    steps, expected = TASKS[name]
    run = Run(has_tasks=True)
    run.run(steps)
    assert run.found == expected


def test_a_handler_asks_another_server() -> None:
    run = Run(has_tasks=False, clients=(B,))
    run.run(
        [
            *[read(8, A), call(8), write(8, B), call(8), read(8, B), end(B)],
            *[call(8), write(8, A), end(A)],
        ]
    )
    assert run.found == [(B, UNKNOWN), (A, [2, 4, 7])]
    assert (run.served.entered, run.served.served) == (3, 3)


def test_an_exchange_reported_late() -> None:
    """The next request of the connection was read before the end of the exchange was known."""
    run = Run(has_tasks=False)
    run.run([read(8, A), call(8), write(8, A), read(8, A), call(8), write(8, A)])
    connection = run.connections[A]
    first = Exchange(connection, "http/1.1", None, 8, 1, ended_ns=3)
    second = Exchange(connection, "http/1.1", None, 8, 4, ended_ns=6)
    found = [run.served.end_exchange(each, is_alone=True) for each in (first, second)]
    assert [[call.time_ns for call in calls or ()] for calls in found] == [[2], [5]]


def test_calls_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_calls, "MOST_CALLS", 10)
    run = Run(has_tasks=False)
    run.run([read(8, A), *[call(8)] * 5, read(9, B), *[call(9)] * 9, write(9, B), end(B)])
    run.run([end(A)])
    assert run.found == [(B, list(range(8, 17))), (A, UNKNOWN)]


def test_tasks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_calls, "MOST_TASKS", 1)
    run = Run(has_tasks=False)
    run.run([read(8, A), call(8), read(9, B), call(9), write(9, B), end(B), write(8, A), end(A)])
    assert run.found == [(B, [4]), (A, UNKNOWN)]


def test_requests_of_a_task_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_calls, "MOST_REQUESTS", 1)
    run = Run(has_tasks=False)
    run.run([read(8, A), read(8, B), call(8), write(8, B), end(B)])
    assert run.found == [(B, UNKNOWN)]


def test_nothing_stays_of_an_ended_process() -> None:
    run = Run(has_tasks=False)
    run.run([read(8, A), call(8), write(8, A), end(A), read(8, B), call(8), close(A)])
    run.served.end_process(PID)
    assert not run.served._tasks
    assert not run.served._connections
    assert not run.served._count
