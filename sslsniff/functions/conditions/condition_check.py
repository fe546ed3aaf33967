"""Checks the names and types in a condition against the arguments of the traced functions."""

import difflib
from collections.abc import Mapping, Sequence

from sslsniff.core.errors import FilterError
from sslsniff.functions.conditions.condition import (
    LENGTH,
    ArgumentCondition,
    Compared,
    ConditionOperator,
    ValuePath,
    comparisons_of,
)
from sslsniff.functions.conditions.condition_steps import (
    followed_type,
    member_named,
    plain_structure,
)
from sslsniff.functions.dwarf.type_model import (
    Boolean,
    Character,
    Enumeration,
    Floating,
    Integer,
    Pointer,
    Type,
)
from sslsniff.functions.values.fetching import WantedValue

_NAMES_SHOWN = 3
_SCALARS = (Boolean, Character, Enumeration, Floating, Integer)
_EQUALITY = (ConditionOperator.EQUAL, ConditionOperator.NOT_EQUAL)


def check_condition(
    condition: ArgumentCondition, functions: Sequence[Sequence[WantedValue]]
) -> FilterError | None:
    """Return why a condition can never be met; None: a function has all that it compares.

    ``functions``: the arguments of each function that is traced.
    """
    text, node = condition
    compared = comparisons_of(node)
    errors = []
    for wanted in functions:
        known = {each.name: each for each in wanted}
        found = (_name_error(text, each, known) for each in compared)
        errors.append(next((each for each in found if each is not None), None))
    return None if not errors or None in errors else errors[0]


def _name_error(
    text: str, compared: Compared, known: Mapping[str, WantedValue]
) -> FilterError | None:
    path = compared.path
    if path.names[0] not in known:
        return _unknown(text, path, 0, "argument", [*known])
    described = known[path.names[0]].type
    for index, name in enumerate(path.names[1:], 1):
        holder = followed_type(described)
        is_text = isinstance(described, Pointer) and isinstance(holder, Character)
        if isinstance(holder, _SCALARS) and not (is_text and name == LENGTH):
            return FilterError(
                f"{path.names[index - 1]}, of type {holder.name}, has no members",
                f"leave .{name} out",
                text,
                path.positions[index],
            )
        structure = plain_structure(holder)
        if structure is None:
            return None
        member = member_named(structure, name)
        if member is None:
            names = [each.name for each in structure.members]
            return _unknown(text, path, index, f"member of {structure.name}", names)
        described = member.type
    return _type_error(text, compared, described)


def _type_error(text: str, compared: Compared, described: Type | None) -> FilterError | None:
    """Return why a value of a type cannot be compared so; None: it can, or the type is unknown."""
    path, literal = compared.path, compared.literal
    at = path.positions[-1]
    name = path.names[-1]
    of_type = f"{name}, of type {described.name}," if described else name
    if path.is_followed:
        if isinstance(described, _SCALARS):
            return FilterError(f"{of_type} is no pointer", "leave the * out", text, at)
        described = followed_type(described)
    if not isinstance(literal, str):
        return None
    is_character = len(literal) == 1 and isinstance(described, Character | Integer)
    if isinstance(described, _SCALARS) and not isinstance(described, Enumeration):
        if is_character:
            return None
        return FilterError(f"{of_type} is no text", "compare it with a number", text, at)
    if compared.comparison not in _EQUALITY and (described is not None or len(literal) != 1):
        return FilterError(
            f"{of_type} has no order by text", "use == or !=, or compare it with a number", text, at
        )
    if isinstance(described, Enumeration) and literal not in described.names.values():
        return _nearest(
            f"{literal}: no such value of {described.name}",
            literal,
            text,
            at,
            [*described.names.values()],
        )
    return None


def _unknown(
    text: str, path: ValuePath, index: int, kind: str, names: Sequence[str]
) -> FilterError:
    name = path.names[index]
    return _nearest(f"{name}: no such {kind}", name, text, path.positions[index], names)


def _nearest(fact: str, name: str, text: str, position: int, names: Sequence[str]) -> FilterError:
    """Return an error whose remedy is the names that are most like ``name``."""
    near = difflib.get_close_matches(name, names, _NAMES_SHOWN) or names[:_NAMES_SHOWN]
    remedy = f"use {', '.join(near)}" if near else "there is none"
    return FilterError(fact, remedy, text, position)
