"""Plans for what is no function: static probes, source lines, and addresses."""

import difflib
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from sslsniff.core.errors import TargetError, counted
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.usdt_notes import StaticProbe, find_static_probes
from sslsniff.fetching.fetch import Fetch, FetchLimits
from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.fetching.traced_values import Missing
from sslsniff.functions.conditions.condition_check import check_condition
from sslsniff.functions.dwarf.debug_info import DebugInfo
from sslsniff.functions.dwarf.function_model import Language
from sslsniff.functions.dwarf.type_model import Character, Integer, Pointer
from sslsniff.functions.places.debug_info_gaps import gaps_of
from sslsniff.functions.places.place_maker import PlaceMaker
from sslsniff.functions.places.plan_limits import (
    BUILD_REMEDY,
    check_count,
    check_machine,
    nearest_names,
)
from sslsniff.functions.places.plans import PlanOptions, TracePlan
from sslsniff.functions.places.point_places import PointPlacer
from sslsniff.functions.places.semaphores import is_found_at_start
from sslsniff.functions.places.static_arguments import static_arguments
from sslsniff.functions.places.trace_plan import go_code
from sslsniff.functions.values.fetching import (
    FetchContext,
    ValueRole,
    WantedValue,
    compile_fetch,
)
from sslsniff.machine_code.nop_places import after_nops

_WORD_BYTES = 8
_CHARACTER = Character(name="char", size=1)
_TEXT_TYPE = Pointer(name="char *", size=_WORD_BYTES, target=lambda: _CHARACTER)


def plan_static_probes(elf: Elf, patterns: Sequence[str], options: PlanOptions) -> TracePlan:
    """Return the static probes whose ``provider:name`` matches one of ``patterns``.

    One that is a whole name matches only that. Raises ``TargetError``: none does, or too many do.
    """
    check_machine(elf)
    probes = list(find_static_probes(elf))
    names = {_name_of(each) for each in probes}
    chosen = {name for pattern in patterns for name in _matching(pattern, names)}
    if not chosen:
        raise _no_probe(elf, patterns, names)
    found = [each for each in probes if _name_of(each) in chosen]
    check_count(patterns, len(found), "static probes", force=options.force)
    maker = PlaceMaker(elf, limits=options.limits, condition=options.condition)
    places = tuple(_static_place(maker, each) for each in found)
    _check_names(options, places)
    misplaced = sorted(
        {
            _name_of(each)
            for each in found
            if each.semaphore is not None and not is_found_at_start(elf, each.semaphore)
        }
    )
    return TracePlan(places, _notes_on(misplaced), 0)


def plan_line(
    elf: Elf, file: str, line: int, options: PlanOptions, debug: DebugInfo | None
) -> TracePlan:
    """Return a place at each address where the code of a source line begins, with all locals.

    ``file``: the last parts of the path of the source file. Raises ``TargetError``: no code is of
    that line; it names the nearest lines with code, or files with similar names.
    """
    check_machine(elf)
    if debug is None:
        raise TargetError(f"{elf.path} has no debug info, which tells lines", BUILD_REMEDY)
    addresses = debug.addresses_of(file, line)
    if not addresses:
        raise _no_line(elf, file, line, debug)
    check_count([f"{file}:{line}"], len(addresses), "places", force=options.force)
    placer = PointPlacer(
        elf, debug, limits=options.limits, condition=options.condition, go=go_code(elf)
    )
    places = tuple(placer.at_line(each) for each in addresses)
    _check_names(options, places)
    return TracePlan(places, tuple(gaps_of(elf, debug)), 0)


def _no_line(elf: Elf, file: str, line: int, debug: DebugInfo) -> TargetError:
    known = debug.lines_with_code(file)
    if known:
        at = bisect_left(known, line)
        near = " or ".join(map(str, known[max(at - 1, 0) : at + 1]))
        return TargetError(
            f"no code of {elf.path} is from {file}:{line}",
            f"use line {near}, the nearest with code",
        )
    parts = file.count("/") + 1
    names = {"/".join(path.split("/")[-parts:]) for path in debug.source_files()}
    similar = difflib.get_close_matches(file, sorted(names - {file}))
    return TargetError(
        f"no code of {elf.path} is from a file {file}",
        f"did you mean {' or '.join(similar)}?" if similar else "name a source file with code",
    )


def plan_address(
    elf: Elf, address: int, options: PlanOptions, debug: DebugInfo | None
) -> TracePlan:
    """Return the place at a linked address, with the registers.

    Raises ``TargetError``: no instruction begins there, or one of another machine.
    """
    check_machine(elf)
    placer = PointPlacer(
        elf, debug, limits=options.limits, condition=options.condition, go=go_code(elf)
    )
    places = (placer.at_address(address, force=options.force),)
    _check_names(options, places)
    return TracePlan(places, (), 0)


def _notes_on(misplaced: Sequence[str]) -> tuple[str, ...]:
    """Return a note on static probes whose semaphores the kernel does not find at the start."""
    if not misplaced:
        return ()
    others = f" and {counted(len(misplaced) - 1, 'other')}" if len(misplaced) > 1 else ""
    return (
        f"{misplaced[0]}{others}: not seen in processes that start from now on, because the kernel"
        " misplaces the semaphore. Start the program first and use --pid, or link it with"
        " -Wl,-z,separate-loadable-segments",
    )


def _check_names(options: PlanOptions, places: Sequence[Place]) -> None:
    """Raise ``FilterError`` if no place has the values that the condition names."""
    if options.condition is None:
        return
    known = [
        [WantedValue(name, None, Missing.UNKNOWN_TYPE) for name in each.fetch.decoders]
        for each in places
    ]
    error = check_condition(options.condition, known)
    if error is not None:
        raise error


def _name_of(probe: StaticProbe) -> str:
    return f"{probe.provider}:{probe.name}"


def _matching(pattern: str, names: set[str]) -> Iterable[str]:
    if pattern in names:
        return (pattern,)
    return filter(re.compile(pattern).search, names)


def _no_probe(elf: Elf, patterns: Sequence[str], names: set[str]) -> TargetError:
    if not names:
        return TargetError(f"{elf.path} has no static probes", "trace functions by their names")
    near = nearest_names(patterns, names)
    return TargetError(
        f"no static probe of {elf.path} matches {' or '.join(patterns)}",
        f"did you mean {' or '.join(near)}?" if near else f"sslsniff symbols {elf.path} lists them",
    )


def _static_place(maker: PlaceMaker, probe: StaticProbe) -> Place:
    elf = maker.elf
    symbols = elf.own_symbols()

    def address_of(name: str) -> int | None:
        return symbols.variable(name) if symbols else None

    address = after_nops(elf, probe.address)
    wanted = [*static_arguments(probe.arguments, address, address_of)]
    semaphore = None if probe.semaphore is None else elf.offset(probe.semaphore, of_data=True)
    return Place(
        PlaceKind.STATIC,
        _name_of(probe),
        elf.path,
        address,
        elf.offset(address),
        maker.cost_at(address),
        _with_texts(wanted, maker.limits),
        semaphore=semaphore,
    )


def _with_texts(wanted: Sequence[WantedValue], limits: FetchLimits) -> Fetch:
    """Return a fetch of numbers, and of what they point to where that is text.

    The notes have no types: a string is a number of 8 bytes.
    """
    texts = [
        WantedValue(each.name, _TEXT_TYPE, each.location, ValueRole.TEXT)
        for each in wanted
        if isinstance(each.type, Integer) and each.type.size == _WORD_BYTES
    ]
    return compile_fetch([*wanted, *texts], FetchContext(Language.C, limits))
