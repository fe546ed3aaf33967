"""Values of C++'s standard libraries as what they hold: collections, smart pointers, variants."""

from sslsniff.fetching.fetch import FetchLimits, ValueDecoder
from sslsniff.fetching.fetch_steps import FetchStep, StepKind
from sslsniff.fetching.locations import push_constant
from sslsniff.fetching.traced_values import Items, Missing, Value
from sslsniff.functions.dwarf.type_model import (
    Array,
    Boolean,
    Floating,
    Integer,
    Pointer,
    Structure,
)
from sslsniff.functions.values.cpp.standard_parts import (
    StandardParts,
    VariantPart,
    alternatives,
    part_of,
)
from sslsniff.functions.values.fetch_program import FetchProgram
from sslsniff.functions.values.pointer_values import length_only, plain_pointer, sized_items
from sslsniff.functions.values.raw_values import RawValue, always, from_bytes
from sslsniff.functions.values.structure_values import member_decoder, members_of
from sslsniff.functions.values.text_values import counted

_WORD_BYTES = 8
_WORD_BITS = 64
_DEQUE_BYTES = 512
"""Of a block of libstdc++'s ``std::deque``, unless an element is larger."""


def vector(
    program: FetchProgram,
    parts: StandardParts,
    raw: RawValue,
    limits: FetchLimits,
    *,
    start: str,
    end: str,
) -> ValueDecoder | None:
    """Read a vector by where its elements begin and end."""
    kind = parts[start].type
    element = kind.target() if isinstance(kind, Pointer) else None
    if element is None or not element.size:
        return None
    first, after = part_of(raw, parts[start]), part_of(raw, parts[end])

    def make() -> ValueDecoder:
        steps = (*program.load(after), *program.load(first), FetchStep(StepKind.SUBTRACT))
        count = program.compute(steps, first, after)
        return sized_items(program, element, first, count, limits, is_in_bytes=True)

    return program.later(make)


def bits(
    program: FetchProgram, parts: StandardParts, raw: RawValue, limits: FetchLimits
) -> ValueDecoder | None:
    """Read libstdc++'s ``std::vector<bool>``: its end is a word's address and a bit in it."""
    start, end = parts["_M_start"], parts["_M_finish"]
    if not isinstance(start.type, Structure) or not isinstance(end.type, Structure):
        return None
    inside = StandardParts(start.type)
    if not inside.has(frozenset(("_M_p", "_M_offset"))):
        return None
    first = part_of(part_of(raw, start), inside["_M_p"])
    after, offset = (part_of(part_of(raw, end), inside[each]) for each in ("_M_p", "_M_offset"))

    def make() -> ValueDecoder:
        steps = (
            *(*program.load(after), *program.load(first), FetchStep(StepKind.SUBTRACT)),
            *(*push_constant(8), FetchStep(StepKind.MULTIPLY)),
            *(*program.load(offset), FetchStep(StepKind.ADD)),
        )
        count = program.compute(steps, first, after, offset)
        return _bits(program, first, count, limits)

    return program.later(make)


def bits_of_libcxx(
    program: FetchProgram, parts: StandardParts, raw: RawValue, limits: FetchLimits
) -> ValueDecoder | None:
    """Read libc++'s ``std::vector<bool>``, which has the number of its bits."""
    if not isinstance(parts.described.type_arguments().get("_Tp"), Boolean):
        return None
    first, count = part_of(raw, parts["__begin_"]), part_of(raw, parts["__size_"])
    return program.later(lambda: _bits(program, first, count, limits))


def _bits(
    program: FetchProgram, first: RawValue, count: RawValue, limits: FetchLimits
) -> ValueDecoder:
    """Read ``count`` bits from the lowest one of the word at ``first`` on."""
    most = max(limits.items, 1)
    steps = (
        *(*program.load(count), *push_constant(_WORD_BITS - 1), FetchStep(StepKind.ADD)),
        *(*push_constant(_WORD_BITS), FetchStep(StepKind.DIVIDE)),
    )
    words = program.compute(steps, count)
    there = program.follow_items(first, words, _WORD_BYTES, -(-most // _WORD_BITS))

    def decode_bits(total: int) -> ValueDecoder:
        shown = min(total, most)

        def decode(data: bytes) -> Value:
            number = int.from_bytes(data, "little")
            return Items(tuple(bool(number >> at & 1) for at in range(shown)), total - shown)

        return from_bytes(there, decode) if total else always(Items(()))

    return counted(count, decode_bits)


def deque(
    program: FetchProgram, parts: StandardParts, raw: RawValue, limits: FetchLimits
) -> ValueDecoder | None:
    """Read how many elements libstdc++'s ``std::deque`` has: they are in blocks of one size."""
    start, end = parts["_M_start"], parts["_M_finish"]
    inside = StandardParts(start.type) if isinstance(start.type, Structure) else None
    if inside is None or not inside.has(frozenset(("_M_cur", "_M_first", "_M_node"))):
        return None
    kind = inside["_M_cur"].type
    element = kind.target() if isinstance(kind, Pointer) else None
    if element is None or not element.size:
        return None
    names = ("_M_node", "_M_cur", "_M_first")
    first_node, first_at, first_block = (part_of(part_of(raw, start), inside[n]) for n in names)
    last_node, last_at, last_block = (part_of(part_of(raw, end), inside[n]) for n in names)
    block_bytes = max(_DEQUE_BYTES // element.size, 1) * element.size
    subtract, add = FetchStep(StepKind.SUBTRACT), FetchStep(StepKind.ADD)
    steps = (
        *(*program.load(last_node), *program.load(first_node), subtract),
        *(*push_constant(_WORD_BYTES), FetchStep(StepKind.DIVIDE)),
        *(*push_constant(block_bytes), FetchStep(StepKind.MULTIPLY)),
        *(*program.load(last_at), *program.load(last_block), subtract, add),
        *(*program.load(first_at), *program.load(first_block), subtract, subtract),
        *(*push_constant(element.size), FetchStep(StepKind.DIVIDE)),
    )
    return program.later(lambda: length_only(program.compute(steps, raw), ""))


def optional(
    program: FetchProgram,
    parts: StandardParts,
    raw: RawValue,
    limits: FetchLimits,
    *,
    flag: str,
    value: str,
) -> ValueDecoder:
    """Read a value that may not be there: then it is null."""
    decode = member_decoder(program, parts[value], raw, limits)
    is_there = part_of(raw, parts[flag])
    return counted(is_there, lambda number: decode if number & 0xFF else always(None))


def variant(
    program: FetchProgram,
    parts: StandardParts,
    raw: RawValue,
    limits: FetchLimits,
    *,
    union: str,
    index: str,
    names: VariantPart,
) -> ValueDecoder:
    """Read the alternative that is there; null: an exception left it without one."""
    decoders = [
        member_decoder(program, each, raw, limits) for each in alternatives(parts[union], names)
    ]
    number = part_of(raw, parts[index])
    nothing = (1 << 8 * number.size) - 1

    def decode(which: int) -> ValueDecoder:
        if which < len(decoders):
            return decoders[which]
        return always(None if which == nothing else Missing.UNKNOWN_TYPE)

    return counted(number, decode)


def pointer_in(
    program: FetchProgram,
    parts: StandardParts,
    raw: RawValue,
    limits: FetchLimits,
    *,
    name: str,
) -> ValueDecoder | None:
    """Read a smart pointer as the pointer in it."""
    member = parts.first_of_pair(name)
    if not isinstance(member.type, Pointer):
        return None
    return member_decoder(program, member, raw, limits)


def invoked(
    program: FetchProgram, parts: StandardParts, raw: RawValue, limits: FetchLimits
) -> ValueDecoder:
    """Read libstdc++'s ``std::function`` as a pointer to the code that it calls."""
    return plain_pointer(part_of(raw, parts["_M_invoker"]), "function")


def length(
    program: FetchProgram,
    parts: StandardParts,
    raw: RawValue,
    limits: FetchLimits,
    *,
    name: str,
) -> ValueDecoder | None:
    """Read how many elements a collection has."""
    member = parts.first_of_pair(name)
    if not isinstance(member.type, Integer):
        return None
    return length_only(part_of(raw, member), "")


def only(
    program: FetchProgram,
    parts: StandardParts,
    raw: RawValue,
    limits: FetchLimits,
    *,
    name: str,
) -> ValueDecoder:
    """Read what has one member as that."""
    return member_decoder(program, parts[name], raw, limits)


def array(
    program: FetchProgram,
    parts: StandardParts,
    raw: RawValue,
    limits: FetchLimits,
    *,
    name: str,
) -> ValueDecoder | None:
    """Read ``std::array``."""
    if not isinstance(parts[name].type, Array):
        return None
    return member_decoder(program, parts[name], raw, limits)


def number(
    program: FetchProgram,
    parts: StandardParts,
    raw: RawValue,
    limits: FetchLimits,
    *,
    name: str,
) -> ValueDecoder | None:
    """Read ``std::chrono::duration`` as its number."""
    if not isinstance(parts[name].type, Integer | Floating):
        return None
    return member_decoder(program, parts[name], raw, limits)


def elements(
    program: FetchProgram, parts: StandardParts, raw: RawValue, limits: FetchLimits
) -> ValueDecoder | None:
    """Read ``std::tuple``, and libstdc++'s ``std::unique_ptr``: a tuple of pointer and deleter."""
    members = parts.elements()
    if not members:
        return None
    if "_M_t" in parts.direct():
        return member_decoder(program, members[0], raw, limits)
    return members_of(program, parts.described.name, members, raw, limits)
