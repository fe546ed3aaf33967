"""Where the parameters of a Go function are at its entry, by Go's calling conventions.

Debug info has no location for an argument that the function does not use, and that of Go 1.16
describes each part of an argument twice. Up to Go 1.20 at least it lacks arguments without a name:
then only it tells where the others are.
"""

from collections.abc import Sequence
from dataclasses import replace

from sslsniff.fetching.locations import REGISTER_NAMES, ConstantBytes, ValueLocation, register_of
from sslsniff.fetching.traced_values import Missing
from sslsniff.functions.dwarf.function_model import AddressRange, LocatedRange, Variable
from sslsniff.functions.dwarf.type_model import UnknownType
from sslsniff.functions.locations.expression_run import ExpressionContext
from sslsniff.functions.locations.location_expressions import expression_location
from sslsniff.functions.places.entry_sites import registers_used
from sslsniff.functions.results.go_results import (
    described_offset,
    go_registers,
    go_stack_offsets,
)

_WORD_BYTES = 8
# DW_OP_fbreg, after which is an offset from the canonical frame address; DW_OP_reg0; DW_OP_reg17,
# the first vector register; DW_OP_piece; DW_OP_implicit_value (DWARF 5, section 7.7.1).
_ON_STACK, _REGISTER, _VECTOR, _PIECE, _CONSTANT = 0x91, 0x50, 0x61, 0x93, 0x9E


def go_parameters(
    function: str,
    parameters: Sequence[Variable],
    entry: int,
    *,
    in_registers: bool,
    has_all: bool | None,
) -> tuple[list[Variable], frozenset[str]]:
    """Return the parameters as they are at ``entry``, and the names of those in registers.

    As debug info has them if it says otherwise, or nothing, of a generic function: that may have
    another argument before them. ``has_all``: whether debug info has all parameters; None: unknown.
    """
    types = [each.type or UnknownType(name="", size=_WORD_BYTES) for each in parameters]
    if not in_registers:
        offsets = go_stack_offsets(types, in_registers=False)
        if has_all is False:
            offsets = [described_offset(each) for each in parameters]
        placed = zip(parameters, offsets, strict=True)
        return [_on_stack(each, at) for each, at in placed], frozenset()
    assigned = [*zip(parameters, go_registers(types), strict=True)]
    names = frozenset(each.name for each, place in assigned if place is not None)
    confirmed = [_is_confirmed(each, place, entry) for each, place in assigned if place]
    is_known = has_all or (True in confirmed or "[" not in function)
    if has_all is False or False in confirmed or not is_known:
        return [*parameters], names
    if any(isinstance(each, UnknownType) for each in types):
        return [*parameters], names
    at_entry = AddressRange(entry, entry + 1)
    offsets = go_stack_offsets(types, in_registers=True)
    known = []
    for (each, place), offset in zip(assigned, offsets, strict=True):
        if place:
            each = replace(each, locations=(LocatedRange(at_entry, _expression(place)),))
        elif has_all and not each.locations:
            each = _on_stack(each, offset)
        known.append(each)
    return known, names


def _on_stack(variable: Variable, offset: int | None) -> Variable:
    if offset is None:
        return replace(variable, locations=())
    expression = bytes([_ON_STACK, *_sleb(offset)])
    return replace(variable, locations=(LocatedRange(None, expression),))


def _is_confirmed(variable: Variable, place: ValueLocation, entry: int) -> bool | None:
    """Say whether debug info has the same registers; None: it does not say."""
    expression = variable.expression_at(entry, is_call=True)
    if not expression:
        return None
    found = expression_location(expression, ExpressionContext(entry, is_entry=True))
    if isinstance(found, Missing) or not registers_used(found):
        return None
    return registers_used(found) <= registers_used(place)


def _expression(place: ValueLocation) -> bytes:
    """Return the location of a value in registers as DWARF has it."""
    data = bytearray()
    for piece in place:
        register = register_of(piece)
        if register is not None:
            data.append(_REGISTER + REGISTER_NAMES.index(register))
        elif isinstance(piece.source, ConstantBytes):
            data += bytes([_CONSTANT, *_uleb(len(piece.source.data)), *piece.source.data])
        else:
            data.append(_VECTOR)
        if len(place) > 1:
            data += bytes([_PIECE, *_uleb(piece.size or 0)])
    return bytes(data)


def _uleb(number: int) -> bytes:
    """Return a number in LEB128 (DWARF 5, section 7.6)."""
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])


def _sleb(number: int) -> bytes:
    """Return a number that is not negative in LEB128 with a sign."""
    data = _uleb(number)
    return data if data[-1] < 0x40 else bytes([*data[:-1], data[-1] | 0x80, 0])
