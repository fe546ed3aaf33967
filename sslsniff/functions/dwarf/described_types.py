"""Types from debug info: of C, C++, Rust and Go."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from elftools.dwarf.enums import ENUM_DW_ATE

from sslsniff.elf.byte_reader import Bytes, DamagedError
from sslsniff.functions.dwarf.class_passing import is_passed_by_reference
from sslsniff.functions.dwarf.debug_units import Entry
from sslsniff.functions.dwarf.function_model import Language
from sslsniff.functions.dwarf.type_model import (
    Array,
    Boolean,
    Character,
    Enumeration,
    Floating,
    Integer,
    Member,
    Pointer,
    ReadLater,
    Structure,
    Type,
    TypeVariant,
    UnknownType,
)

_MOST_DEPTH = 100
_MOST_DIMENSIONS = 16
_ANONYMOUS = "<anonymous>"
_DSC_RANGE = 1
_ENCODINGS = {number: name for name, number in ENUM_DW_ATE.items()}

_QUALIFIERS = {
    "DW_TAG_const_type": "const ",
    "DW_TAG_volatile_type": "volatile ",
    "DW_TAG_restrict_type": "",
    "DW_TAG_atomic_type": "_Atomic ",
}
_COMPLEX_BYTES = (8, 16)  # others are not passed as two floating-point numbers are
_POINTERS = {
    "DW_TAG_pointer_type": "*",
    "DW_TAG_reference_type": "&",
    "DW_TAG_rvalue_reference_type": "&&",
}
_SCOPES = {"DW_TAG_structure_type", "DW_TAG_class_type", "DW_TAG_union_type"}


class DescribedTypes:
    """Makes types of their entries, each once.

    What pointers lead to is read when it is asked for. ``scope_of``: returns the namespaces and
    classes that an entry is in, outermost first.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Type] = {}
        self._depth = 0

    def type_of(self, entry: Entry) -> Type | None:
        """Return the type that the attribute of ``entry`` says; None: void, or it says none."""
        found = entry.with_attribute("DW_AT_type")
        target = found.reference("DW_AT_type") if found else None
        return self.of(target) if target else None

    def of(self, entry: Entry) -> Type:
        """Return the type that an entry describes; raises ``DamagedError``."""
        if entry.key not in self._known:
            if self._depth >= _MOST_DEPTH:
                return UnknownType(
                    name=entry.name or _ANONYMOUS, size=entry.number("DW_AT_byte_size") or 0
                )
            self._depth += 1
            try:
                self._known[entry.key] = self._read(entry)
            finally:
                self._depth -= 1
        return self._known[entry.key]

    def _read(self, entry: Entry) -> Type:
        tag = entry.tag
        if tag in _QUALIFIERS:
            return self._qualified(entry, _QUALIFIERS[tag])
        if tag in _POINTERS:
            return self._pointer(entry, _POINTERS[tag])
        read = _READERS.get(tag)
        if read is None:
            return _unknown(entry)
        if "DW_AT_signature" in entry:  # it is in a type unit
            signed = entry.reference("DW_AT_signature")
            return self.of(signed) if signed else _unknown(entry)
        if "DW_AT_declaration" in entry and tag in _SCOPES:
            return _unknown(entry)
        return read(self, entry)

    def _qualified(self, entry: Entry, prefix: str) -> Type:
        inner = self.type_of(entry)
        if inner is None:
            return UnknownType(name=f"{prefix}void", size=0)
        is_pointer = isinstance(inner, Pointer)
        name = f"{inner.name} {prefix.strip()}".strip() if is_pointer else prefix + inner.name
        return replace(inner, name=name)

    def _typedef(self, entry: Entry) -> Type:
        name = entry.name or _ANONYMOUS
        inner = self.type_of(entry)
        return replace(inner, name=name) if inner else UnknownType(name=name, size=0)

    def _pointer(self, entry: Entry, mark: str) -> Type:
        def target() -> Type | None:
            try:
                return self.type_of(entry)
            except DamagedError:
                return None

        name = entry.name or _pointer_name(entry, mark)
        return Pointer(
            name=name,
            size=entry.number("DW_AT_byte_size") or entry.unit.scanned.address_bytes,
            target=ReadLater(target),
            is_reference=mark != "*" or name.startswith("&"),
        )

    def _base(self, entry: Entry) -> Type:
        name, size = entry.name or _ANONYMOUS, entry.number("DW_AT_byte_size") or 0
        encoding = _ENCODINGS.get(entry.number("DW_AT_encoding") or 0)
        if encoding == "DW_ATE_boolean":
            return Boolean(name=name, size=size)
        if encoding == "DW_ATE_float":
            return Floating(name=name, size=size)
        if encoding == "DW_ATE_complex_float" and size in _COMPLEX_BYTES:
            return _complex(name, size)
        is_character = encoding in {"DW_ATE_signed_char", "DW_ATE_unsigned_char"}
        # Numbers are i8 and u8 of Rust, and signed char and unsigned char of C.
        is_text = is_character and "char" in name.lower() and "signed" not in name
        if encoding == "DW_ATE_UTF" or is_text:
            return Character(name=name, size=size)
        signed = {"DW_ATE_signed", "DW_ATE_signed_char"}
        if encoding in {*signed, "DW_ATE_unsigned", "DW_ATE_unsigned_char", "DW_ATE_address"}:
            return Integer(name=name, size=size, is_signed=encoding in signed)
        return UnknownType(name=name, size=size)

    def _enumeration(self, entry: Entry) -> Type:
        size = entry.number("DW_AT_byte_size") or 0
        base = self.type_of(entry)
        numbers = [
            (each, number)
            for each in entry.children()
            if each.tag == "DW_TAG_enumerator"
            and (number := each.number("DW_AT_const_value")) is not None
        ]
        if isinstance(base, Integer):
            is_signed = base.is_signed
        else:
            is_signed = any(number < 0 for _, number in numbers)
        limit = 1 << 8 * size
        names = {
            (number - limit if is_signed and number >= limit // 2 > 0 else number): (
                each.name or _ANONYMOUS
            )
            for each, number in numbers
        }
        name = entry.name or _ANONYMOUS
        return Enumeration(name=name, size=size, is_signed=is_signed, names=names)

    def _array(self, entry: Entry) -> Type:
        element = self.type_of(entry) or UnknownType(name="void", size=0)
        counts = [
            _count(each) for each in entry.children() if each.tag == "DW_TAG_subrange_type"
        ] or [None]
        if len(counts) > _MOST_DIMENSIONS:
            raise DamagedError
        inner = element.name
        is_rust = entry.unit.language == Language.RUST
        for at, count in reversed([*enumerate(counts)]):
            shown = "" if count is None else str(count)
            dimensions = "".join(f"[{'' if each is None else each}]" for each in counts[at:])
            named = inner + dimensions if not is_rust else f"[{element.name}; {shown}]"
            if entry.name is not None and not at:
                named = entry.name
            size = element.size * (count or 0)
            element = Array(
                name=named,
                size=size,
                element=element,
                count=count,
                is_vector="DW_AT_GNU_vector" in entry,
            )
        return element

    def _structure(self, entry: Entry) -> Type:
        members: list[Member] = []
        variants: tuple[TypeVariant, ...] = ()
        discriminant: Member | None = None
        arguments: list[Entry] = []
        for each in entry.children():
            if each.tag in {"DW_TAG_member", "DW_TAG_inheritance"}:
                member = self._member(each)
                if member is not None:
                    members.append(member)
            elif each.tag == "DW_TAG_template_type_param":
                arguments.append(each)
            elif each.tag == "DW_TAG_variant_part":
                variants, discriminant = self._variants(each)
        return Structure(
            name=_structure_name(entry),
            size=entry.number("DW_AT_byte_size") or 0,
            members=tuple(members),
            is_union=entry.tag == "DW_TAG_union_type",
            variants=variants,
            discriminant=discriminant,
            type_arguments=ReadLater(lambda: self._type_arguments(arguments)),
            is_passed_by_reference=is_passed_by_reference(entry, members),
        )

    def _type_arguments(self, entries: Iterable[Entry]) -> dict[str, Type]:
        found = {}
        for each in entries:
            try:
                argument = self.type_of(each)
            except DamagedError:
                continue
            if argument is not None:
                found[each.name or ""] = argument
        return found

    def _member(self, entry: Entry) -> Member | None:
        is_static = "DW_AT_external" in entry or "DW_AT_declaration" in entry
        kind = None if is_static else self.type_of(entry)
        if kind is None:
            return None
        offset = _member_offset(entry)
        width = entry.number("DW_AT_bit_size")
        name = entry.name or ""
        if entry.tag == "DW_TAG_inheritance":
            name = kind.name
        if width is None:
            return None if offset is None else Member(name, offset, kind)
        return _bit_field(entry, name, kind, width, offset or 0)

    def _variants(self, part: Entry) -> tuple[tuple[TypeVariant, ...], Member | None]:
        """Return the forms of an enum of Rust, and what tells which one is there."""
        told_by = part.reference("DW_AT_discr")
        discriminant = self._member(told_by) if told_by else None
        variants = []
        for each in part.children():
            if each.tag != "DW_TAG_variant":
                continue
            values = _discriminant_values(each)
            for child in each.children():
                member = self._member(child) if child.tag == "DW_TAG_member" else None
                if member is not None:
                    variants.append(TypeVariant(member.name, values, member.type, member.offset))
        return tuple(variants), discriminant

    def _function(self, entry: Entry) -> Type:
        size = entry.number("DW_AT_byte_size") or 0
        name = entry.name or _function_name(entry)
        if size:  # Go's functions are values: pointers to an address of code and variables
            return Pointer(name=name, size=size, target=lambda: None)
        return UnknownType(name=name, size=size)


_READERS: dict[str, Callable[[DescribedTypes, Entry], Type]] = {
    "DW_TAG_typedef": DescribedTypes._typedef,
    "DW_TAG_base_type": DescribedTypes._base,
    "DW_TAG_enumeration_type": DescribedTypes._enumeration,
    "DW_TAG_array_type": DescribedTypes._array,
    "DW_TAG_structure_type": DescribedTypes._structure,
    "DW_TAG_class_type": DescribedTypes._structure,
    "DW_TAG_union_type": DescribedTypes._structure,
    "DW_TAG_subroutine_type": DescribedTypes._function,
}


def _complex(name: str, size: int) -> Structure:
    """Return the type of a complex number: two floating-point numbers one after the other."""
    part = Floating(name=f"part of {name}", size=size // 2)
    members = Member("real", 0, part), Member("imag", part.size, part)
    return Structure(name=name, size=size, members=members)


def _unknown(entry: Entry) -> UnknownType:
    return UnknownType(name=entry.name or _ANONYMOUS, size=entry.number("DW_AT_byte_size") or 0)


def shown_name(entry: Entry | None, depth: int = 0) -> str:
    """Return a type's name without reading what it consists of; None is void."""
    if entry is None:
        return "void"
    if depth >= _MOST_DEPTH:
        raise DamagedError
    if (name := entry.name) is not None:
        return name
    if entry.tag in _QUALIFIERS:
        inner = entry.reference("DW_AT_type")
        prefix = _QUALIFIERS[entry.tag]
        shown = shown_name(inner, depth + 1)
        is_pointer = inner is not None and inner.tag in _POINTERS
        return f"{shown} {prefix.strip()}".strip() if is_pointer else prefix + shown
    if entry.tag in _POINTERS:
        return _pointer_name(entry, _POINTERS[entry.tag], depth + 1)
    if entry.tag == "DW_TAG_subroutine_type":
        return _function_name(entry, depth + 1)
    if entry.tag == "DW_TAG_array_type":
        return f"{shown_name(entry.reference('DW_AT_type'), depth + 1)}[]"
    return _ANONYMOUS


def _pointer_name(entry: Entry, mark: str, depth: int = 0) -> str:
    target = entry.reference("DW_AT_type")
    shown = shown_name(target, depth)
    if target is not None and target.tag == "DW_TAG_subroutine_type":
        return shown.replace("(", f"({mark})(", 1)
    return shown + mark if shown.endswith(("*", "&")) else f"{shown} {mark}"


def _function_name(entry: Entry, depth: int = 0) -> str:
    parameters = [
        shown_name(each.reference("DW_AT_type"), depth + 1)
        for each in entry.children()
        if each.tag == "DW_TAG_formal_parameter"
    ]
    return f"{shown_name(entry.reference('DW_AT_type'), depth + 1)} ({', '.join(parameters)})"


def _structure_name(entry: Entry) -> str:
    return entry.name or _ANONYMOUS


def _count(subrange: Entry) -> int | None:
    count = subrange.number("DW_AT_count")
    if count is not None:
        return count
    last = subrange.number("DW_AT_upper_bound")
    if last is None:
        return None
    # The bound of an array without elements is -1, which gcc writes as the largest number.
    is_minus_one = last in {0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF}
    return 0 if is_minus_one else last + 1


def _member_offset(entry: Entry) -> int | None:
    found = entry.value("DW_AT_data_member_location")
    if found is None:
        return 0
    if isinstance(found, int):
        return found
    source = Bytes(found)
    # DW_OP_plus_uconst; a virtual base class needs a computation.
    return source.uleb() if source.fixed(1) == 0x23 else None


def _bit_field(entry: Entry, name: str, kind: Type, width: int, offset: int) -> Member:
    """Return a bit field; its first bit is counted from the lowest one of its type."""
    first = entry.number("DW_AT_data_bit_offset")
    if first is not None:
        unit = 8 * max(kind.size, 1)
        return Member(name, first // unit * kind.size, kind, (first % unit, width))
    storage = entry.number("DW_AT_byte_size") or kind.size
    # DWARF 3: from the highest bit of its storage
    high = entry.number("DW_AT_bit_offset") or 0
    return Member(name, offset, kind, (8 * storage - high - width, width))


def _discriminant_values(variant: Entry) -> frozenset[int]:
    value = variant.value("DW_AT_discr_value")
    if value is not None:  # one of 16 bytes is a block
        return frozenset({int.from_bytes(value, "little") if isinstance(value, bytes) else value})
    found = variant.expression("DW_AT_discr_list")
    if found is None:
        return frozenset()
    source = Bytes(found)
    values: set[int] = set()
    while source.at < len(found):
        if source.uleb() == _DSC_RANGE:
            first, last = source.uleb(), source.uleb()
            if last - first > 1 << 16:
                raise DamagedError
            values.update(range(first, last + 1))
        else:
            values.add(source.uleb())
    return frozenset(values)
