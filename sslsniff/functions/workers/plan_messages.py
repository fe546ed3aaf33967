"""Plans in the form of messages: places, with the types and locations of what they fetch.

Decoders of values are functions and cannot be sent. So the places have what these are compiled
from, and who receives a plan compiles them again when values are shown (``late_fetch``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sslsniff.analysis.checked_fields import (
    WORD,
    boolean,
    items,
    number_in,
    optional_number,
    optional_text,
    text,
)
from sslsniff.fetching.fetch import Fetch, FetchLimits
from sslsniff.fetching.fetch_steps import MOST_DATA_BYTES
from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.functions.dwarf.function_model import Language
from sslsniff.functions.dwarf.type_model import Type
from sslsniff.functions.places.plans import TracePlan
from sslsniff.functions.values.fetch_program import RuntimeTypeNames
from sslsniff.functions.values.fetching import (
    FetchContext,
    FetchSource,
    ValueRole,
    WantedValue,
)
from sslsniff.functions.workers.late_fetch import late_fetch
from sslsniff.functions.workers.location_messages import (
    location_row,
    parse_location,
    parse_steps,
    parse_task,
    step_rows,
)
from sslsniff.functions.workers.type_messages import TypeTable, parse_types
from sslsniff.machine_code.probe_sites import Cost

_Row = list[Any]
_MOST_LINE = 1 << 32


def plans_message(plans: Sequence[TracePlan]) -> dict[str, Any]:
    """Return plans in the form of a message; ``parse_plans`` is the inverse."""
    types = TypeTable()
    rows = [
        {
            "places": [_place_row(place, types) for place in each.places],
            "notes": each.notes,
            "functions": each.functions,
            "undecided": each.undecided,
            "task": each.task,
        }
        for each in plans
    ]
    return {"plans": rows, "types": types.rows()}


def _place_row(place: Place, types: TypeTable) -> _Row:
    return [
        place.kind.value,
        place.function,
        place.address,
        place.offset,
        place.cost.value,
        _fetch_row(place.fetch, types),
        place.file,
        place.line,
        place.semaphore,
        place.into,
        place.call_address,
        place.may_tail_call,
        place.returns_at_once,
        place.is_go,
        place.by_trampoline,
    ]


def _fetch_row(fetch: Fetch, types: TypeTable) -> _Row:
    source = fetch.source
    if not isinstance(source, FetchSource):
        raise TypeError("a fetch without its source")
    wanted = [
        [
            each.name,
            None if each.type is None else types.index(each.type),
            location_row(each.location),
            each.role.value,
        ]
        for each in source.wanted
    ]
    context = source.context
    return [
        step_rows(fetch.steps),
        fetch.data_bytes,
        context.language.value,
        context.place,
        step_rows(context.first_steps),
        wanted,
    ]


@dataclass(frozen=True)
class PlannedFile:
    """What is known of a file whose plan is parsed, without its worker.

    ``code``: offset and size of each segment of code. ``size``: of the file.
    ``go_types``: names the types of a Go program while hits are shown.
    """

    path: str
    code: Sequence[tuple[int, int]]
    size: int
    limits: FetchLimits
    go_types: RuntimeTypeNames


def parse_plans(message: Any, file: PlannedFile) -> list[TracePlan]:
    """Return the plans in a message about ``file``; raises one of ``INVALID``.

    The message need not be trusted: the worst that it can contain is wrong places in this file, and
    wrong names and values for them.
    """
    parser = _PlanParser(file, parse_types(message["types"]))
    return [parser.plan(each) for each in items(message["plans"])]


class _FetchFields(NamedTuple):
    steps: Any
    data_bytes: Any
    language: Any
    place: Any
    first_steps: Any
    wanted: Any


class _PlanParser:
    """Parses the plans of a message; ``types``: its table."""

    def __init__(self, file: PlannedFile, types: Sequence[Type]) -> None:
        self._file = file
        self._types = types

    def plan(self, row: Any) -> TracePlan:
        plan = TracePlan(
            places=tuple(self._place(*each) for each in items(row["places"])),
            notes=tuple(map(text, items(row["notes"]))),
            functions=number_in(row["functions"], 0, WORD),
            undecided=tuple(map(text, items(row["undecided"]))),
            task=parse_task(row["task"]),
        )
        return plan.with_tasks()

    def _place(
        self,
        kind: Any,
        function: Any,
        address: Any,
        offset: Any,
        cost: Any,
        fetch: Any,
        file: Any,
        line: Any,
        semaphore: Any,
        into: Any,
        call_address: Any,
        may_tail_call: Any,
        returns_at_once: Any,
        is_go: Any,
        by_trampoline: Any,
    ) -> Place:
        return Place(
            PlaceKind(kind),
            text(function),
            self._file.path,
            number_in(address, 0, WORD),
            self._offset(offset),
            Cost(cost),
            self._fetch(_FetchFields(*fetch)),
            file=optional_text(file),
            line=optional_number(line, 0, _MOST_LINE),
            semaphore=optional_number(semaphore, 0, self._file.size),
            into=optional_text(into),
            call_address=optional_number(call_address, 0, WORD),
            may_tail_call=boolean(may_tail_call),
            returns_at_once=boolean(returns_at_once),
            is_go=boolean(is_go),
            by_trampoline=boolean(by_trampoline),
        )

    def _offset(self, value: Any) -> int:
        """Return the offset of a probe, which must be in code of the file."""
        offset = number_in(value, 0, self._file.size)
        if not any(start <= offset < start + size for start, size in self._file.code):
            raise ValueError
        return offset

    def _fetch(self, fields: _FetchFields) -> Fetch:
        language = Language(fields.language)
        context = FetchContext(
            language,
            self._file.limits,
            parse_steps(fields.first_steps),
            number_in(fields.place, 0, WORD),
            self._file.go_types if language is Language.GO else None,
        )
        source = FetchSource(tuple(self._wanted(*each) for each in items(fields.wanted)), context)
        data_bytes = number_in(fields.data_bytes, 0, MOST_DATA_BYTES + 1)
        return late_fetch(source, parse_steps(fields.steps), data_bytes)

    def _wanted(self, name: Any, described: Any, location: Any, role: Any) -> WantedValue:
        index = optional_number(described, 0, len(self._types))
        return WantedValue(
            text(name),
            None if index is None else self._types[index],
            parse_location(location),
            ValueRole(role),
        )
