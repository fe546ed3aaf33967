"""Structures and arrays, and how each kind of type is read."""

from collections.abc import Callable, Iterator

from sslsniff.fetching.fetch import FetchLimits, ValueDecoder
from sslsniff.fetching.traced_values import Items, Missing, NamedNumber, StructureValue, Value
from sslsniff.functions.dwarf.type_model import (
    Array,
    Boolean,
    Character,
    Enumeration,
    Floating,
    Integer,
    Member,
    Pointer,
    Structure,
    Type,
    UnknownType,
)
from sslsniff.functions.values.fetch_program import FetchProgram, ValueFormat
from sslsniff.functions.values.pointer_values import pointer
from sslsniff.functions.values.raw_values import RawValue, always, from_number
from sslsniff.functions.values.scalar_values import (
    boolean,
    character,
    enumeration,
    floating,
    integer,
    is_text,
    unknown,
)
from sslsniff.functions.values.text_values import text_array

_MOST_MEMBERS = 64


def array(
    program: FetchProgram, described: Array, raw: RawValue, limits: FetchLimits
) -> ValueDecoder:
    """Read an array; one of characters is text."""
    element, count = described.element, described.count
    if count is None or not element.size:
        return always(Missing.UNKNOWN_TYPE)
    fetched = raw.fetched_bytes // element.size
    if is_text(element) and element.size == 1:
        return text_array(raw, count, min(fetched, limits.text_bytes))
    if limits.depth <= 0 and not isinstance(element, Integer | Boolean | Character | Floating):
        return always(Missing.TOO_MUCH)
    shown = min(count, limits.items, fetched)
    if count and not shown:
        return always(raw.problem or Missing.TOO_MUCH)
    decoders = [
        program.value(element, raw.part(index * element.size, element.size), limits.for_each_item())
        for index in range(shown)
    ]
    return lambda data, failed, /: Items(
        tuple(each(data, failed) for each in decoders), count - shown
    )


def structure(
    program: FetchProgram, described: Structure, raw: RawValue, limits: FetchLimits
) -> ValueDecoder:
    """Read a structure by its members."""
    if limits.depth <= 0:
        return always(Missing.TOO_MUCH)
    members = (*shown_members(described),)
    return members_of(program, described.name, members, raw, limits.deeper())


def members_of(
    program: FetchProgram,
    name: str,
    members: tuple[Member, ...],
    raw: RawValue,
    limits: FetchLimits,
) -> ValueDecoder:
    """Read the members of a structure called ``name``; missing if all are, for one reason."""
    decoders = [
        (each.name, member_decoder(program, each, raw, limits)) for each in members[:_MOST_MEMBERS]
    ]
    if len(members) > _MOST_MEMBERS:
        decoders.append(("...", always(Missing.TOO_MUCH)))

    def decode_structure(data: bytes, failed: int, /) -> Value:
        fields = tuple((each, decode(data, failed)) for each, decode in decoders)
        reasons = {each for _, each in fields if isinstance(each, Missing)}
        if len(reasons) == 1 and all(isinstance(each, Missing) for _, each in fields):
            return reasons.pop()
        return StructureValue(name, fields)

    return decode_structure


def _is_anonymous(member: Member) -> bool:
    return not member.name and isinstance(member.type, Structure)


def shown_members(
    described: Structure,
    base: int = 0,
    is_inlined: Callable[[Member], bool] = _is_anonymous,
) -> Iterator[Member]:
    """Yield the members; those of an anonymous one, and of one that ``is_inlined``, as its own."""
    for each in described.members:
        offset = base + each.offset
        if isinstance(each.type, Structure) and (_is_anonymous(each) or is_inlined(each)):
            yield from shown_members(each.type, offset, is_inlined)
        elif not each.name.startswith("_vptr"):  # of virtual functions, not the programmer's
            yield Member(each.name, offset, each.type, each.bits)


def member_decoder(
    program: FetchProgram, member: Member, raw: RawValue, limits: FetchLimits
) -> ValueDecoder:
    """Return what reads a member of the structure at ``raw``."""
    if member.bits is None:
        return program.value(member.type, raw.part(member.offset, member.type.size), limits)
    first, width = member.bits
    is_signed = isinstance(member.type, Integer | Enumeration) and member.type.is_signed
    names = member.type.names if isinstance(member.type, Enumeration) else None

    def decode(number: int) -> Value:
        bits = number >> first & (1 << width) - 1
        if is_signed and bits >> (width - 1):
            bits -= 1 << width
        if names is not None:
            return NamedNumber(names.get(bits), bits)
        return bool(bits) if isinstance(member.type, Boolean) else bits

    return from_number(raw.part(member.offset, (first + width + 7) // 8), decode)


ALL_KINDS: dict[type[Type], ValueFormat] = {
    Integer: integer,
    Boolean: boolean,
    Character: character,
    Floating: floating,
    Enumeration: enumeration,
    Pointer: pointer,
    Array: array,
    Structure: structure,
    UnknownType: unknown,
}
