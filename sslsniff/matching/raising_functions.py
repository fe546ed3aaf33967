"""Finds a function without a symbol by the error that it raises for its callers.

A library calls the function that raises errors in many places, nearly always with constants. One
of its functions does so with its own arguments: it is called where a connection cannot go on.
"""

import re
from collections.abc import Iterator

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function
from sslsniff.machine_code.data_flow import Flow
from sslsniff.machine_code.known_values import Argument, Low, Number, State
from sslsniff.machine_code.operations import OperationKind
from sslsniff.machine_code.stripped.references import ReferenceForm, find_references
from sslsniff.matching.hidden_functions import flow_of
from sslsniff.matching.probe_set import UnfitError
from sslsniff.matching.rows import Raising

_OBJECT = "rdi"
_CALL = b"\x15"
"""The second byte of a call of what is in a slot; a stub has a jump."""
_STUB_STARTS = (0, 1, 4, 5)
"""How far before its jump a stub may begin: with endbr64, and with a prefix of the jump."""

_CONSTANT = re.compile(rb"\xbe(..)\0\0", re.DOTALL)  # mov esi, a number below 65,536
_BYTES_BEFORE = 40
_MOST_FUNCTION_BYTES = 512


def find_raising(elf: Elf, wanted: Raising) -> Function | None:
    """Return the function; None: nothing in the file raises errors so.

    Raises ``UnfitError`` if there is not exactly one.
    """
    named, raises = elf.function(wanted.name), elf.function(wanted.raises)
    if named is not None:  # all the rest may be large: a program with the library inside
        callers = {named: _calls_in(elf, named, raises)} if raises else {}
    else:
        callers = _callers(elf, wanted.raises)
    if not callers:
        return None
    found = {
        function.address: function
        for function, calls in callers.items()
        if function.size <= _MOST_FUNCTION_BYTES and _raises(flow_of(elf, function), calls, wanted)
    }
    if len(found) != 1:
        raise UnfitError(f"{wanted.name} was not found")
    return next(iter(found.values()))


def _calls_in(elf: Elf, function: Function, called: Function) -> list[int]:
    return [
        address
        for address, operation in flow_of(elf, function).code.operations.items()
        if operation.kind is OperationKind.CALL and operation.leads_to == called.address
    ]


def _callers(elf: Elf, name: str) -> dict[Function, list[int]]:
    """Return the functions that may call ``name`` with no constant, and where they do so."""
    found: dict[Function, list[int]] = {}
    for place in _calls(elf, name):
        function = elf.function_around(place)
        if function is not None:
            start = max(place - _BYTES_BEFORE, function.address)
            before = elf.data(start, place - start) or b""
            if not _CONSTANT.search(before):
                found.setdefault(function, []).append(place)
    return found


def _calls(elf: Elf, name: str) -> Iterator[int]:
    """Yield the places of direct calls, and of calls through what the dynamic linker fills in."""
    code = [*elf.executable()]
    function = elf.function(name)
    starts = set() if function is None else {function.address}
    slots = [(slot, slot + 1) for slot in set(elf.slots_of(name))]
    for each in find_references(code, slots, ReferenceForm.SLOT) if slots else ():
        opcode = elf.data(each.address + 1, 1)
        if opcode == _CALL:
            yield each.address
        else:
            starts |= {each.address - before for before in _STUB_STARTS}
    ranges = [(start, start + 1) for start in starts]
    for each in find_references(code, ranges, ReferenceForm.CALL) if ranges else ():
        yield each.address


def _raises(flow: Flow, calls: list[int], wanted: Raising) -> bool:
    return any(
        (state := flow.states.get(place)) is not None
        and state.one(_OBJECT) == Number(wanted.library)
        and all(_is_own(state, register, own) for register, own in wanted.passed)
        for place in calls
    ) and any(
        place not in calls and state.one(_OBJECT) == Argument(_OBJECT)
        for place, state in flow.states.items()
        if flow.code.operations[place].kind in (OperationKind.CALL, OperationKind.JUMP)
    )


def _is_own(state: State, register: str, own: str) -> bool:
    """Return whether an argument is the function's own; an int may be a copy of the low half."""
    return state.one(register) in (Argument(own), Low(Argument(own)))
