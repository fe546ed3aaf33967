"""Types in the form of messages: a table, whose rows refer to others by their indices.

What a type consists of is in rows before its own. What a pointer leads to, and the arguments of a
template, may be in any row, because types may lead to themselves. The table has what was read of
them: to describe the values of a place, a worker reads as much as sslsniff needs after it.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from sslsniff.analysis.checked_fields import (
    boolean,
    items,
    number_in,
    optional_number,
    text,
)
from sslsniff.functions.dwarf.type_model import (
    Array,
    Boolean,
    Character,
    Enumeration,
    Floating,
    Integer,
    Member,
    Pointer,
    ReadLater,
    Structure,
    Type,
    TypeVariant,
    UnknownType,
)

_Row = list[Any]
_FARTHEST = 1 << 128  # beyond sizes and offsets of any type: an array of arrays has their product
_MOST_NESTED = 400
"""Types inside of each other; those of debug info are 100 at most."""

_PLAIN: dict[type[Type], str] = {
    UnknownType: "unknown",
    Boolean: "boolean",
    Character: "character",
    Floating: "floating",
}
_PLAIN_BY_NAME = {name: kind for kind, name in _PLAIN.items()}


class TypeTable:
    """Collects types, and what they consist of and lead to, as rows."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._indices: dict[int, int] = {}
        self._types: list[Type] = []  # each stays alive: no other gets its id
        self._waiting: deque[Callable[[], None]] = deque()

    def index(self, described: Type) -> int:
        """Return the index of a type's row."""
        found = self._indices.get(id(described))
        if found is None:
            row = self._row(described)
            found = self._indices[id(described)] = len(self._rows)
            self._rows.append(row)
            self._types.append(described)
        return found

    def rows(self) -> list[_Row]:
        """Return all rows; ``parse_types`` is the inverse."""
        while self._waiting:
            self._waiting.popleft()()
        return self._rows

    def _row(self, described: Type) -> _Row:
        first: _Row = [described.name, described.size]
        match described:
            case Integer():
                return ["integer", *first, described.is_signed]
            case Enumeration():
                names = [*described.names.items()]
                return ["enumeration", *first, described.is_signed, names]
            case Pointer():
                row: _Row = ["pointer", *first, described.is_reference, None]
                self._later(row, described.target, self._target)
                return row
            case Array():
                element = self.index(described.element)
                return ["array", *first, element, described.count, described.is_vector]
            case Structure():
                return self._structure(first, described)
        return [_PLAIN[type(described)], *first]

    def _structure(self, first: _Row, described: Structure) -> _Row:
        row = [
            "structure",
            *first,
            [self._member(each) for each in described.members],
            described.is_union,
            [
                (each.name, sorted(each.values), self.index(each.type), each.offset)
                for each in described.variants
            ],
            None if described.discriminant is None else self._member(described.discriminant),
            described.is_passed_by_reference,
            None,
        ]
        self._later(row, described.type_arguments, self._arguments)
        return row

    def _member(self, member: Member) -> _Row:
        return [member.name, member.offset, self.index(member.type), member.bits]

    def _later(self, row: _Row, read: Callable[[], Any], as_field: Callable[[Any], Any]) -> None:
        """Set the row's last field to what ``read`` returns, if it was read."""

        def fill() -> None:
            if not isinstance(read, ReadLater):
                row[-1] = as_field(read())
            elif read.result is not None:
                row[-1] = as_field(read.result[0])

        self._waiting.append(fill)

    def _target(self, described: Type | None) -> int | None:
        return None if described is None else self.index(described)

    def _arguments(self, arguments: Mapping[str, Type]) -> dict[str, int]:
        return {name: self.index(each) for name, each in arguments.items()}


def parse_types(rows: Any) -> list[Type]:
    """Return the types in a message, by their indices; raises one of ``INVALID``."""
    reader = _TableReader(len(items(rows)))
    for row in rows:
        reader.add(row)
    return reader.types


class _TableReader:
    def __init__(self, count: int) -> None:
        self.types: list[Type] = []
        self._count = count
        self._nested: list[int] = []
        self._deepest = 0

    def add(self, row: Any) -> None:
        self._deepest = 0
        kind, name, size, *rest = items(row)
        found = self._read(kind, text(name), _distance(size), rest)
        if self._deepest >= _MOST_NESTED:
            raise ValueError
        self._nested.append(self._deepest + 1)
        self.types.append(found)

    def _read(self, kind: Any, name: str, size: int, rest: Sequence[Any]) -> Type:
        match kind:
            case "integer":
                (is_signed,) = rest
                return Integer(name=name, size=size, is_signed=boolean(is_signed))
            case "enumeration":
                is_signed, names = rest
                known = {_distance(value): text(each) for value, each in items(names)}
                signed = boolean(is_signed)
                return Enumeration(name=name, size=size, is_signed=signed, names=known)
            case "pointer":
                is_reference, target = rest
                index = optional_number(target, 0, self._count)
                return Pointer(
                    name=name,
                    size=size,
                    target=partial(_at, self.types, index),
                    is_reference=boolean(is_reference),
                )
            case "array":
                element, count, is_vector = rest
                return Array(
                    name=name,
                    size=size,
                    element=self._inner(element),
                    count=None if count is None else _distance(count),
                    is_vector=boolean(is_vector),
                )
            case "structure":
                return self._structure(name, size, *rest)
        return _PLAIN_BY_NAME[kind](name=name, size=size)

    def _inner(self, index: Any) -> Type:
        """Return a type that the next one has in it: it must be known already."""
        at = number_in(index, 0, len(self.types))
        self._deepest = max(self._deepest, self._nested[at])
        return self.types[at]

    def _structure(
        self,
        name: str,
        size: int,
        members: Any,
        is_union: Any,
        variants: Any,
        discriminant: Any,
        is_passed_by_reference: Any,
        arguments: Any,
    ) -> Structure:
        indices = {
            text(each): number_in(index, 0, self._count)
            for each, index in ({} if arguments is None else arguments).items()
        }
        return Structure(
            name=name,
            size=size,
            members=tuple(self._member(*each) for each in items(members)),
            is_union=boolean(is_union),
            variants=tuple(self._variant(*each) for each in items(variants)),
            discriminant=None if discriminant is None else self._member(*discriminant),
            is_passed_by_reference=boolean(is_passed_by_reference),
            type_arguments=partial(_all_at, self.types, indices),
        )

    def _member(self, name: Any, offset: Any, index: Any, bits: Any) -> Member:
        field = None
        if bits is not None:
            first, width = bits
            field = number_in(first, 0, _FARTHEST), number_in(width, 1, _FARTHEST)
            if max(field) > _MOST_BITS:
                raise ValueError
        return Member(text(name), _distance(offset), self._inner(index), field)

    def _variant(self, name: Any, values: Any, index: Any, offset: Any) -> TypeVariant:
        known = frozenset(map(_distance, items(values)))
        return TypeVariant(text(name), known, self._inner(index), _distance(offset))


_MOST_BITS = 1 << 16


def _at(types: Sequence[Type], index: int | None) -> Type | None:
    return None if index is None else types[index]


def _all_at(types: Sequence[Type], indices: Mapping[str, int]) -> dict[str, Type]:
    return {name: types[index] for name, index in indices.items()}


def _distance(value: Any) -> int:
    return number_in(value, -_FARTHEST, _FARTHEST)
