"""Values of C++'s types: those of its standard libraries, libstdc++ and libc++, as what they hold.

Those of libc++ were compared with LLVM 14 to 22, those of libstdc++ with GCC 12.
"""

from collections.abc import Callable
from functools import partial

from sslsniff.fetching.fetch import FetchLimits, ValueDecoder
from sslsniff.fetching.traced_values import Missing
from sslsniff.functions.dwarf.type_model import Member, Structure
from sslsniff.functions.values.cpp import standard_texts, standard_values
from sslsniff.functions.values.cpp.standard_parts import StandardParts, VariantPart
from sslsniff.functions.values.fetch_program import FetchProgram, ValueFormat, ValueFormats
from sslsniff.functions.values.raw_values import RawValue, always
from sslsniff.functions.values.structure_values import ALL_KINDS, members_of, shown_members

_PartsFormat = Callable[[FetchProgram, StandardParts, RawValue, FetchLimits], ValueDecoder | None]

_text_view = standard_texts.view
_vector = standard_values.vector
_optional = standard_values.optional
_length = standard_values.length
_only = standard_values.only
_variant = partial(
    standard_values.variant,
    union="__data",
    index="__index",
    names=VariantPart("__head", "__tail"),
)

# The first row counts whose members a type has. Those that contain others come before these.
_FORMATS: tuple[tuple[frozenset[str], _PartsFormat], ...] = tuple(
    (frozenset(names.split()), read)
    for names, read in (
        # libstdc++
        (
            "_M_u _M_index",
            partial(
                standard_values.variant,
                union="_M_u",
                index="_M_index",
                names=VariantPart("_M_first", "_M_rest"),
            ),
        ),
        ("_M_dataplus _M_p", standard_texts.string),
        ("_M_str _M_len", partial(_text_view, address="_M_str", count="_M_len")),
        ("_M_ptr _M_extent_value", partial(_text_view, address="_M_ptr", count="_M_extent_value")),
        ("_M_map _M_map_size _M_start _M_finish", standard_values.deque),
        ("_M_start _M_finish _M_offset", standard_values.bits),
        ("_M_start _M_finish", partial(_vector, start="_M_start", end="_M_finish")),
        ("_M_engaged _M_value", partial(_optional, flag="_M_engaged", value="_M_value")),
        ("_M_ptr _M_refcount", partial(standard_values.pointer_in, name="_M_ptr")),
        ("_M_functor _M_invoker", standard_values.invoked),
        ("_M_node_count", partial(_length, name="_M_node_count")),
        ("_M_element_count", partial(_length, name="_M_element_count")),
        ("_M_node _M_size", partial(_length, name="_M_size")),
        ("_M_elems", partial(standard_values.array, name="_M_elems")),
        ("_M_i", partial(_only, name="_M_i")),
        # libc++
        ("__impl __data __index", _variant),
        ("__impl_ __data __index", _variant),
        ("__base_", standard_values.elements),
        ("__l __s", standard_texts.string_of_libcxx),
        ("__map_ __start_", partial(_length, name="__size_")),
        ("__begin_ __end_", partial(_vector, start="__begin_", end="__end_")),
        ("__begin_ __size_", standard_values.bits_of_libcxx),
        ("__engaged_ __val_", partial(_optional, flag="__engaged_", value="__val_")),
        ("__ptr_ __cntrl_", partial(standard_values.pointer_in, name="__ptr_")),
        ("__data_ __size_", partial(_text_view, address="__data_", count="__size_")),
        ("__data __size", partial(_text_view, address="__data", count="__size")),
        ("__tree_ __pair3_", partial(_length, name="__pair3_")),
        ("__table_ __p2_", partial(_length, name="__p2_")),
        ("__size_alloc_", partial(_length, name="__size_alloc_")),
        ("__size_", partial(_length, name="__size_")),
        ("__ptr_", partial(standard_values.pointer_in, name="__ptr_")),
        ("__elems_", partial(standard_values.array, name="__elems_")),
        ("__a_ __a_value", partial(_only, name="__a_value")),
        # both
        ("__r", partial(standard_values.number, name="__r")),
        ("__rep_", partial(standard_values.number, name="__rep_")),
    )
)


def _standard_type(
    program: FetchProgram,
    described: Structure,
    raw: RawValue,
    limits: FetchLimits,
    *,
    read: _PartsFormat,
) -> ValueDecoder | None:
    return read(program, StandardParts(described), raw, limits)


def _structure_format(described: Structure) -> ValueFormat | None:
    parts = StandardParts(described)
    for wanted, read in _FORMATS:
        if parts.has(wanted):
            return partial(_standard_type, read=read)
    if any(name.startswith(("_Tuple_impl", "_M_t")) for name in parts.direct()):
        return partial(_standard_type, read=standard_values.elements)
    return None


def _structure(
    program: FetchProgram, described: Structure, raw: RawValue, limits: FetchLimits
) -> ValueDecoder:
    """Read a class by its members; those of its base classes are its own."""
    if limits.depth <= 0:
        return always(Missing.TOO_MUCH)
    members = tuple(shown_members(described, is_inlined=_is_base_class))
    if len({each.name for each in members}) < len(members):  # a base class has one of that name
        members = tuple(shown_members(described))
    return members_of(program, described.name, members, raw, limits.deeper())


def _is_base_class(member: Member) -> bool:
    return (
        isinstance(member.type, Structure)
        and member.name == member.type.name
        and _structure_format(member.type) is None
    )


CPP_FORMATS = ValueFormats({**ALL_KINDS, Structure: _structure}, _structure_format)
