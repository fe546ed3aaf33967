"""Where Rust functions leave their results.

rustc gives its own functions no stable convention. What it does follows from the layout of the
type (compiler/rustc_abi/src/layout.rs): one number is in a register, a pair of numbers in two,
whatever else has up to 8 bytes is packed into one, and all else is in memory at an address that the
caller passes. Debug info has no such layout; it is computed here in the same way.
"""

from collections.abc import Iterable
from typing import NamedTuple

from sslsniff.fetching.locations import (
    RAX,
    RDX,
    ConstantBytes,
    LocationPiece,
    ValueLocation,
    in_memory,
    in_register,
)
from sslsniff.fetching.traced_values import Missing
from sslsniff.functions.dwarf.type_model import Array, Floating, Structure, Type, TypeVariant
from sslsniff.functions.results.c_results import UNKNOWN, UNREADABLE, c_result
from sslsniff.functions.results.type_layout import align, alignment, is_known

_WORD_BYTES = 8
_MOST_WORDS = 2
_STANDARD_UNIONS = ("MaybeUninit<",)


class _Scalar(NamedTuple):
    """A number, pointer or the like at ``offset``; ``is_floating``: of floating point."""

    offset: int
    size: int
    is_floating: bool

    def moved(self, offset: int) -> "_Scalar":
        return self._replace(offset=self.offset + offset)


_Scalars = tuple[_Scalar, ...]
"""One or two that a type consists of: the compiler passes it as these. None: it is no such type."""


def rust_result(type: Type, *, may_be_c: bool = False) -> ValueLocation:
    """Return where a result of ``type`` is at a return instruction.

    ``may_be_c``: the function may be ``extern "C"``, which debug info does not tell: unknown where
    the two conventions differ.
    """
    location = _rust_result(type)
    if may_be_c and _kinds(location) != _kinds(c_result(type)):
        return UNKNOWN
    return location


def _kinds(location: ValueLocation) -> list[object]:
    """Return what tells locations apart: named tuples of different classes may be equal."""
    return [(each, each.source.__class__) for each in location]


def _rust_result(type: Type) -> ValueLocation:
    if not is_known(type):
        return UNKNOWN
    if not type.size:
        return (LocationPiece(ConstantBytes(b"")),)
    if isinstance(type, Array) and type.is_vector:
        return UNREADABLE
    if _has_own_union(type):
        return UNKNOWN  # whether it is of C, debug info does not tell
    scalars = _scalars(type)
    if scalars is not None and _words(scalars) <= _MOST_WORDS:
        return _in_registers(scalars, type.size)
    if type.size <= _WORD_BYTES:
        return (in_register(RAX, type.size),)
    return (in_memory(RAX, 0, type.size),)


def _in_registers(scalars: _Scalars, size: int) -> ValueLocation:
    general = iter((RAX, RDX))
    pieces: list[LocationPiece] = []
    at = 0
    for each in scalars:
        if each.offset > at:
            pieces.append(_padding(each.offset - at))
        if each.is_floating:
            pieces.append(LocationPiece(Missing.NOT_READABLE, each.size))
        else:
            for start in range(0, each.size, _WORD_BYTES):
                pieces.append(in_register(next(general), min(_WORD_BYTES, each.size - start)))
        at = each.offset + each.size
    if size > at:
        pieces.append(_padding(size - at))
    return tuple(pieces)


def _words(scalars: _Scalars) -> int:
    return sum(-(-each.size // _WORD_BYTES) for each in scalars)


def _has_own_union(type: Type) -> bool:
    """Say whether a type has a union that is not the standard library's."""
    if isinstance(type, Array):
        return _has_own_union(type.element)
    if not isinstance(type, Structure):
        return False
    if type.is_union and not type.name.startswith(_STANDARD_UNIONS):
        return True
    parts = [each.type for each in type.members] + [each.type for each in type.variants]
    return any(map(_has_own_union, parts))


def _padding(size: int) -> LocationPiece:
    return LocationPiece(ConstantBytes(bytes(size)), size)


def _scalars(type: Type) -> _Scalars | None:
    """Return the one or two scalars that a type is passed as; None: it is passed as bytes."""
    if isinstance(type, Array):
        return None
    if not isinstance(type, Structure):
        return (_Scalar(0, type.size, isinstance(type, Floating)),)
    if type.variants:
        return _of_enum(type)
    return _of_union(type) if type.is_union else _of_fields(type)


def _of_fields(type: Structure) -> _Scalars | None:
    """Return those of a struct or tuple: parts without bytes do not count."""
    parts = [each for each in type.members if each.type.size]
    if len(parts) == 1:
        inner = _scalars(parts[0].type)
        is_same = parts[0].offset == 0 and parts[0].type.size == type.size
        return inner if is_same else None
    if len(parts) != 2:
        return None
    scalars = [_one_scalar(each.type, each.offset) for each in parts]
    return _pair((each for each in scalars if each is not None), type)


def _of_union(type: Structure) -> _Scalars | None:
    """Return those of a union, such as MaybeUninit: all parts must be passed alike."""
    found = {_scalars(each.type) for each in type.members if each.type.size}
    return found.pop() if len(found) == 1 else None


def _of_enum(type: Structure) -> _Scalars | None:
    """Return those of an enum with data."""
    if type.discriminant is None:
        (variant, *others) = type.variants
        return _of_variant(variant, type) if not others else None
    dataful = [each for each in type.variants if not each.values]
    if dataful:
        return _of_niche(type, dataful[0])
    tag = type.discriminant
    tag_scalar = _Scalar(tag.offset, tag.type.size, is_floating=False)
    data = []
    for each in type.variants:
        parts = _parts(each)
        if len(parts) > 1:
            return None
        data += [_one_scalar(part, offset) for offset, part in parts]
    if not data:
        return (tag_scalar,) if tag.type.size == type.size else None
    if None in data or len(set(data)) != 1 or data[0] is None:
        return None
    return _pair((tag_scalar, data[0]), type)


def _of_niche(type: Structure, dataful: TypeVariant) -> _Scalars | None:
    """Return those of an enum whose other variants are values that the data cannot have."""
    if any(_parts(each) for each in type.variants if each is not dataful):
        return None
    return _of_variant(dataful, type)


def _of_variant(variant: TypeVariant, type: Structure) -> _Scalars | None:
    if variant.offset or variant.type.size != type.size:
        return None
    return _scalars(variant.type)


def _parts(variant: TypeVariant) -> list[tuple[int, Type]]:
    """Return the offsets and types of what has bytes in a variant."""
    if not isinstance(variant.type, Structure):
        return [(variant.offset, variant.type)] if variant.type.size else []
    return [
        (variant.offset + each.offset, each.type) for each in variant.type.members if each.type.size
    ]


def _one_scalar(type: Type, offset: int) -> _Scalar | None:
    scalars = _scalars(type)
    return scalars[0].moved(offset) if scalars is not None and len(scalars) == 1 else None


def _pair(scalars: Iterable[_Scalar], type: Structure) -> _Scalars | None:
    """Return two scalars in order if they are all of a type, laid out as a pair is."""
    found = sorted(scalars)
    if len(found) != 2:
        return None
    first, second = found
    aligned = max(_scalar_alignment(each) for each in found)
    is_pair = (
        first.offset == 0
        and second.offset == align(first.size, _scalar_alignment(second))
        and type.size == align(second.offset + second.size, aligned)
        and aligned == alignment(type)
    )
    return (first, second) if is_pair else None


def _scalar_alignment(scalar: _Scalar) -> int:
    return min(scalar.size, 16)
