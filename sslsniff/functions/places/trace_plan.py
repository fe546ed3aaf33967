"""Plans what is probed in functions, with lines on what will be missing and why."""

from collections.abc import Iterable, Iterator, Sequence

from sslsniff.core.errors import TargetError, grouped
from sslsniff.elf.elf_file import Elf
from sslsniff.fetching.trace_places import Place
from sslsniff.fetching.traced_values import Missing
from sslsniff.functions.conditions.condition import ArgumentCondition
from sslsniff.functions.conditions.condition_check import check_condition
from sslsniff.functions.dwarf.debug_info import DebugInfo
from sslsniff.functions.dwarf.function_model import DescribedFunction, Language
from sslsniff.functions.places.chosen_functions import choose_functions, described_names
from sslsniff.functions.places.critical_functions import critical_part
from sslsniff.functions.places.debug_info_gaps import gaps_of
from sslsniff.functions.places.place_maker import GoCode, named_apart
from sslsniff.functions.places.placed_functions import FunctionPlacer
from sslsniff.functions.places.plan_limits import (
    BUILD_REMEDY,
    FORCE_REMEDY,
    MOST_PROBES,
    check_count,
    check_machine,
    shown_names,
)
from sslsniff.functions.places.plans import MOST_FUNCTIONS_WITH_RESULTS, PlanOptions, TracePlan
from sslsniff.functions.runtimes.goroutines import goroutine_location
from sslsniff.functions.values.fetching import WantedValue
from sslsniff.libraries.go.programs import release

_SURELY_TOO_MANY = 2  # some of the names have no code


def plan_functions(
    elf: Elf,
    patterns: Sequence[str],
    options: PlanOptions,
    debug: DebugInfo | None,
) -> TracePlan:
    """Return where to probe the functions whose names match one of ``patterns``.

    ``patterns``: regular expressions that are searched in demangled names; one that is a whole name
    matches only that.
    ``debug``: None: the file has no debug info.

    Raises ``TargetError``: a pattern matches nothing, or too much.
    """
    check_machine(elf)
    if debug is not None:
        # Names take 20 us each; their descriptions and places take 10 ms.
        names = described_names(debug, patterns)
        if len(names) > _SURELY_TOO_MANY * MOST_PROBES:
            check_count(patterns, len(names), "functions", force=options.force)
    chosen, merged = choose_functions(elf, patterns, debug)
    functions, notes = _without_critical(chosen, force=options.force)
    notes += (
        f"{shown_names(others)}: the same code as {name}, which is shown instead"
        for name, others in merged.items()
    )
    check_count(patterns, len(functions), "functions", force=options.force)
    with_results = options.results
    if with_results is None:
        with_results = len(functions) <= MOST_FUNCTIONS_WITH_RESULTS
    condition = options.condition
    if condition is not None:
        _check_condition(condition, functions)
    go = go_code(elf)
    if go is not None and options.by_trampoline:
        raise TargetError(
            f"{elf.path} is a Go program, which return probes of the kernel kill",
            "leave --returns trampoline out",
        )
    placer = FunctionPlacer(elf, debug, limits=options.limits, go=go, condition=condition)
    places: dict[tuple[int, object], Place] = {}
    count = unseen = 0
    for each in functions:
        placed = placer.place(each, with_results=with_results, by_trampoline=options.by_trampoline)
        if placed.problem:
            notes.append(f"{each.name} is not probed: {placed.problem}")
        count += bool(placed.places)
        unseen += placed.may_end_unseen
        for place in placed.places:
            places.setdefault((place.address, place.kind), place)
        check_count(patterns, len(places), "probes or more", force=options.force)
    notes += _missing_parts(elf, functions, go)
    notes += gaps_of(elf, debug)
    if unseen:
        notes.append(
            f"{grouped(unseen, 'function')} may end by a jump to another function: "
            "such a call has no result and no duration"
        )
    return TracePlan(tuple(places.values()), tuple(notes), count, tuple(placer.undecided))


def _check_condition(condition: ArgumentCondition, functions: Sequence[DescribedFunction]) -> None:
    """Raise ``FilterError`` if no function has the arguments that a condition names."""
    known = [
        [
            WantedValue(each.name, each.type, Missing.OPTIMISED_OUT)
            for each in named_apart(function.parameters)
        ]
        for function in functions
        if function.has_parameters
    ]
    error = check_condition(condition, known)
    if error is not None:
        raise error


def go_code(elf: Elf) -> GoCode | None:
    """Return what is particular to a Go program; None: it is none."""
    task = goroutine_location(elf)
    if task is None:
        return None
    in_registers = task.register is not None
    # Before Go 1.18 a program does not name its release itself.
    return GoCode(task, in_registers, not in_registers or release(elf) is not None)


def _without_critical(
    functions: Iterable[DescribedFunction], *, force: bool
) -> tuple[list[DescribedFunction], list[str]]:
    """Return the functions that may be probed, and notes on the others."""
    allowed, refused = [], dict[str, list[str]]()
    for each in functions:
        part = None if force else critical_part(each.name)
        if part is None:
            allowed.append(each)
        else:
            refused.setdefault(part, []).append(each.name)
    notes = [
        f"{shown_names(names)} {'is' if len(names) == 1 else 'are'} not probed: "
        f"part of {part}; {FORCE_REMEDY} to probe anyway"
        for part, names in refused.items()
    ]
    return allowed, notes


_GO_REMEDY = "build without -ldflags=-w or -s"


def _missing_parts(
    elf: Elf, functions: Iterable[DescribedFunction], go: GoCode | None
) -> Iterator[str]:
    """Yield notes on functions whose arguments debug info does not describe."""
    incomplete = [each for each in functions if not each.has_parameters]
    unknown = [each for each in incomplete if not each.producer]
    if unknown:
        is_go = all(each.language is Language.GO for each in unknown)
        is_on_stack = is_go and go is not None and not go.in_registers
        arguments = "there are no arguments" if is_on_stack else "arguments are raw registers"
        remedy = _GO_REMEDY if is_go else f"{BUILD_REMEDY}, or install its debug file"
        them = "it" if len(unknown) == 1 else "them"
        names = shown_names([each.name for each in unknown])
        yield f"{names}: no debug info for {them} in {elf.path}: {arguments}; {remedy}"
    unnamed = [each for each in incomplete if each.producer]
    if unnamed:
        is_inlined = all(copy.into is not None for each in unnamed for copy in each.copies)
        arguments = "there are no arguments" if is_inlined else "arguments are raw registers"
        names = shown_names([each.name for each in unnamed])
        yield f"{names}: the debug info has no parameters: {arguments}; {BUILD_REMEDY}"
