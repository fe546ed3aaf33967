"""Plans what ``sslsniff trace`` probes, from its options."""

from collections.abc import Iterator, Sequence

from sslsniff.cli.functions.safe_places import without_unsafe
from sslsniff.cli.options.trace_options import (
    ADDRESSES,
    COUNT,
    DEPTH,
    FORCE,
    HISTOGRAM,
    ITEMS,
    LINES,
    PATTERNS,
    RESULTS,
    RETURNS,
    SLOWER,
    STRING_LIMIT,
    UNDER,
    USDT,
    WHEN,
)
from sslsniff.core.errors import TargetError
from sslsniff.fetching.fetch import FetchLimits
from sslsniff.fetching.trace_places import Place, PlaceKind, timed_functions
from sslsniff.functions.conditions.condition_parser import parse_condition
from sslsniff.functions.places.plan_limits import shown_names
from sslsniff.functions.places.plans import (
    MOST_FUNCTIONS_WITH_RESULTS,
    PlanOptions,
    TracePlan,
    WantedPlaces,
)
from sslsniff.functions.workers.file_reader import FileReaders
from sslsniff.functions.workers.read_plans import read_plans
from sslsniff.settings.asked import Asked

_NO_DURATION = "an inlined call, a line, an address or a static probe has no duration"


def plan_trace(files: Sequence[str], asked: Asked, readers: FileReaders) -> TracePlan:
    """Return where to probe what what is ``asked`` choose in ``files``, which ``readers`` read.

    Values such as Go's interfaces are looked up in the files when they are shown: until then
    ``readers`` must be open. Raises ``SslsniffError``.
    """
    wanted = _wanted(asked)
    plans: list[TracePlan] = []
    for path in files:
        plans += read_plans(readers.open(path), wanted)
    places = tuple(place for plan in plans for place in plan.places)
    functions = sum(plan.functions for plan in plans)
    notes = [note for plan in plans for note in plan.notes]
    notes += _undecided(plans, asked)
    notes += _without_durations(places, asked)
    if asked[RESULTS] is None and not asked[COUNT] and functions > MOST_FUNCTIONS_WITH_RESULTS:
        notes.append(
            f"results and durations are read of {MOST_FUNCTIONS_WITH_RESULTS} functions at most:"
            " use --results to read all"
        )
    return without_unsafe(TracePlan(places, tuple(notes), functions))


def _wanted(asked: Asked) -> WantedPlaces:
    when, under = asked[WHEN], asked[UNDER]
    options = PlanOptions(
        False if asked[COUNT] else asked[RESULTS],
        asked[FORCE],
        asked[RETURNS] == "trampoline",
        FetchLimits(asked[STRING_LIMIT], asked[ITEMS], asked[DEPTH]),
        parse_condition(when) if when is not None else None,
    )
    return WantedPlaces(
        functions=(*asked[PATTERNS], *([under.pattern] if under is not None else [])),
        static_probes=tuple(each.pattern for each in asked[USDT]),
        lines=tuple(asked[LINES]),
        addresses=tuple(asked[ADDRESSES]),
        options=options,
    )


def _undecided(plans: Sequence[TracePlan], asked: Asked) -> Iterator[str]:
    """Yield a line for each function whose calls the kernel counts, whatever the arguments are."""
    if asked[COUNT] or asked[HISTOGRAM]:
        for name in dict.fromkeys(name for plan in plans for name in plan.undecided):
            yield f"{name}: the kernel, which counts, cannot decide --when: all calls count"


def _without_durations(places: Sequence[Place], asked: Asked) -> Iterator[str]:
    """Yield a line on what an option leaves out because its durations are not known.

    Raises ``TargetError``: that is all of it.
    """
    option = "--histogram" if asked[HISTOGRAM] else "--slower" if asked[SLOWER] else None
    if option is None:
        return
    timed = timed_functions(places)
    if asked[SLOWER]:  # the second of a pair of static probes has the time since the first one
        timed |= {each.function for each in places if each.kind is PlaceKind.STATIC}
    names = [*dict.fromkeys(each.function for each in places if each.function not in timed)]
    if names and not timed:
        raise TargetError(f"{shown_names(names)}: {_NO_DURATION}", f"leave {option} out")
    if names:
        them = "it" if len(names) == 1 else "them"
        yield f"{shown_names(names)}: {_NO_DURATION}: {option} leaves {them} out"
