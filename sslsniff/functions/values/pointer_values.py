"""Pointers with what they lead to, and elements by their address and number."""

from sslsniff.fetching.fetch import FetchLimits, ValueDecoder
from sslsniff.fetching.traced_values import (
    FollowedPointer,
    Items,
    Missing,
    PointerValue,
    StructureValue,
    Value,
)
from sslsniff.functions.dwarf.type_model import Character, Integer, Pointer, Type
from sslsniff.functions.values.fetch_program import FetchProgram
from sslsniff.functions.values.raw_values import RawValue, always, from_number, number_reader
from sslsniff.functions.values.scalar_values import is_text
from sslsniff.functions.values.text_values import counted, text_to_zero

_MOST_SIZED_BYTES = 512
"""Of the elements of one slice or vector."""


def pointer(
    program: FetchProgram, described: Pointer, raw: RawValue, limits: FetchLimits
) -> ValueDecoder:
    """Read a pointer: with the text or the value that it leads to, if that is known."""
    target = described.target()
    if is_text(target) and not described.is_reference and target and target.size == 1:
        return program.later(lambda: text_to_zero(program, raw, limits))
    if target is None or (_is_byte(target) and not described.is_reference):
        return plain_pointer(raw, target.name if target else "")
    return followed(program, target, raw, limits, is_reference=described.is_reference)


def _is_byte(described: Type) -> bool:
    """Say whether a type is a byte without a meaning, of which a pointer says little."""
    return isinstance(described, Integer | Character) and described.size == 1


def followed(
    program: FetchProgram,
    target: Type,
    raw: RawValue,
    limits: FetchLimits,
    *,
    is_reference: bool,
    offset: int = 0,
) -> ValueDecoder:
    """Read a pointer with the value to which it leads.

    ``is_reference``: only the value counts, the pointer is shown if it cannot be read.
    ``offset``: of the value from where the pointer leads.
    """
    if not target.size or program.is_too_deep(target, limits):
        return plain_pointer(raw, target.name)
    return program.later(lambda: _followed(program, target, raw, limits, is_reference, offset))


def plain_pointer(raw: RawValue, target: str) -> ValueDecoder:
    """Read a pointer without what it leads to."""
    return from_number(raw, lambda number: PointerValue(number, target) if number else None)


def _followed(
    program: FetchProgram,
    target: Type,
    raw: RawValue,
    limits: FetchLimits,
    is_reference: bool,
    offset: int,
) -> ValueDecoder:
    there = program.follow(raw, target.size, offset)
    decode = program.value(target, there, limits.deeper())
    read = number_reader(raw)
    missing, items = raw.problem, there.items

    def decode_pointer(data: bytes, failed: int, /) -> Value:
        number = read(data, failed)
        if number is None:
            return missing or Missing.UNREADABLE
        if number == 0:
            return None
        if failed & items:
            return PointerValue(number, target.name)
        value = decode(data, failed)
        if is_reference:
            return value
        if isinstance(value, Missing):
            return PointerValue(number, target.name)
        return FollowedPointer(number, value)

    return decode_pointer


def sized_items(
    program: FetchProgram,
    element: Type,
    address: RawValue,
    count: RawValue,
    limits: FetchLimits,
    *,
    is_in_bytes: bool = False,
) -> ValueDecoder:
    """Read elements one after the other, whose number, or bytes, are at ``count``."""
    if limits.depth <= 0:
        return always(Missing.TOO_MUCH)

    def make() -> ValueDecoder:
        size = max(element.size, 1)
        unit = size if is_in_bytes else 1
        most = max(min(limits.items, _MOST_SIZED_BYTES // size), 1)
        there = program.follow_items(address, count, size // unit, most * unit)
        decoders = [
            program.value(element, there.part(index * size, element.size), limits.for_each_item())
            for index in range(most)
        ]

        def decode_items(number: int) -> ValueDecoder:
            total = number // unit
            if total and there.problem is not None:
                return always(there.problem)
            shown = decoders[:total]
            return lambda data, failed, /: (
                Missing.UNREADABLE
                if total and failed & there.items
                else Items(tuple(each(data, failed) for each in shown), total - len(shown))
            )

        return counted(count, decode_items)

    return program.later(make)


def length_only(count: RawValue, name: str) -> ValueDecoder:
    """Read how many elements a collection called ``name`` has."""
    return from_number(count, lambda number: StructureValue(name, (("len", number),)))
