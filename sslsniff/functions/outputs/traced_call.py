"""A call of a function as it was traced, and what shows or stores such calls."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sslsniff.core.model import Exchange
from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.fetching.traced_values import Value
from sslsniff.functions.stacks.stack_trace import StackTrace


@dataclass(slots=True)
class TracedCall:
    """A call, or a hit of a line or static probe.

    ``place``: of its entry.
    ``time_ns``: of its entry, since the epoch; ``duration_ns``: until its return, None: not seen.
    The second of a pair of static probes has the time since the first one as its duration.
    ``task``: the goroutine, or the task of an async runtime; None: it has none.
    ``depth``: how many traced calls it is inside of.
    ``result``: None also if it has none; ``has_result`` says whether it was read.
    ``is_result_inferred``: the result of an inlined call was taken from a variable of its caller.
    ``is_end_doubtful``: hits were dropped while it was open: result and duration may be those
    of a later call, which began at the same place.
    ``ends_later``: its return, or its result, has a probe; else it ended as soon as it began.
    ``stack``: the functions that it is in, itself first; None: nobody asked for them.
    """

    place: Place
    time_ns: int
    pid: int
    tid: int
    task: int | None
    depth: int
    arguments: dict[str, Value] = field(default_factory=dict)
    duration_ns: int | None = None
    result: Value = None
    has_result: bool = False
    is_result_inferred: bool = False
    is_end_doubtful: bool = False
    ends_later: bool = False
    stack: StackTrace | None = None

    @property
    def start_ns(self) -> int:
        """When that began which took ``duration_ns``."""
        if self.place.kind is PlaceKind.STATIC:
            return self.time_ns - (self.duration_ns or 0)
        return self.time_ns

    @property
    def has_inside(self) -> bool:
        """Whether it is known when it ends, so that other calls can be inside of it."""
        return self.ends_later and self.place.kind is PlaceKind.ENTRY

    @property
    def thread(self) -> tuple[int, int]:
        """The process, and the thread that has the call's stack: below 0 it is a goroutine."""
        return self.pid, ~self.task if self.place.is_go and self.task else self.tid


CallsOf = Callable[[Exchange], Sequence[TracedCall] | None]
"""Returns the calls that served an exchange while that is passed to sinks; None: not known."""


@dataclass(frozen=True, kw_only=True)
class TraceSummary:
    """The figures of a trace at its end.

    ``calls``: hits that began a call, or of a line or static probe; ``shown``: those that the
    filters let through, None: there are no filters.
    ``lost``: hits that found the ring full; ``limited``: those that the rate limit dropped.
    ``forgotten``: open calls that were ended without their return, to bound memory.
    """

    calls: int
    duration_ns: int
    shown: int | None = None
    lost: int = 0
    limited: int = 0
    forgotten: int = 0


class CallSink:
    """Receives calls in the order of the hits; subclasses implement what they want."""

    def began(self, time_ns: int) -> None:
        """Handle the time of the first call, shown or not; it comes before all others."""

    def entered(self, call: TracedCall) -> None:
        """Handle a call that began: its result and duration are not known yet."""

    def ended(self, call: TracedCall) -> None:
        """Handle a call that returned, or that ended without a return that was seen.

        A hit that has no return comes here at once, after ``entered``.
        """

    def summary(self, summary: TraceSummary) -> None:
        """Handle the figures of the whole trace; after it come only ``flush`` and ``close``."""

    def flush(self) -> None:
        """Write what is buffered; called when no hits wait."""

    def close(self) -> None:
        """Write what is left; called once."""
