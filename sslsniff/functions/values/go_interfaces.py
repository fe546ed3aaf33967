"""Values of Go's interfaces: with the name of the type of what is in one.

An interface has the address of that type, and a pointer to the value, or the value itself if it is
a pointer (src/runtime/runtime2.go: iface, eface; src/internal/abi/type.go: Type).
"""

import struct

from sslsniff.fetching.fetch import FetchLimits, ValueDecoder
from sslsniff.fetching.fetch_steps import FetchStep, StepKind
from sslsniff.fetching.locations import RIP, push_register
from sslsniff.fetching.traced_values import Missing, PointerValue, StructureValue, Value
from sslsniff.functions.dwarf.type_model import Structure
from sslsniff.functions.values.fetch_program import WORD_BYTES, FetchProgram
from sslsniff.functions.values.raw_values import RawValue, number_reader
from sslsniff.functions.values.text_values import sized_text

_TYPE_OF_TABLE = WORD_BYTES  # internal/abi.ITab.Type

_BOOL, _STRING, _POINTER = 1, 24, 22
_NUMBERS = {
    **{2: "<q", 3: "<b", 4: "<h", 5: "<i", 6: "<q", 7: "<Q", 8: "<B", 9: "<H", 10: "<I", 11: "<Q"},
    **{12: "<Q", 13: "<f", 14: "<d", _BOOL: "<?"},
}
"""How numbers are stored, by the kind of their type."""
_COMPLEX = {15: "<ff", 16: "<dd"}

_ERRORS_OF_TEXT = ("*errors.errorString", "*fmt.wrapError", "*fmt.wrapErrors")
"""Pointers to what begins with the error's text."""
_WORDS_OF_TEXT = 2


def go_interface(
    program: FetchProgram, described: Structure, raw: RawValue, limits: FetchLimits
) -> ValueDecoder:
    """Read an interface: the name of the type in it, with numbers, text and errors in full."""
    has_table = described.members[0].name == "tab"
    first, second = raw.part(0, WORD_BYTES), raw.part(WORD_BYTES, WORD_BYTES)

    def make() -> ValueDecoder:
        kind = first
        if has_table:
            read_type = FetchStep(StepKind.READ, _TYPE_OF_TABLE, item=WORD_BYTES)
            kind = program.compute((*program.load(first), read_type), first)
        here = program.compute(push_register(RIP))
        there = program.follow(second, _WORDS_OF_TEXT * WORD_BYTES)
        text = sized_text(
            program, there.part(0, WORD_BYTES), there.part(WORD_BYTES, WORD_BYTES), limits
        )
        return _interface_decoder(program, first, kind, here, second, there, text)

    return program.later(make)


def _interface_decoder(
    program: FetchProgram,
    first: RawValue,
    kind: RawValue,
    here: RawValue,
    second: RawValue,
    there: RawValue,
    text: ValueDecoder,
) -> ValueDecoder:
    read_first, read_kind, read_here = map(number_reader, (first, kind, here))
    read_pointer, read_there = number_reader(second), number_reader(there)

    def decode(data: bytes, failed: int, /) -> Value:
        interface, pointer = read_first(data, failed), read_pointer(data, failed)
        if interface is None or pointer is None:
            return first.problem or second.problem or Missing.UNREADABLE
        if not interface:
            return None
        address, place = read_kind(data, failed), read_here(data, failed)
        found = None
        if address is not None and place is not None and program.go_types:
            found = program.go_types.at(address - place + program.place)
        if found is None:
            return PointerValue(pointer, "interface")
        value: Value = PointerValue(pointer)
        number = read_there(data, failed)
        if found.kind == _STRING or found.name in _ERRORS_OF_TEXT:
            value = text(data, failed)
        elif found.kind in _NUMBERS and number is not None:
            words = number.to_bytes(_WORDS_OF_TEXT * WORD_BYTES, "little")
            (value,) = struct.unpack_from(_NUMBERS[found.kind], words)
        elif found.kind in _COMPLEX and number is not None:
            words = number.to_bytes(_WORDS_OF_TEXT * WORD_BYTES, "little")
            real, imaginary = struct.unpack_from(_COMPLEX[found.kind], words)
            value = StructureValue("", (("real", real), ("imag", imaginary)))
        return StructureValue(found.name, (("0", value),), is_variant=True)

    return decode
