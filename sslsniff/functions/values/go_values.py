"""Values of Go's types: strings, slices, maps' and channels' lengths, interfaces, functions."""

from sslsniff.fetching.fetch import FetchLimits, ValueDecoder
from sslsniff.fetching.traced_values import PointerValue, StructureValue, Value
from sslsniff.functions.dwarf.type_model import Integer, Pointer, Structure
from sslsniff.functions.values.fetch_program import (
    WORD_BYTES,
    FetchProgram,
    ValueFormat,
    ValueFormats,
)
from sslsniff.functions.values.go_interfaces import go_interface
from sslsniff.functions.values.pointer_values import pointer, sized_items
from sslsniff.functions.values.raw_values import RawValue, from_number, number_reader
from sslsniff.functions.values.structure_values import ALL_KINDS
from sslsniff.functions.values.text_values import sized_text

_LENGTHS = {"map<": "used", "hash<": "count", "hchan<": "qcount"}
"""What has the number of elements, by how the name begins of the type to which a pointer leads.

Maps since Go 1.24 (internal/runtime/maps/map.go), those before (runtime/map.go), and channels
(runtime/chan.go): the linker makes a type of each (cmd/link/internal/ld/dwarf.go).
"""


def _text(
    program: FetchProgram, described: Structure, raw: RawValue, limits: FetchLimits
) -> ValueDecoder:
    return sized_text(program, raw.part(0, WORD_BYTES), raw.part(WORD_BYTES, WORD_BYTES), limits)


def _slice(
    program: FetchProgram, described: Structure, raw: RawValue, limits: FetchLimits
) -> ValueDecoder | None:
    kind = described.members[0].type
    element = kind.target() if isinstance(kind, Pointer) else None
    if element is None:
        return None
    address, count = raw.part(0, WORD_BYTES), raw.part(WORD_BYTES, WORD_BYTES)
    return sized_items(program, element, address, count, limits)


def _pointer(
    program: FetchProgram, described: Pointer, raw: RawValue, limits: FetchLimits
) -> ValueDecoder | None:
    """Read a pointer; maps and channels are pointers to what the runtime has of them."""
    target = described.target()
    if isinstance(target, Structure):
        for start, name in _LENGTHS.items():
            length = target.member(name) if target.name.startswith(start) else None
            if length is not None and isinstance(length.type, Integer):
                size = length.type.size
                return _length(program, described.name, raw, length.offset, size)
    return pointer(program, described, raw, limits)


def _length(
    program: FetchProgram, name: str, raw: RawValue, offset: int, size: int
) -> ValueDecoder:
    """Read how many elements there are ``offset`` bytes from where a pointer leads."""

    def make() -> ValueDecoder:
        count = number_reader(program.follow(raw, size, offset))

        def decode(data: bytes, failed: int, number: int) -> Value:
            length = count(data, failed)
            if length is None:
                return PointerValue(number, name)
            return StructureValue(name, (("len", length),))

        read = number_reader(raw)
        plain = from_number(raw, lambda number: PointerValue(number, name) if number else None)
        return lambda data, failed, /: (
            decode(data, failed, number) if (number := read(data, failed)) else plain(data, failed)
        )

    return program.later(make)


_SHAPES: dict[tuple[str, ...], ValueFormat] = {
    ("str", "len"): _text,
    ("array", "len", "cap"): _slice,
    ("tab", "data"): go_interface,
    ("_type", "data"): go_interface,
}


def _structure_format(described: Structure) -> ValueFormat | None:
    return _SHAPES.get(tuple(each.name for each in described.members))


GO_FORMATS = ValueFormats({**ALL_KINDS, Pointer: _pointer}, _structure_format)
