"""Where Go functions leave their results.

Since Go 1.17 in registers, by the rules of "Go internal ABI specification"
(src/cmd/compile/abi-internal.md); before, and in functions in assembler, on the stack after the
arguments.
"""

from collections.abc import Iterable, Iterator, Sequence

from sslsniff.elf.byte_reader import Bytes
from sslsniff.fetching.locations import (
    R8,
    R9,
    R10,
    R11,
    RAX,
    RBX,
    RCX,
    RDI,
    RSI,
    RSP,
    ConstantBytes,
    LocationPiece,
    ValueLocation,
    in_memory,
    in_register,
)
from sslsniff.fetching.traced_values import Missing
from sslsniff.functions.dwarf.function_model import Variable
from sslsniff.functions.dwarf.type_model import Array, Floating, Structure, Type, UnknownType
from sslsniff.functions.results.type_layout import align, alignment

_GENERAL = (RAX, RBX, RCX, RDI, RSI, R8, R9, R10, R11)
_FLOATING_COUNT = 15
_WORD_BYTES = 8
_ON_STACK, _FIRST_ON_STACK = 0x91, 0x9C  # DW_OP_fbreg and DW_OP_call_frame_cfa


class _NoRegistersError(Exception):
    """A value does not fit into the registers that are left."""


class _GoRegisters:
    """The registers that are not assigned yet, for all arguments or for all results."""

    def __init__(self) -> None:
        self._general = 0
        self._floating = 0

    def assign(self, type: Type) -> ValueLocation | None:
        """Return the registers of a value; None: it is on the stack."""
        before = self._general, self._floating
        try:
            pieces = list(self._pieces(type, 0))
        except _NoRegistersError:
            self._general, self._floating = before
            return None
        return tuple(_with_padding(pieces, type.size))

    def _pieces(self, type: Type, offset: int) -> Iterator[tuple[int, LocationPiece]]:
        if isinstance(type, Structure):
            for member in type.members:
                yield from self._pieces(member.type, offset + member.offset)
        elif isinstance(type, Array):
            if type.count is None or type.count > 1:
                raise _NoRegistersError
            if type.count:
                yield from self._pieces(type.element, offset)
        elif isinstance(type, Floating):
            self._floating += 1
            if self._floating > _FLOATING_COUNT:
                raise _NoRegistersError
            yield offset, LocationPiece(Missing.NOT_READABLE, type.size)
        elif type.size:
            if self._general == len(_GENERAL):
                raise _NoRegistersError
            yield offset, in_register(_GENERAL[self._general], type.size)
            self._general += 1


def go_results(
    arguments: Sequence[Type], results: Sequence[Type], *, in_registers: bool
) -> list[ValueLocation]:
    """Return where each result is at a return instruction.

    ``arguments``: the types of the arguments, with the receiver: those that are on the stack have
    the results after them.
    ``in_registers``: the function passes them in registers as far as they suffice.
    """
    if any(isinstance(each, UnknownType) for each in (*arguments, *results)):
        return [(LocationPiece(Missing.UNKNOWN_TYPE),) for _ in results]
    offsets = go_stack_offsets(arguments, in_registers=in_registers)
    ends = [
        offset + each.size
        for offset, each in zip(offsets, arguments, strict=True)
        if offset is not None
    ]
    at = align(max(ends, default=0), _WORD_BYTES)
    registers = _GoRegisters()
    locations = []
    for each in results:
        location = registers.assign(each) if in_registers else None
        if location is None:
            at = align(at, _alignment(each))
            # The return address is at the stack pointer.
            location = (in_memory(RSP, _WORD_BYTES + at, each.size),)
            at += each.size
        locations.append(location)
    return locations


def described_offset(variable: Variable) -> int | None:
    """Return the offset of a variable from the first argument on the stack, as debug info has it.

    None: it does not say. Of values in several pieces, Go 1.16 has one piece twice.
    """
    for each in variable.locations:
        source = Bytes(each.expression)
        operation = source.fixed(1) if each.expression else 0
        offset = None
        if operation == _ON_STACK:
            offset = source.sleb()
        elif operation == _FIRST_ON_STACK:
            offset = 0
        if offset is not None and source.at == len(each.expression):
            return offset
    return None


def go_argument_bytes(
    arguments: Sequence[Type], results: Sequence[Type], *, in_registers: bool
) -> int:
    """Return the size of all arguments and results, with the room for those in registers.

    (src/cmd/compile/internal/abi/abiutils.go, ``ArgWidth``.)
    """
    at = 0
    for each in (arguments, results):
        offsets = go_stack_offsets(each, in_registers=in_registers)
        ends = [
            align(at, _WORD_BYTES) + offset + type.size
            for type, offset in zip(each, offsets, strict=True)
            if offset is not None
        ]
        at = max(ends, default=at)
    at = align(at, _WORD_BYTES)
    for type, location in zip(arguments, go_registers(arguments), strict=True):
        if in_registers and location is not None:
            at = align(at, _alignment(type)) + type.size
    return align(at, _WORD_BYTES)


def go_registers(arguments: Iterable[Type]) -> list[ValueLocation | None]:
    """Return the registers of each argument at the entry; None: it is on the stack."""
    registers = _GoRegisters()
    return [registers.assign(each) for each in arguments]


def go_stack_offsets(arguments: Iterable[Type], *, in_registers: bool) -> list[int | None]:
    """Return the offset of each argument from the first on the stack; None: it is in registers."""
    registers = _GoRegisters()
    at = 0
    offsets: list[int | None] = []
    for each in arguments:
        if in_registers and registers.assign(each) is not None:
            offsets.append(None)
            continue
        at = align(at, _alignment(each))
        offsets.append(at)
        at += each.size
    return offsets


def _alignment(type: Type) -> int:
    return min(alignment(type), _WORD_BYTES)


def _with_padding(pieces: list[tuple[int, LocationPiece]], size: int) -> Iterator[LocationPiece]:
    at = 0
    for offset, piece in pieces:
        if offset > at:
            yield LocationPiece(ConstantBytes(bytes(offset - at)), offset - at)
        yield piece
        at = offset + (piece.size or 0)
    if size > at or not pieces:
        yield LocationPiece(ConstantBytes(bytes(size - at)), size - at)
