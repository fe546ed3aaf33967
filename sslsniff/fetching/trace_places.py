"""The places that are probed in a file for tracing its functions."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from sslsniff.fetching.fetch import Fetch
from sslsniff.machine_code.probe_sites import Cost


class PlaceKind(Enum):
    """What a hit of a place means."""

    ENTRY = "entry"
    RETURN = "return"
    INLINED = "inlined"
    """A call that was inlined begins. It has no return."""
    INLINED_RESULT = "inlined result"
    """A variable of the caller has the result of the inlined call before it."""
    LINE = "line"
    STATIC = "static probe"
    ADDRESS = "address"

    @property
    def ends_call(self) -> bool:
        """Whether a call ends there, and none begins."""
        return self in (PlaceKind.RETURN, PlaceKind.INLINED_RESULT)


@dataclass(frozen=True)
class Place:
    """A probe.

    ``function``: its demangled name; of a static probe ``provider:name``; of an address, the
    function with the distance.
    ``path``: the file that is probed; ``offset``: the place in it; ``address``: that as linked.
    ``semaphore``: file offset of the counter that turns a static probe on; None: it is always on.
    ``fetch``: its values are the arguments, the locals of a line, or the result by the name
    ``result``.
    ``file``, ``line``: the source of the function, of an inlined call, or of the probed line.
    ``into``: the function that an inlined call is in.
    ``call_address``: the ``address`` of the place of the call whose inlined result this is.
    ``by_trampoline``: the kernel's trampoline reports this return: ``offset`` is the function's
    entry, and when it is hit the stack pointer is above the return address.
    ``may_tail_call``: the function of this entry may end by a jump to another one.
    ``returns_at_once``: the probed instruction of this entry is also the return: a hit begins and
    ends a call, and ``fetch`` has its results, too.
    ``is_go``: its code is Go's: the task of a hit is a goroutine, and its stack pointer is one
    that stays the same when Go moves the stack.
    """

    kind: PlaceKind
    function: str
    path: str
    address: int
    offset: int
    cost: Cost
    fetch: Fetch = field(default_factory=Fetch)
    file: str | None = None
    line: int | None = None
    semaphore: int | None = None
    into: str | None = None
    call_address: int | None = None
    may_tail_call: bool = True
    returns_at_once: bool = False
    is_go: bool = False
    by_trampoline: bool = False


def timed_functions(places: Iterable[Place]) -> set[str]:
    """Return the names of the functions whose returns are probed: their calls have durations."""
    return {
        each.function for each in places if each.returns_at_once or each.kind is PlaceKind.RETURN
    }
