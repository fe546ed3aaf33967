"""The layout of a type: its numbers and pointers by their offsets, and its alignment."""

from collections.abc import Iterator
from typing import NamedTuple

from sslsniff.functions.dwarf.type_model import Array, Floating, Structure, Type, UnknownType

_MOST_ELEMENTS = 64


class LaidOutNumber(NamedTuple):
    """A number, pointer or vector in a type, at ``offset`` bytes; ``bits``: of a bit field."""

    offset: int
    type: Type
    bits: tuple[int, int] | None = None

    @property
    def last_byte(self) -> int:
        """The offset of its last byte."""
        if self.bits is not None:
            return self.offset + (sum(self.bits) - 1) // 8
        return self.offset + self.type.size - 1

    @property
    def first_byte(self) -> int:
        """The offset of its first byte."""
        return self.offset + self.bits[0] // 8 if self.bits is not None else self.offset


def numbers_of(type: Type, offset: int = 0) -> Iterator[LaidOutNumber]:
    """Yield what a type consists of; of a union, or an enum of Rust, all that may be there.

    Of a long array it yields the first elements: no such type fits into registers.
    """
    if isinstance(type, Structure):
        for member in type.members:
            if member.bits is not None:
                yield LaidOutNumber(offset + member.offset, member.type, member.bits)
            else:
                yield from numbers_of(member.type, offset + member.offset)
        if type.discriminant is not None:
            yield from numbers_of(type.discriminant.type, offset + type.discriminant.offset)
        for variant in type.variants:
            yield from numbers_of(variant.type, offset + variant.offset)
    elif isinstance(type, Array) and not type.is_vector:
        for index in range(min(type.count or 0, _MOST_ELEMENTS)):
            yield from numbers_of(type.element, offset + index * type.element.size)
    elif type.size:
        yield LaidOutNumber(offset, type)


def alignment(type: Type) -> int:
    """Return the alignment that a type has by its numbers, in bytes; a packed one has a smaller."""
    if isinstance(type, Array) and not type.is_vector:
        return alignment(type.element)
    if isinstance(type, Structure):
        parts = [each.type for each in type.members] + [each.type for each in type.variants]
        if type.discriminant is not None:
            parts.append(type.discriminant.type)
        return max(map(alignment, parts), default=1)
    return max(min(type.size, 16), 1)


def is_known(type: Type) -> bool:
    """Say whether the debug info describes all parts of a type."""
    return not any(isinstance(each.type, UnknownType) for each in numbers_of(type))


def is_floating(type: Type) -> bool:
    """Say whether a number is passed in vector registers or those of the x87."""
    return isinstance(type, Floating | Array)


def align(offset: int, alignment: int) -> int:
    """Return the next multiple of ``alignment``."""
    return -(-offset // alignment) * alignment
