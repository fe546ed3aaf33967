"""Places, hits and calls of an imagined program, for tests of what becomes of them."""

from sslsniff.fetching.fetch import Fetch
from sslsniff.fetching.hit_records import Hit
from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.fetching.traced_values import Value
from sslsniff.functions.outputs.thread_names import ThreadNames
from sslsniff.functions.outputs.traced_call import CallSink, TracedCall
from sslsniff.machine_code.probe_sites import Cost

START_NS = 1_763_700_000_123_456_789
PATH = "/bin/demo"
ENTRY, RETURN, INLINED = PlaceKind.ENTRY, PlaceKind.RETURN, PlaceKind.INLINED
RESULT = PlaceKind.INLINED_RESULT


def byte(name: str) -> Fetch:
    """Return a fetch of one byte."""

    def decode(data: bytes, failed: int) -> Value:
        return data[0]

    return Fetch((), 1, {name: decode})


def place(kind: PlaceKind, function: str, **more: object) -> Place:
    fetch = byte("result") if kind in (RETURN, PlaceKind.INLINED_RESULT) else byte("n")
    fields: dict[str, object] = {"address": 0x1000, "offset": 0x1000, "cost": Cost.EMULATED}
    fields |= {"path": PATH, "fetch": fetch, "file": "/src/demo.c", "line": 7}
    return Place(kind=kind, function=function, **(fields | more))  # type: ignore[arg-type]


class Named(ThreadNames):
    """Threads of an imagined machine."""

    def __init__(self) -> None:
        super().__init__()
        self.name = {7: "demo", 8: "worker"}.get  # type: ignore[assignment]


def hit(
    time_ns: int,
    place: int,
    stack: int,
    data: bytes = b"\x01",
    *,
    pid: int = 7,
    tid: int = 7,
    task: int = 0,
    dropped: int = 0,
) -> Hit:
    return Hit(time_ns, pid, tid, place, stack, task, 0, dropped, data)


class Journal(CallSink):
    """Remembers what came, in words: ``-> name depth`` and ``<- name depth result duration``."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.entered_calls: list[TracedCall] = []
        self.ended_calls: list[TracedCall] = []

    def entered(self, call: TracedCall) -> None:
        self.entered_calls.append(call)
        self.lines.append(f"-> {call.place.function} {call.depth}")

    def ended(self, call: TracedCall) -> None:
        self.ended_calls.append(call)
        result = call.result if call.has_result else "?"
        duration = "?" if call.duration_ns is None else call.duration_ns
        self.lines.append(f"<- {call.place.function} {call.depth} {result} {duration}")
