"""Locations of values, and steps that fetch them, in the form of messages."""

from collections.abc import Iterable
from typing import Any

from sslsniff.analysis.checked_fields import (
    WORD,
    items,
    number_in,
    optional_number,
    text,
)
from sslsniff.fetching.fetch_steps import MOST_ITEMS, MOST_STEPS, FetchStep, StepKind
from sslsniff.fetching.locations import (
    ComputedNumber,
    ConstantBytes,
    LocationPiece,
    ValueInMemory,
    ValueLocation,
)
from sslsniff.fetching.task_location import TaskLocation
from sslsniff.fetching.traced_values import Missing

_REGISTERS = 17  # with names in DWARF that a uprobe can read
_MOST_STEP_VALUE = 1 << 31
_MOST_OFFSET = 1 << 16
_MOST_PIECES = 1 << 12
_MOST_READS = 16
_NUMBER, _MEMORY, _CONSTANT, _MISSING = "number", "memory", "constant", "missing"


def step_rows(steps: Iterable[FetchStep]) -> list[list[int]]:
    """Return steps in the form of messages; ``parse_steps`` is the inverse."""
    return [[each.kind.value, each.value, each.offset, each.item] for each in steps]


def parse_steps(rows: Any) -> tuple[FetchStep, ...]:
    """Return the steps in a message: none that the kernel's program does not know."""
    if len(items(rows)) > MOST_STEPS:
        raise ValueError
    return tuple(
        FetchStep(
            StepKind(number_in(kind, 1, len(StepKind))),
            number_in(value, -_MOST_STEP_VALUE, _MOST_STEP_VALUE),
            number_in(offset, 0, _MOST_OFFSET),
            number_in(item, 0, MOST_ITEMS),
        )
        for kind, value, offset, item in rows
    )


def location_row(location: ValueLocation | Missing) -> Any:
    """Return a location in the form of messages; ``parse_location`` is the inverse."""
    if isinstance(location, Missing):
        return location.name
    return [[*_source_row(each), each.size] for each in location]


def _source_row(piece: LocationPiece) -> tuple[str, Any]:
    source = piece.source
    if isinstance(source, ComputedNumber):
        return _NUMBER, step_rows(source.steps)
    if isinstance(source, ValueInMemory):
        return _MEMORY, step_rows(source.steps)
    if isinstance(source, ConstantBytes):
        return _CONSTANT, source.data.hex()
    return _MISSING, source.name


def parse_location(row: Any) -> ValueLocation | Missing:
    """Return the location in a message."""
    if isinstance(row, str):
        return Missing[text(row)]
    if len(items(row)) > _MOST_PIECES:
        raise ValueError
    return tuple(_parse_piece(*each) for each in row)


def _parse_piece(kind: Any, value: Any, size: Any) -> LocationPiece:
    length = optional_number(size, 0, WORD)
    if kind == _NUMBER:
        return LocationPiece(ComputedNumber(parse_steps(value)), length)
    if kind == _MEMORY:
        return LocationPiece(ValueInMemory(parse_steps(value)), length)
    if kind == _CONSTANT:
        return LocationPiece(ConstantBytes(bytes.fromhex(text(value))), length)
    if kind == _MISSING:
        return LocationPiece(Missing[text(value)], length)
    raise ValueError


def parse_task(row: Any) -> TaskLocation | None:
    """Return where tasks are by a message, which has the fields of ``TaskLocation``, or None."""
    if row is None:
        return None
    register, offsets = row
    if len(items(offsets)) > _MOST_READS:
        raise ValueError
    return TaskLocation(
        optional_number(register, 0, _REGISTERS),
        tuple(number_in(each, -_MOST_STEP_VALUE, _MOST_STEP_VALUE) for each in offsets),
    )
