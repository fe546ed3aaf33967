"""Text of C++'s standard libraries: ``std::string`` and ``std::string_view``."""

from sslsniff.fetching.fetch import FetchLimits, ValueDecoder
from sslsniff.fetching.traced_values import Text, Value
from sslsniff.functions.dwarf.type_model import Character, Pointer, Structure
from sslsniff.functions.values.cpp.standard_parts import StandardParts, leads_to_text, part_of
from sslsniff.functions.values.fetch_program import FetchProgram
from sslsniff.functions.values.pointer_values import sized_items
from sslsniff.functions.values.raw_values import RawValue, from_bytes, number_reader
from sslsniff.functions.values.text_values import shown_text, sized_text, text_to_zero


def string(
    program: FetchProgram, parts: StandardParts, raw: RawValue, limits: FetchLimits
) -> ValueDecoder | None:
    """Read libstdc++'s ``std::string``: its pointer leads to the text, also to one inside of it."""
    if "_M_string_length" in parts:
        return view(program, parts, raw, limits, address="_M_p", count="_M_string_length")
    if not leads_to_text(parts["_M_p"]):
        return None
    address = part_of(raw, parts["_M_p"])  # shared text of before 2011
    return program.later(lambda: text_to_zero(program, address, limits))


def string_of_libcxx(
    program: FetchProgram, parts: StandardParts, raw: RawValue, limits: FetchLimits
) -> ValueDecoder | None:
    """Read libc++'s ``std::string``: the lowest bit says whether the text is elsewhere."""
    long_form, short_form = parts["__l"], parts["__s"]
    if not isinstance(long_form.type, Structure) or not isinstance(short_form.type, Structure):
        return None
    address, count = long_form.type.member("__data_"), long_form.type.member("__size_")
    inside = short_form.type.member("__data_")
    if address is None or count is None or inside is None or inside.offset != 1:
        return None
    if not leads_to_text(address):
        return None
    whole = raw.part(long_form.offset, long_form.type.size)
    elsewhere = sized_text(program, part_of(whole, address), part_of(whole, count), limits)
    here = from_bytes(whole, lambda data: Text(shown_text(data[1 : 1 + (data[0] >> 1)])))
    first = number_reader(whole.part(0, 1))

    def decode(data: bytes, failed: int, /) -> Value:
        is_long = (first(data, failed) or 0) & 1
        return elsewhere(data, failed) if is_long else here(data, failed)

    return decode


def view(
    program: FetchProgram,
    parts: StandardParts,
    raw: RawValue,
    limits: FetchLimits,
    *,
    address: str,
    count: str,
) -> ValueDecoder | None:
    """Read text, or elements of another type, by address and number."""
    start, number = part_of(raw, parts[address]), part_of(raw, parts[count])
    if leads_to_text(parts[address]):
        return sized_text(program, start, number, limits)
    kind = parts[address].type
    element = kind.target() if isinstance(kind, Pointer) else None
    if element is None or not element.size:
        return None
    if isinstance(element, Character):  # wide characters are as simple as text
        limits = limits._replace(depth=max(limits.depth, 1))
    return sized_items(program, element, start, number, limits)
