"""Where C and C++ functions leave their results (System V ABI for AMD64, section 3.2.3)."""

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
from sslsniff.functions.dwarf.type_model import Array, Floating, Structure, Type
from sslsniff.functions.results.type_layout import (
    LaidOutNumber,
    alignment,
    is_floating,
    is_known,
    numbers_of,
)

_EIGHTBYTE = 8
_MOST_IN_REGISTERS = 2 * _EIGHTBYTE
_EXTENDED_BYTES = 16
UNREADABLE = (LocationPiece(Missing.NOT_READABLE),)
UNKNOWN = (LocationPiece(Missing.UNKNOWN_TYPE),)


def c_result(type: Type) -> ValueLocation:
    """Return where a result of ``type`` is at a return instruction."""
    if isinstance(type, Array | Floating):
        return UNREADABLE  # of arrays, only vectors can be results
    if not is_known(type):
        return UNKNOWN
    numbers = list(numbers_of(type))
    if _is_in_memory(type, numbers):
        return (in_memory(RAX, 0, type.size),)
    if not numbers:
        return (LocationPiece(ConstantBytes(bytes(type.size))),)
    if any(is_floating(each.type) and each.type.size >= _EXTENDED_BYTES for each in numbers):
        return UNREADABLE
    general = iter((RAX, RDX))
    pieces = []
    for start in range(0, type.size, _EIGHTBYTE):
        size = min(_EIGHTBYTE, type.size - start)
        inside = [
            each
            for each in numbers
            if each.first_byte < start + _EIGHTBYTE and each.last_byte >= start
        ]
        if any(not is_floating(each.type) for each in inside):
            pieces.append(in_register(next(general), size))
        elif inside:
            pieces.append(LocationPiece(Missing.NOT_READABLE, size))
        else:
            pieces.append(LocationPiece(ConstantBytes(bytes(size)), size))
    return tuple(pieces)


def _is_in_memory(type: Type, numbers: list[LaidOutNumber]) -> bool:
    """Say whether the caller passes an address for the result, which is in rax at the return."""
    if type.size > _MOST_IN_REGISTERS:
        return True
    if isinstance(type, Structure) and type.is_passed_by_reference:
        return True
    return any(
        each.bits is None and each.offset % min(alignment(each.type), each.type.size)
        for each in numbers
    )
