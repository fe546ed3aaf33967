"""Numbers, characters and enumerations, which all languages have."""

import math
import struct

from sslsniff.fetching.fetch import FetchLimits, ValueDecoder
from sslsniff.fetching.traced_values import Missing, NamedNumber, Value
from sslsniff.functions.dwarf.type_model import (
    Boolean,
    Character,
    Enumeration,
    Floating,
    Integer,
    Type,
)
from sslsniff.functions.values.fetch_program import FetchProgram
from sslsniff.functions.values.raw_values import RawValue, always, from_bytes, from_number

_MOST_CODE_POINT = 0x10FFFF
_NULL_TYPES = ("nullptr_t", "decltype(nullptr)")
_SURROGATES = range(0xD800, 0xE000)
_EXTENDED_BYTES = 16  # x87's 80 bits, with padding


def integer(
    program: FetchProgram, described: Integer, raw: RawValue, limits: FetchLimits
) -> ValueDecoder:
    """Read a whole number of any size."""
    return from_number(raw, is_signed=described.is_signed)


def boolean(
    program: FetchProgram, described: Boolean, raw: RawValue, limits: FetchLimits
) -> ValueDecoder:
    """Read true or false."""
    return from_number(raw, bool)


def character(
    program: FetchProgram, described: Character, raw: RawValue, limits: FetchLimits
) -> ValueDecoder:
    """Read a character; ``unsigned char`` and ``signed char`` are integers."""
    return from_number(raw, _character)


def _character(number: int) -> Value:
    return number if number > _MOST_CODE_POINT or number in _SURROGATES else chr(number)


def is_text(described: Type | None) -> bool:
    """Say whether several of a type are text: ``char``, but not ``unsigned char``."""
    return isinstance(described, Character)


def floating(
    program: FetchProgram, described: Floating, raw: RawValue, limits: FetchLimits
) -> ValueDecoder:
    """Read a floating-point number of IEEE 754, or of the x87."""
    form = {4: "<f", 8: "<d"}.get(described.size)
    if form:
        return from_bytes(raw, lambda data: _unpacked(form, data))
    return (
        from_bytes(raw, _extended)
        if described.size == _EXTENDED_BYTES
        else always(Missing.UNKNOWN_TYPE)
    )


def _unpacked(form: str, data: bytes) -> float:
    (number,) = struct.unpack(form, data)
    if form == "<d" or not math.isfinite(number):
        return float(number)
    # The shortest decimal number that is the same one with 24 bits: 1.1, not 1.10000002384.
    texts = (f"{number:.{digits}g}" for digits in range(6, 10))
    return next((float(each) for each in texts if struct.pack(form, float(each)) == data), number)


def _extended(data: bytes) -> float:
    """Return a number of the x87: a mantissa of 64 bits, an exponent of 15, a sign."""
    mantissa, top = struct.unpack_from("<QH", data)
    exponent = top & 0x7FFF
    if exponent == 0x7FFF:
        number = math.inf if mantissa << 1 & (1 << 64) - 1 == 0 else math.nan
    else:
        try:
            number = math.ldexp(mantissa, exponent - 16383 - 63)
        except OverflowError:
            number = math.inf
    return -number if top >> 15 else number


def enumeration(
    program: FetchProgram, described: Enumeration, raw: RawValue, limits: FetchLimits
) -> ValueDecoder:
    """Read a number that has a name."""
    names = described.names
    return from_number(
        raw,
        lambda number: NamedNumber(names.get(number), number),
        is_signed=described.is_signed,
    )


def unknown(
    program: FetchProgram, described: Type, raw: RawValue, limits: FetchLimits
) -> ValueDecoder:
    """Read nothing; the type of ``nullptr`` has only that value."""
    return always(None if described.name in _NULL_TYPES else Missing.UNKNOWN_TYPE)
