"""What a type of C++'s standard library has inside.

Its members have names that begin with two underscores, or with one and a capital letter, as only a
standard library's may (C++ [lex.name]): the name of a type can be any by ``typedef``.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from sslsniff.functions.dwarf.type_model import Member, Pointer, Structure
from sslsniff.functions.values.raw_values import RawValue
from sslsniff.functions.values.scalar_values import is_text

_MOST_PARTS = 256
_RESERVED = re.compile(r"_[A-Z_]")
_VIRTUAL_TABLE = "_vptr"
_CONTENTS = frozenset(("_M_value", "__val_", "_M_head_impl", "_M_storage", "_M_i", "__value"))
"""Members whose type is that of the value that the programmer put there."""
# libstdc++'s and libc++'s elements of std::tuple
_ELEMENT = re.compile(r"(?:_Head_base|__tuple_leaf)(?:<(\d+)|$)")


class StandardParts:
    """The members of a type and of what it consists of, with offsets in the whole.

    The search goes only through members and base classes with reserved names: not into a text that
    is a member of the programmer's structure.
    """

    def __init__(self, described: Structure) -> None:
        self.described = described
        self._members: dict[str, Member] = {}
        if not _is_of_library(described):
            return
        for member in _reserved_members(described):
            if member.name.startswith(_VIRTUAL_TABLE):  # a stream: what it contains is not its text
                self._members.clear()
                return
            self._members.setdefault(member.name, member)

    def __getitem__(self, name: str) -> Member:
        return self._members[name]

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def has(self, names: frozenset[str]) -> bool:
        """Say whether all of these members are there."""
        return names <= self._members.keys()

    def direct(self) -> Iterator[str]:
        """Yield the names of the type's own members."""
        return (each.name for each in self.described.members)

    def first_of_pair(self, name: str) -> Member:
        """Return a member; if it is a pair of which libc++ leaves empty parts out, its first part.

        That library had ``__compressed_pair`` until LLVM 19.
        """
        member = self[name]
        if not isinstance(member.type, Structure):
            return member
        inside = next(
            (each for each in _reserved_members(member.type) if each.name == "__value_"), None
        )
        return _moved(inside, member.offset) if inside else member

    def elements(self) -> tuple[Member, ...]:
        """Return the elements of a tuple, in order, with their numbers as names."""
        found: dict[int, Member] = {}
        for each in _reserved_members(self.described):
            number = _ELEMENT.match(each.type.name) if isinstance(each.type, Structure) else None
            if number and isinstance(each.type, Structure) and each.type.members:
                [element, *_] = each.type.members
                # Names may be without arguments (-gsimple-template-names of clang).
                index = int(number[1] or len(found))
                member = Member(str(index), each.offset + element.offset, element.type)
                found.setdefault(index, member)
        return tuple(found[index] for index in sorted(found))


class VariantPart(NamedTuple):
    """The names of the members of a union that has the alternatives of a ``std::variant``."""

    first: str
    rest: str


def alternatives(union: Member, names: VariantPart) -> Iterator[Member]:
    """Yield what a ``std::variant`` may have: each is in the rest of the one before."""
    while isinstance(union.type, Structure):
        first, rest = union.type.member(names.first), union.type.member(names.rest)
        if first is None or not isinstance(first.type, Structure) or not first.type.members:
            return
        at = union.offset + first.offset
        [value, *_] = first.type.members
        # libstdc++ has bytes in place of a type that is not trivial.
        kind = first.type.type_arguments().get("_Type", value.type)
        yield Member("", at + value.offset, kind)
        if rest is None:
            return
        union = _moved(rest, union.offset)


def part_of(raw: RawValue, member: Member) -> RawValue:
    """Return the bytes of a member of the value at ``raw``."""
    return raw.part(member.offset, member.type.size)


def leads_to_text(member: Member) -> bool:
    """Say whether a member is a pointer to text."""
    target = member.type.target() if isinstance(member.type, Pointer) else None
    return target is not None and target.size == 1 and is_text(target)


def _is_of_library(described: Structure) -> bool:
    """Say whether all members have names that only a standard library may give."""
    is_reserved = False
    for each in described.members:
        if not each.name and isinstance(each.type, Structure):
            is_reserved |= _is_of_library(each.type)
        elif _RESERVED.match(each.name):
            is_reserved = True
        elif not isinstance(each.type, Structure) or each.name != each.type.name:
            return False  # no base class: the programmer's
    return is_reserved


def _reserved_members(described: Structure) -> Iterator[Member]:
    """Yield the members with reserved names, and theirs, nearest first."""
    waiting = [(0, described)]
    for offset, structure in waiting:
        for each in structure.members:
            is_virtual_table = each.name.startswith(_VIRTUAL_TABLE)
            if each.name and not is_virtual_table and not _RESERVED.match(each.name):
                continue
            at = offset + each.offset
            if each.name:
                yield Member(each.name, at, each.type, each.bits)
            is_content = each.name in _CONTENTS or len(waiting) >= _MOST_PARTS
            if isinstance(each.type, Structure) and not is_content:
                waiting.append((at, each.type))


def _moved(member: Member, offset: int) -> Member:
    return Member(member.name, member.offset + offset, member.type, member.bits)
