"""Values of Rust's types: references, text, slices, and those of the standard library.

The names of the members are those of std since 1.60 or so; a type with other members is shown as
the structure that it is.
"""

import re
from collections.abc import Iterator

from sslsniff.fetching.fetch import FetchLimits, ValueDecoder
from sslsniff.fetching.traced_values import StructureValue
from sslsniff.functions.dwarf.type_model import Integer, Member, Pointer, Structure, Type
from sslsniff.functions.values.fetch_program import (
    WORD_BYTES,
    FetchProgram,
    ValueFormat,
    ValueFormats,
)
from sslsniff.functions.values.pointer_values import (
    followed,
    length_only,
    plain_pointer,
    sized_items,
)
from sslsniff.functions.values.raw_values import RawValue, always
from sslsniff.functions.values.rust_structures import rust_enum, rust_structure
from sslsniff.functions.values.structure_values import ALL_KINDS, member_decoder
from sslsniff.functions.values.text_values import sized_text
from sslsniff.functions.values.type_names import plain_name

_TEXTS = re.compile(r"\b(?:str|Path|OsStr)\b")
_OWNING = ("&", "alloc::boxed::Box<")
_COUNTERS_BYTES = 2 * WORD_BYTES  # of strong and weak references, before the value of Rc and Arc
_MOST_NESTED = 8


def _pointer(
    program: FetchProgram, described: Pointer, raw: RawValue, limits: FetchLimits
) -> ValueDecoder:
    """Read a reference or box as what it leads to, and a raw pointer."""
    target = described.target()
    if target is None:
        return plain_pointer(raw, "")
    is_reference = described.is_reference or described.name.startswith(_OWNING)
    return followed(program, target, raw, limits, is_reference=is_reference)


def _unit_or_integer(
    program: FetchProgram, described: Integer, raw: RawValue, limits: FetchLimits
) -> ValueDecoder | None:
    """Read a whole number; ``()`` is a number without bytes in Rust's debug info."""
    if not described.size:
        return always(StructureValue(described.name))
    return ALL_KINDS[Integer](program, described, raw, limits)


def _slice(
    program: FetchProgram, described: Structure, raw: RawValue, limits: FetchLimits
) -> ValueDecoder | None:
    """Read ``&str``, ``&[T]``, and boxes of them: an address and a length."""
    address, count = described.members
    target = address.type.target() if isinstance(address.type, Pointer) else None
    start, length = _word(raw, address.offset), _word(raw, count.offset)
    if _TEXTS.search(described.name):
        return sized_text(program, start, length, limits)
    return sized_items(program, target, start, length, limits) if target else None


def _trait_object(
    program: FetchProgram, described: Structure, raw: RawValue, limits: FetchLimits
) -> ValueDecoder:
    """Read ``dyn Trait`` as a pointer: debug info does not say what it leads to."""
    return plain_pointer(_word(raw, described.members[0].offset), described.name.removeprefix("&"))


def _text(
    program: FetchProgram, described: Structure, raw: RawValue, limits: FetchLimits
) -> ValueDecoder | None:
    """Read ``String``, ``PathBuf``, ``OsString``: at any depth a vector of bytes."""
    for offset, vector in _nested(described):
        found = _parts_of_vector(vector) if plain_name(vector.name) == "Vec" else None
        if found:
            address, count = found
            return sized_text(
                program, _word(raw, offset + address), _word(raw, offset + count), limits
            )
    return None


def _vector(
    program: FetchProgram, described: Structure, raw: RawValue, limits: FetchLimits
) -> ValueDecoder | None:
    element, found = described.type_arguments().get("T"), _parts_of_vector(described)
    if element is None or found is None:
        return None
    address, count = found
    return sized_items(program, element, _word(raw, address), _word(raw, count), limits)


def _parts_of_vector(vector: Structure) -> tuple[int, int] | None:
    """Return the offsets of the address and the length of a ``Vec``."""
    count, buffer = vector.member("len"), vector.member("buf")
    address = _pointer_within(buffer) if buffer else None
    return (address[0], count.offset) if count and address else None


def _counted_reference(
    program: FetchProgram, described: Structure, raw: RawValue, limits: FetchLimits
) -> ValueDecoder | None:
    """Read ``Rc`` and ``Arc`` as the value that is counted."""
    found = _pointer_within(described)
    if found is None:
        return None
    offset, address = found
    if isinstance(address, Structure):  # of str, or of a slice
        length = _word(raw, offset + address.members[1].offset)
        if address.members[1].name == "length" and _TEXTS.search(described.name):
            return sized_text(program, _word(raw, offset), length, limits, _COUNTERS_BYTES)
        return None
    inner = address.target()
    if not isinstance(inner, Structure) or not inner.members:
        return None
    value = next((each for each in inner.members if each.name in ("value", "data")), None)
    if value is None:
        return None
    return followed(
        program,
        value.type,
        _word(raw, offset),
        limits,
        is_reference=True,
        offset=value.offset,
    )


def _non_null(
    program: FetchProgram, described: Structure, raw: RawValue, limits: FetchLimits
) -> ValueDecoder | None:
    found = _pointer_within(described)
    if found is None:
        return None
    return program.value(found[1], raw.part(found[0], found[1].size), limits)


def _collection(
    program: FetchProgram, described: Structure, raw: RawValue, limits: FetchLimits
) -> ValueDecoder | None:
    """Read the number of elements of a map, set or list."""
    for offset, nested in _nested(described):
        for each in nested.members:
            if each.name in ("items", "length", "len") and isinstance(each.type, Integer):
                return length_only(raw.part(offset + each.offset, each.type.size), described.name)
    return None


def _wrapper(
    program: FetchProgram, described: Structure, raw: RawValue, limits: FetchLimits
) -> ValueDecoder | None:
    """Read what has only one value inside as that value."""
    wanted = _WRAPPERS[plain_name(described.name)]
    value = next((each for each in described.members if each.name in wanted), None)
    return member_decoder(program, value, raw, limits) if value else None


def _nested(described: Structure) -> Iterator[tuple[int, Structure]]:
    """Yield a structure and those in it, with their offsets."""
    waiting = [(0, 0, described)]
    while waiting:
        depth, offset, structure = waiting.pop(0)
        yield offset, structure
        if depth < _MOST_NESTED:
            waiting += [
                (depth + 1, offset + each.offset, each.type)
                for each in structure.members
                if isinstance(each.type, Structure) and each.type.size
            ]


def _pointer_within(member: Member | Structure) -> tuple[int, Pointer | Structure] | None:
    """Return the first pointer, thin or with a length or table, and its offset."""
    base = member.offset if isinstance(member, Member) else 0
    described: Type = member.type if isinstance(member, Member) else member
    if isinstance(described, Pointer):
        return base, described
    if not isinstance(described, Structure):
        return None
    for offset, structure in _nested(described):
        if tuple(each.name for each in structure.members) in _SHAPES:
            return base + offset, structure
        for each in structure.members:
            if isinstance(each.type, Pointer):
                return base + offset + each.offset, each.type
    return None


def _word(raw: RawValue, offset: int) -> RawValue:
    return raw.part(offset, WORD_BYTES)


_SHAPES: dict[tuple[str, ...], ValueFormat] = {
    ("data_ptr", "length"): _slice,
    ("pointer", "vtable"): _trait_object,
}

_WRAPPERS = {
    **dict.fromkeys(("Cell", "UnsafeCell", "SyncUnsafeCell", "RefCell", "CachePadded"), ("value",)),
    **dict.fromkeys(("ManuallyDrop", "MaybeUninit", "MaybeDangling"), ("value", "__0")),
    **dict.fromkeys(("Mutex", "RwLock"), ("data",)),
    **dict.fromkeys(("NonZero", "Wrapping", "Saturating", "Reverse"), ("__0",)),
    **dict.fromkeys(("Nanoseconds", "UsizeNoHighBit", "NonZeroUsizeInner"), ("__0",)),
    **dict.fromkeys(("Pin",), ("pointer", "__pointer")),
    **{f"Atomic{each}": ("v",) for each in ("Bool", "Usize", "Isize", "Ptr")},
    **{f"Atomic{sign}{bits}": ("v",) for sign in "IU" for bits in (8, 16, 32, 64)},
    **{f"NonZero{sign}{bits}Inner": ("__0",) for sign in "IU" for bits in (8, 16, 32, 64)},
}

_STRUCTURES: dict[str, ValueFormat] = {
    **dict.fromkeys(("String", "PathBuf", "OsString"), _text),
    "Vec": _vector,
    **dict.fromkeys(("Rc", "Arc"), _counted_reference),
    **dict.fromkeys(("NonNull", "Unique"), _non_null),
    **dict.fromkeys(("HashMap", "HashSet", "BTreeMap", "BTreeSet"), _collection),
    **dict.fromkeys(("VecDeque", "LinkedList", "BinaryHeap"), _collection),
    **dict.fromkeys(_WRAPPERS, _wrapper),
}


def _structure_format(described: Structure) -> ValueFormat | None:
    if described.variants:
        return rust_enum
    shape = _SHAPES.get(tuple(each.name for each in described.members))
    return shape or _STRUCTURES.get(plain_name(described.name))


RUST_FORMATS = ValueFormats(
    {**ALL_KINDS, Integer: _unit_or_integer, Pointer: _pointer, Structure: rust_structure},
    _structure_format,
)
