"""Values of Rust's structures, tuples and enums.

An enum is one of several variants, which a number tells. The number is either a tag, or a value
that a field of one of the variants cannot have (a niche).
"""

from sslsniff.fetching.fetch import FetchLimits, ValueDecoder
from sslsniff.fetching.traced_values import Missing, StructureValue, Value
from sslsniff.functions.dwarf.type_model import Member, Structure, TypeVariant
from sslsniff.functions.values.fetch_program import FetchProgram
from sslsniff.functions.values.raw_values import RawValue, always, number_reader
from sslsniff.functions.values.structure_values import members_of
from sslsniff.functions.values.type_names import plain_name

_WITHOUT_MEANING = ("PhantomData", "PhantomPinned", "Global")
_TRANSPARENT = ("Cow",)
"""Enums of which only the value counts, not how it is kept."""


def rust_enum(
    program: FetchProgram, described: Structure, raw: RawValue, limits: FetchLimits
) -> ValueDecoder:
    """Read an enum: fetch what all its variants have, show the one that is there."""
    is_transparent = plain_name(described.name) in _TRANSPARENT
    decoders = [
        (each, _variant(program, each, raw, limits, is_transparent=is_transparent))
        for each in described.variants
    ]
    default = next((decode for each, decode in decoders if not each.values), None)
    discriminant = described.discriminant
    if discriminant is None:
        return default or decoders[0][1]
    there = raw.part(discriminant.offset, discriminant.type.size)
    mask = (1 << 8 * discriminant.type.size) - 1
    known = {value & mask: decode for each, decode in decoders for value in each.values}
    read = number_reader(there)
    missing = there.problem

    def decode_enum(data: bytes, failed: int, /) -> Value:
        number = read(data, failed)
        if number is None:
            return missing or Missing.UNREADABLE
        decode = known.get(number, default)
        # A number that means no variant: the value is not initialised yet.
        return decode(data, failed) if decode else Missing.UNREADABLE

    return decode_enum


def _variant(
    program: FetchProgram,
    variant: TypeVariant,
    raw: RawValue,
    limits: FetchLimits,
    *,
    is_transparent: bool,
) -> ValueDecoder:
    there = raw.part(variant.offset, variant.type.size)
    members = _members(variant.type) if isinstance(variant.type, Structure) else ()
    decode = members_of(program, variant.name, members, there, limits)
    name = variant.name

    def decode_variant(data: bytes, failed: int, /) -> Value:
        value = decode(data, failed)
        fields = value.fields if isinstance(value, StructureValue) else (("0", value),)
        if is_transparent and len(fields) == 1:
            return fields[0][1]
        return StructureValue(name, fields, is_variant=True)

    return decode_variant


def rust_structure(
    program: FetchProgram, described: Structure, raw: RawValue, limits: FetchLimits
) -> ValueDecoder:
    """Read a structure or tuple, without members that only matter to the compiler."""
    if limits.depth <= 0:
        return always(Missing.TOO_MUCH)
    return members_of(program, described.name, _members(described), raw, limits.deeper())


def _members(described: Structure) -> tuple[Member, ...]:
    return tuple(
        Member(_member_name(each.name), each.offset, each.type, each.bits)
        for each in described.members
        if each.type.size or plain_name(each.type.name) not in _WITHOUT_MEANING
    )


def _member_name(name: str) -> str:
    return name[2:] if name.startswith("__") and name[2:].isdigit() else name
