"""A condition on arguments, and whether the values of a call meet it."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from sslsniff.fetching.traced_values import (
    FollowedPointer,
    Items,
    Missing,
    NamedNumber,
    PointerValue,
    RawRegister,
    StructureValue,
    Text,
    Value,
)


class ConditionOperator(Enum):
    """How a condition compares; ``value``: as it is written."""

    EQUAL = "=="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


_OPERATORS: dict[ConditionOperator, Callable[[float, float], bool]] = {
    ConditionOperator.EQUAL: operator.eq,
    ConditionOperator.NOT_EQUAL: operator.ne,
    ConditionOperator.LESS: operator.lt,
    ConditionOperator.LESS_OR_EQUAL: operator.le,
    ConditionOperator.GREATER: operator.gt,
    ConditionOperator.GREATER_OR_EQUAL: operator.ge,
}

LENGTH = "len"
"""Names how long a text or list is, where no member has this name."""
_WITHOUT_VALUE = "None"

Literal = bool | int | float | str | None
"""What a value is compared with: a number, a text, a character as text, ``None`` for null."""


@dataclass(frozen=True)
class ValuePath:
    """An argument, or a part of it: ``req.len`` has the names ``req`` and ``len``.

    ``is_followed``: it is what the pointer there leads to (``*p``).
    ``positions``: of the names in the condition's text.
    """

    names: tuple[str, ...]
    is_followed: bool
    positions: tuple[int, ...]


@dataclass(frozen=True)
class Compared:
    """A comparison of a part of an argument with a number, text or null."""

    path: ValuePath
    comparison: ConditionOperator
    literal: Literal


@dataclass(frozen=True)
class AllOf:
    """All ``parts`` must be met."""

    parts: tuple["ConditionNode", ...]


@dataclass(frozen=True)
class AnyOf:
    """One of ``parts`` must be met."""

    parts: tuple["ConditionNode", ...]


@dataclass(frozen=True)
class NotThis:
    """``part`` must not be met."""

    part: "ConditionNode"


ConditionNode = Compared | AllOf | AnyOf | NotThis


class ArgumentCondition(NamedTuple):
    """A condition with its ``text`` as the user wrote it."""

    text: str
    node: ConditionNode


def comparisons_of(node: ConditionNode) -> tuple[Compared, ...]:
    """Return the comparisons of which a condition is made."""
    if isinstance(node, Compared):
        return (node,)
    parts = (node.part,) if isinstance(node, NotThis) else node.parts
    return tuple(compared for each in parts for compared in comparisons_of(each))


def is_met(node: ConditionNode, values: Mapping[str, Value]) -> bool | None:
    """Say whether values by name meet a condition; None: a value that decides it is unknown."""
    if isinstance(node, Compared):
        return _is_so(node, values)
    if isinstance(node, NotThis):
        result = is_met(node.part, values)
        return None if result is None else not result
    results = [is_met(each, values) for each in node.parts]
    deciding = isinstance(node, AnyOf)
    if deciding in results:
        return deciding
    return None if None in results else not deciding


def _is_so(node: Compared, values: Mapping[str, Value]) -> bool | None:
    first, *names = node.path.names
    value = values.get(first, Missing.UNKNOWN_TYPE)
    for name in names:
        value = _member(value, name)
    if node.path.is_followed:
        value = _followed(value)
    if isinstance(value, Missing):
        return None
    literal = node.literal
    if isinstance(literal, str) and len(literal) == 1 and isinstance(value, int | str):
        literal = ord(literal)  # a character, or a number that stands for one as in C
    return _compared(_comparable(value, literal), node.comparison, literal)


def _followed(value: Value) -> Value:
    """Return what a pointer leads to: of text, its first character."""
    if isinstance(value, Text):
        return value.text[:1] or "\0"
    return value.value if isinstance(value, FollowedPointer) else value


def _member(value: Value, name: str) -> Value:
    """Return a member, the value of an enum's variant, or a length."""
    if isinstance(value, FollowedPointer):
        value = value.value
    if isinstance(value, StructureValue):
        fields = dict(value.fields)
        if name in fields:
            return fields[name]
        if value.is_variant and name == value.name and value.fields:
            is_single = len(fields) == 1 and "0" in fields
            return fields["0"] if is_single else StructureValue(value.name, value.fields)
    if name == LENGTH and isinstance(value, Items) and value.more >= 0:
        return len(value.items) + value.more
    if name == LENGTH and isinstance(value, Text) and value.more >= 0:
        return len(value.text.encode()) + value.more
    return Missing.UNKNOWN_TYPE


def _comparable(value: Value, literal: Literal) -> Literal | Missing:
    """Return a value as what it can be compared with ``literal``."""
    if isinstance(value, FollowedPointer):
        is_address = literal is None or isinstance(literal, int)
        return value.number if is_address else _comparable(value.value, literal)
    if isinstance(value, PointerValue | RawRegister):
        return value.number
    if isinstance(value, NamedNumber):
        return value.name if isinstance(literal, str) else value.number
    if isinstance(value, StructureValue) and value.is_variant and not value.fields:
        return None if value.name == _WITHOUT_VALUE else value.name
    if isinstance(value, Text):
        # One that was not read to its end is longer, so it equals no other.
        return value.text + ("\0" if value.more else "")
    if isinstance(value, str) and isinstance(literal, int):
        return ord(value)
    if isinstance(value, Items | StructureValue):
        return Missing.UNKNOWN_TYPE if literal is not None else 1
    return value


def _compared(
    value: Literal | Missing, comparison: ConditionOperator, literal: Literal
) -> bool | None:
    if isinstance(value, Missing):
        return None
    if value is None or literal is None:
        is_null = (value or 0) == (literal or 0)
        is_comparable = comparison in (ConditionOperator.EQUAL, ConditionOperator.NOT_EQUAL)
        return is_null == (comparison is ConditionOperator.EQUAL) if is_comparable else None
    if isinstance(value, str) or isinstance(literal, str):
        if type(value) is not type(literal):
            return None
        is_equal = value == literal
        if comparison is ConditionOperator.EQUAL:
            return is_equal
        return not is_equal if comparison is ConditionOperator.NOT_EQUAL else None
    return _OPERATORS[comparison](value, literal)
