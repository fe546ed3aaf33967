"""Compiles conditions to steps, so that the kernel drops the hits that do not meet them.

What it cannot decide (text, floating-point numbers, values that are computed from others) is
decided by the values of the hit, by ``condition.is_met``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sslsniff.fetching.fetch_steps import MOST_DEPTH, FetchStep, StepKind, most_depth
from sslsniff.fetching.locations import (
    ComputedNumber,
    ValueInMemory,
    ValueLocation,
    add_constant,
    push_constant,
)
from sslsniff.fetching.traced_values import Missing
from sslsniff.functions.conditions.condition import (
    AllOf,
    AnyOf,
    ArgumentCondition,
    Compared,
    ConditionNode,
    ConditionOperator,
    Literal,
    NotThis,
    ValuePath,
)
from sslsniff.functions.dwarf.type_model import (
    Boolean,
    Character,
    Enumeration,
    Integer,
    Member,
    Pointer,
    Structure,
    Type,
)
from sslsniff.functions.values.fetching import WantedValue

_WORD_BYTES = 8
_SIZES = (1, 2, 4, 8)
_MOST_STEPS = 40

_Steps = tuple[FetchStep, ...]


class _TypedPlace(NamedTuple):
    """A part of an argument: in ``location`` at ``offset``."""

    type: Type
    location: ValueLocation
    offset: int


class ConditionSteps(NamedTuple):
    """Steps that drop hits; ``is_whole``: no hit that they let through fails the condition."""

    steps: _Steps
    is_whole: bool


def condition_steps(condition: ArgumentCondition, wanted: Sequence[WantedValue]) -> ConditionSteps:
    """Return steps that drop hits which surely do not meet a condition on ``wanted`` values.

    They come before all other steps (``FetchContext.first_steps``).
    """
    known = {each.name: each for each in wanted}
    node = condition.node
    parts = node.parts if isinstance(node, AllOf) else (node,)
    steps: _Steps = ()
    is_whole = True
    for each in parts:
        found = _compiled(each, known)
        if found is not None and _has_room(steps, found):
            steps += (*found, FetchStep(StepKind.KEEP_IF))
        else:
            is_whole = False
    return ConditionSteps(steps, is_whole)


def _has_room(steps: _Steps, more: _Steps) -> bool:
    return len(steps) + len(more) < _MOST_STEPS and most_depth(more) <= MOST_DEPTH


def _compiled(node: ConditionNode, known: Mapping[str, WantedValue]) -> _Steps | None:
    """Return the steps that push 1 if a condition is met, else 0; None: the kernel cannot decide.

    A read that fails drops the hit. So a part of ``AnyOf`` must not read: another may be met.
    """
    if isinstance(node, Compared):
        return _comparison(node, known)
    if isinstance(node, NotThis):
        steps = _compiled(node.part, known)
        return None if steps is None else (*steps, *push_constant(0), FetchStep(StepKind.EQUAL))
    steps = ()
    kind = StepKind.OR if isinstance(node, AnyOf) else StepKind.AND
    for index, each in enumerate(node.parts):
        part = _compiled(each, known)
        reads = part is not None and any(step.kind is StepKind.READ for step in part)
        if part is None or (reads and isinstance(node, AnyOf)):
            return None
        steps += (*part, FetchStep(kind)) if index else part
    return steps


def _comparison(node: Compared, known: Mapping[str, WantedValue]) -> _Steps | None:
    place = _resolved(node.path, known)
    if place is None:
        return None
    number = _number_of(node.literal, place.type)
    value = _pushed(place)
    if number is None or value is None:
        return None
    is_unsigned = place.type.size == _WORD_BYTES and not _is_signed(place.type)
    limits = (0, 1 << 64) if is_unsigned else (-(1 << 63), 1 << 63)
    if not limits[0] <= number < limits[1]:
        return None
    constant = push_constant(number)
    kind, is_swapped = _KINDS[node.comparison]
    if is_unsigned:
        kind = _UNSIGNED.get(kind, kind)
    operands = (*constant, *value) if is_swapped else (*value, *constant)
    return (*operands, FetchStep(kind))


_KINDS = {
    ConditionOperator.EQUAL: (StepKind.EQUAL, False),
    ConditionOperator.NOT_EQUAL: (StepKind.NOT_EQUAL, False),
    ConditionOperator.LESS: (StepKind.LESS_SIGNED, False),
    ConditionOperator.LESS_OR_EQUAL: (StepKind.LESS_OR_EQUAL_SIGNED, False),
    ConditionOperator.GREATER: (StepKind.LESS_SIGNED, True),
    ConditionOperator.GREATER_OR_EQUAL: (StepKind.LESS_OR_EQUAL_SIGNED, True),
}
_UNSIGNED = {
    StepKind.LESS_SIGNED: StepKind.LESS,
    StepKind.LESS_OR_EQUAL_SIGNED: StepKind.LESS_OR_EQUAL,
}


def _number_of(literal: Literal, described: Type) -> int | None:
    """Return what a literal is in a value of a type; None: the kernel cannot compare them."""
    if isinstance(literal, str):
        if isinstance(described, Character | Integer):
            return ord(literal) if len(literal) == 1 and ord(literal) < 0x80 else None
        if isinstance(described, Enumeration):
            found = [number for number, name in described.names.items() if name == literal]
            return found[0] if len(found) == 1 else None
        return None
    if not isinstance(literal, int):
        return None
    is_number = isinstance(described, Integer | Boolean | Enumeration)
    return int(literal) if is_number and described.size in _SIZES else None


def _is_signed(described: Type) -> bool:
    return isinstance(described, Integer | Enumeration) and described.is_signed


def _resolved(path: ValuePath, known: Mapping[str, WantedValue]) -> _TypedPlace | None:
    """Return where what a path says is; None: the kernel cannot find it by the members' names."""
    wanted = known.get(path.names[0])
    if wanted is None or wanted.type is None or isinstance(wanted.location, Missing):
        return None
    place: _TypedPlace | None = _TypedPlace(wanted.type, wanted.location, 0)
    for name in path.names[1:]:
        place = _followed(place) if place and isinstance(place.type, Pointer) else place
        structure = plain_structure(place.type) if place else None
        member = member_named(structure, name) if structure else None
        if place is None or member is None or member.bits is not None:
            return None
        place = _TypedPlace(member.type, place.location, place.offset + member.offset)
    if path.is_followed and place is not None:
        return _followed(place) if isinstance(place.type, Pointer) else None
    return place


def _followed(place: _TypedPlace) -> _TypedPlace | None:
    """Return what the pointer at a place leads to."""
    target = place.type.target() if isinstance(place.type, Pointer) else None
    address = _pushed(place)
    if target is None or address is None:
        return None
    piece = place.location[0]._replace(source=ValueInMemory(address), size=None)
    return _TypedPlace(target, (piece,), 0)


def followed_type(described: Type | None) -> Type | None:
    """Return what a pointer leads to; what is none is itself."""
    return described.target() if isinstance(described, Pointer) else described


def plain_structure(described: Type | None) -> Structure | None:
    """Return a structure that has its members at fixed places; None: it is something else."""
    is_plain = isinstance(described, Structure) and described.members and not described.variants
    return described if isinstance(described, Structure) and is_plain else None


def member_named(structure: Structure, name: str) -> Member | None:
    """Return a member by its name; those of tuples of Rust are ``__0`` in debug info."""
    return structure.member(name) or structure.member(f"__{name}")


def _pushed(place: _TypedPlace) -> _Steps | None:
    """Return the steps that push the number at a place, extended by its sign if it has one."""
    size = place.type.size
    for source, start, end in _pieces(place):
        if not start <= place.offset or not place.offset + size <= end or size not in _SIZES:
            continue
        offset = place.offset - start
        if isinstance(source, ValueInMemory):
            steps = (*source.steps, *add_constant(offset), FetchStep(StepKind.READ, item=size))
            return (
                steps if not _is_signed(place.type) else (*steps, *_extended(size, is_signed=True))
            )
        if isinstance(source, ComputedNumber) and offset + size <= _WORD_BYTES:
            shift = (*push_constant(8 * offset), FetchStep(StepKind.SHIFT_RIGHT)) if offset else ()
            return (*source.steps, *shift, *_extended(size, is_signed=_is_signed(place.type)))
    return None


def _pieces(place: _TypedPlace) -> Iterator[tuple[object, int, int]]:
    start = 0
    for piece in place.location:
        end = (1 << 32) if piece.size is None else start + piece.size
        yield piece.source, start, end
        start = end


def _extended(size: int, *, is_signed: bool) -> _Steps:
    if size == _WORD_BYTES:
        return ()
    bits = push_constant(64 - 8 * size)
    kind = StepKind.SHIFT_RIGHT_SIGNED if is_signed else StepKind.SHIFT_RIGHT
    return (*bits, FetchStep(StepKind.SHIFT_LEFT), *bits, FetchStep(kind))
