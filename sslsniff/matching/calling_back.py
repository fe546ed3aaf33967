"""Finds a function without a symbol by the program's own function that it calls (x86-64).

A library lets a program set a function to be called, by an exported function that only stores it in
an object. What calls it has no symbol, but reads the same place of the object.
"""

from collections.abc import Iterator

from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function
from sslsniff.machine_code.callers import arguments
from sslsniff.machine_code.known_values import Argument, MemoryField
from sslsniff.machine_code.operations import OperationKind, Register
from sslsniff.matching.hidden_functions import flow_of
from sslsniff.matching.probe_set import UnfitError
from sslsniff.matching.rows import CallingBack

_OBJECT, _CALLED = Argument("rdi"), Argument("rsi")
_DISPLACEMENT_BYTES = 4
_HAS_DISPLACEMENT = 0b10
_READS = (0x8B, 0xFF)
"""The opcodes of ``mov`` from memory to a register, and of an indirect ``call``."""
_MOST_FUNCTION_BYTES = 1 << 13
_LEAST_OFFSET = 0x80
"""Smaller offsets have one byte in an instruction: too many places would be looked at."""


def find_calling_back(elf: Elf, wanted: CallingBack) -> Function | None:
    """Return the function; None: there is none. Raises ``UnfitError`` if there are several.

    Raises ``ElfError`` if the file is damaged.
    """
    setter = elf.function(wanted.setter)
    offset = None if setter is None else _stored_at(elf, setter)
    if offset is None:
        return None
    found = [
        each
        for each in _functions_with(elf, offset)
        if each.size <= _MOST_FUNCTION_BYTES
        and arguments(elf.code(each), each.address).issuperset(wanted.registers)
        and _calls(elf, each, offset)
    ]
    if len(found) > 1:
        raise UnfitError(f"{wanted.name} may be one of {len(found)} functions")
    return found[0] if found else None


def _stored_at(elf: Elf, setter: Function) -> int | None:
    """Return the offset at which a function stores its second argument; None: not at one."""
    flow = flow_of(elf, setter)
    offsets = {
        memory.offset
        for address, state in flow.states.items()
        for memory in flow.code.operations[address].stores
        if isinstance(source := flow.code.operations[address].source, Register)
        and memory.base not in (None, "rsp")
        and state.one(source.name) == _CALLED
    }
    offset = offsets.pop() if len(offsets) == 1 else None
    return offset if offset is not None and offset >= _LEAST_OFFSET else None


def _functions_with(elf: Elf, offset: int) -> Iterator[Function]:
    """Yield the functions that may load what is at the offset of an object, or call it."""
    wanted = offset.to_bytes(_DISPLACEMENT_BYTES, "little")
    found: set[Function] = set()
    for part in elf.executable():
        data = bytes(part.data)
        at = data.find(wanted)
        while at >= 0:
            if _is_read(data, at):
                function = elf.function_around(part.address + at)
                if function is not None and function not in found:
                    found.add(function)
                    yield function
            at = data.find(wanted, at + 1)


def _is_read(code: bytes, at: int) -> bool:
    """Return whether the displacement at ``at`` is that of a load into a register, or of a call.

    Before it stands the ModR/M byte, which says that one of 4 bytes follows, or that byte and SIB
    (Intel's manual, volume 2, 2.1.5). Of most functions this alone says that they do not call.
    """
    return any(
        code[at - back] >> 6 == _HAS_DISPLACEMENT and code[at - back - 1] in _READS
        for back in (1, 2)
    )


def _calls(elf: Elf, function: Function, offset: int) -> bool:
    """Return whether a function calls what is at an offset of its own object."""
    try:
        flow = flow_of(elf, function)
    except ElfError:
        return False
    called = frozenset({MemoryField(_OBJECT, offset)})
    return any(
        state.value(flow.code.operations[address].source) == called
        for address, state in flow.states.items()
        if flow.code.operations[address].kind is OperationKind.CALL
    )
