"""Plans what ``sslsniff trace`` probes, from its options."""

import contextlib
from collections.abc import Iterator, Sequence

from sslsniff.cli.file_limits import reading_within_limits
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
from sslsniff.elf.elf_file import Elf
from sslsniff.fetching.fetch import FetchLimits
from sslsniff.fetching.trace_places import Place, PlaceKind, timed_functions
from sslsniff.functions.conditions.condition_parser import parse_condition
from sslsniff.functions.dwarf.debug_info import open_debug_info
from sslsniff.functions.places.debug_info_gaps import shown_names
from sslsniff.functions.places.point_plans import plan_address, plan_line, plan_static_probes
from sslsniff.functions.places.trace_plan import (
    MOST_FUNCTIONS_WITH_RESULTS,
    PlanOptions,
    TracePlan,
    plan_functions,
)
from sslsniff.functions.runtimes.tokio_tasks import has_tokio, tokio_task_location
from sslsniff.settings.asked import Asked

_NO_DURATION = "an inlined call, a line, an address or a static probe has no duration"


def plan_trace(files: Sequence[str], asked: Asked, closing: contextlib.ExitStack) -> TracePlan:
    """Return where to probe what what is ``asked`` choose in ``files``.

    The files stay open until ``closing`` closes them: values such as Go's interfaces are looked up
    in them when they are shown. Raises ``SslsniffError``.
    """
    when = asked[WHEN]
    how = PlanOptions(
        False if asked[COUNT] else asked[RESULTS],
        asked[FORCE],
        asked[RETURNS] == "trampoline",
        FetchLimits(asked[STRING_LIMIT], asked[ITEMS], asked[DEPTH]),
        parse_condition(when) if when is not None else None,
    )
    plans: list[TracePlan] = []
    for path in files:
        with reading_within_limits(path):
            plans += _plans(closing.enter_context(Elf(path)), asked, how)
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


def _plans(elf: Elf, asked: Asked, how: PlanOptions) -> Iterator[TracePlan]:
    """Yield a plan for each kind of place."""
    debug = open_debug_info(elf)
    under = asked[UNDER]
    patterns = [*asked[PATTERNS], *([under.pattern] if under is not None else [])]
    if patterns:
        plan = plan_functions(elf, patterns, how, debug)
        task = tokio_task_location(elf, debug) if has_tokio(elf, debug) else None
        yield plan if task is None else plan.with_task(task)
    if asked[USDT]:
        yield plan_static_probes(elf, [each.pattern for each in asked[USDT]], how)
    for file, line in asked[LINES]:
        yield plan_line(elf, file, line, how, debug)
    for address in asked[ADDRESSES]:
        yield plan_address(elf, address, how, debug)


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
