"""Reads and writes the maps of the programs that trace functions.

Layouts are those of ``bpf/fetch.bpf.h`` and ``bpf/functions.bpf.h``.
"""

import struct
from enum import Enum, IntEnum
from typing import NamedTuple

from sslsniff.fetching.fetch_steps import (
    MOST_DATA_BYTES,
    MOST_STEPS,
    FetchStep,
    StepKind,
    encode,
)
from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.kernel.loaders.loader import Loader

DATA_SIZES = (64, 192, 384, 1024, MOST_DATA_BYTES)
"""For each there is a BPF program, whose hits have room for so many bytes."""
STACK_DATA_SIZES = (256, MOST_DATA_BYTES)
"""The same, of the programs that also copy the thread's stack."""

BUCKETS = 64

_FETCH = struct.Struct("<IIII")
_STEP_BYTES = 8
_RATE = struct.Struct("<QQQQ")
_COUNT = struct.Struct("<Q")
_HISTOGRAM = struct.Struct(f"<{BUCKETS}Q")
_U32 = struct.Struct("<I")


class Use(Enum):
    """What hits are used for."""

    REPORT = "report"
    COUNT = "count"
    HISTOGRAM = "histogram"
    """The time of calls, from their entry to their return."""
    STACK = "stack"
    """Hits are reported, those that begin a call with the thread's stack."""


class _Action(IntEnum):
    """``enum action`` of bpf/fetch.bpf.h."""

    REPORT = 0
    COUNT = 1
    BEGIN = 2
    END = 3
    BEGIN_AND_END = 4


_ACTIONS = {
    **{(use, kind): _Action.REPORT for kind in PlaceKind for use in (Use.REPORT, Use.STACK)},
    (Use.HISTOGRAM, PlaceKind.ENTRY): _Action.BEGIN,
    (Use.HISTOGRAM, PlaceKind.RETURN): _Action.END,
}
_WITHOUT_RECORD = {
    Use.COUNT: {StepKind.KEEP_IF},
    Use.HISTOGRAM: {StepKind.KEEP_IF, StepKind.STACK},
}
"""The steps that matter where hits are not reported, with all that is before them."""


class ProbedPlace(NamedTuple):
    """What the BPF programs do at a place. ``program``: the name of the one for it."""

    program: str
    steps: tuple[FetchStep, ...]
    data_bytes: int
    action: int


def probed_place(place: Place, use: Use, *, waits: bool = False) -> ProbedPlace:
    """Return what is done at a place; raises ``ValueError`` if it fetches too much.

    ``waits``: hits wait until the kernel has mapped memory that the process has never used.
    """
    kind = "wait" if waits else "hit"
    steps, size = place.fetch.steps, place.fetch.data_bytes
    action = _ACTIONS.get((use, place.kind), _Action.COUNT)
    if action is _Action.BEGIN and place.returns_at_once:
        action = _Action.BEGIN_AND_END
    if use in _WITHOUT_RECORD:
        needed = [at for at, step in enumerate(steps, 1) if step.kind in _WITHOUT_RECORD[use]]
        steps = steps[: max(needed, default=0)]
        if not steps:
            return ProbedPlace("function_count", (), 0, action)
    has_stack = use is Use.STACK and not place.kind.ends_call
    if has_stack:
        kind += "_stack"
    for room in STACK_DATA_SIZES if has_stack else DATA_SIZES:
        if size <= room:
            return ProbedPlace(f"function_{kind}_{room}", steps, size, action)
    raise ValueError(f"{size} bytes to fetch; {MOST_DATA_BYTES} at most")


class FetchTables:
    """The maps of loaded programs. Everything here raises ``KernelError``."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def write(self, index: int, place: ProbedPlace, function: int) -> None:
        """Write what is done at the place with an index; ``function``: index of its histogram.

        Raises ``ValueError`` for too many steps.
        """
        steps = encode(place.steps).ljust(MOST_STEPS * _STEP_BYTES, b"\0")
        row = _FETCH.pack(place.data_bytes, place.action, function, 0) + steps
        self._loader.update("fetches", _U32.pack(index), row)

    def limit_rate(self, most_hits: int) -> None:
        """Let at most so many hits be reported in a second; 0: all."""
        self._loader.update("rates", _U32.pack(0), _RATE.pack(most_hits, 0, 0, 0))

    def count(self, index: int) -> int:
        """Return how often the place with an index was hit."""
        value = self._loader.lookup("counts", _U32.pack(index), _COUNT.size)
        return int(_COUNT.unpack(value or bytes(_COUNT.size))[0])

    def histogram(self, function: int) -> list[int]:
        """Return how many calls took 1 ns, 2 to 3 ns, 4 to 7 ns, and so on."""
        value = self._loader.lookup("histograms", _U32.pack(function), _HISTOGRAM.size)
        return list(_HISTOGRAM.unpack(value or bytes(_HISTOGRAM.size)))
