"""Finds the callers of a function, and a function by its callers (x86-64)."""

import re
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from sslsniff.machine_code.instructions import (
    ARGUMENTS,
    direct_target,
    disassemble,
    instruction_lines,
    jump_targets,
    registers_read,
    registers_written,
    ways_on,
)

# call, jmp and jcc with a distance of 4 bytes; jmp and jcc with one of a byte.
_LONG = re.compile(rb"[\xe8\xe9]|\x0f[\x80-\x8f]")
_SHORT = re.compile(rb"[\xeb\x70-\x7f]")
_FAR, _NEAR = struct.Struct("<i"), struct.Struct("<b")
_NEAR_BYTES = 130
_SLOT_JUMPS = frozenset({"jmp", "bnd jmp", "notrack jmp"})
_SLOT = re.compile(r"qword ptr \[rip ([+-]) (\w+)\]")


def passed_arguments(code: bytes, address: int) -> dict[int, frozenset[str]]:
    """Return each called function -> the registers in which it gets the caller's own arguments.

    ``code`` is the caller's, at ``address``. A register counts only if that holds for every call of
    the function, on every path. A direct jump that leaves the caller is a call too.
    """
    instructions = {each.address: each for each in disassemble(code, address)}
    intact_at: dict[int, frozenset[str]] = {}
    found: dict[int, frozenset[str]] = {}
    paths = [(address, frozenset(ARGUMENTS))]
    while paths:
        at, intact = paths.pop()
        instruction = instructions.get(at)
        intact &= intact_at.get(at, intact)
        if instruction is None or intact_at.get(at) == intact:
            continue
        intact_at[at] = intact
        target = direct_target(instruction)
        if target is not None and target not in instructions:
            found[target] = found.get(target, intact) & intact
        after = (
            frozenset()
            if instruction.mnemonic == "call"
            else intact - registers_written(instruction)
        )
        paths += [(each, after) for each in ways_on(instruction)]
    return found


def callees(code: bytes, address: int) -> set[int]:
    """Return the targets of all direct calls and jumps that leave a function."""
    end = address + len(code)
    targets = jump_targets(code, address, ("j", "call"))
    return {target for target in targets if not address <= target < end}


class Call(NamedTuple):
    """A direct call at ``address`` in the function at ``caller``.

    ``return_bytes``: the bytes of the instruction at ``return_address``.
    """

    caller: int
    address: int
    return_address: int
    return_bytes: bytes


def direct_calls(
    target: int,
    parts: Iterable[tuple[int, bytes]],
    around: Callable[[int], tuple[int, bytes] | None],
) -> list[Call] | None:
    """Return all direct calls of the function at ``target``; None: a jump may lead there, too.

    ``parts``: addresses and bytes of a file's code; they may overlap.
    ``around``: returns address and code of the function that contains an address.
    """
    calls = []
    for place in dict.fromkeys(places_leading_to(target, parts)):
        caller = around(place)
        if caller is None:
            return None
        address, code = caller
        function = disassemble(code, address)
        if sum(each.size for each in function) < len(code):
            return None
        at = next((at for at, each in enumerate(function) if each.address == place), None)
        if at is None:
            continue  # in the middle of an instruction
        if function[at].mnemonic != "call" or at + 1 == len(function):
            return None
        after = function[at + 1]
        calls.append(Call(address, place, after.address, bytes(after.bytes)))
    return calls


def places_leading_to(target: int, parts: Iterable[tuple[int, bytes]]) -> Iterator[int]:
    """Yield the places that look like direct calls of, or jumps to, the function at ``target``.

    ``parts``: as of ``direct_calls``. A place where two overlap may be yielded twice.
    """
    for start, code in parts:
        middle = target - start
        near = max(middle - _NEAR_BYTES, 0), max(middle + _NEAR_BYTES, 0)
        for form, distance, bounds in ((_LONG, _FAR, (0, len(code))), (_SHORT, _NEAR, near)):
            for match in form.finditer(code, *bounds):
                end = match.end() + distance.size
                if end <= len(code) and distance.unpack_from(code, match.end())[0] == middle - end:
                    yield start + match.start()


def called_slots(code: bytes, address: int) -> set[int]:
    """Return the addresses of the pointers that a function calls or jumps through."""
    return {
        at + size + int(match[1] + match[2], 0)
        for at, size, mnemonic, operand in instruction_lines(code, address)
        if mnemonic in {"call", *_SLOT_JUMPS} and (match := _SLOT.fullmatch(operand))
    }


def stub_slot(code: bytes, address: int) -> int | None:
    """Return the address of the pointer through which ``code`` jumps at once; None: it is no stub.

    A library calls functions that another library may replace through stubs (procedure linkage
    table). These include its own exported functions.
    """
    for instruction in disassemble(code, address, 2):
        if instruction.mnemonic in _SLOT_JUMPS:
            return min(called_slots(bytes(instruction.bytes), instruction.address), default=None)
    return None


def arguments(code: bytes, address: int) -> frozenset[str]:
    """Return the argument registers that a function reads before a change or a call."""
    instructions = {each.address: each for each in disassemble(code, address)}
    read: set[str] = set()
    seen: set[tuple[int, frozenset[str]]] = set()
    paths = [(address, frozenset(ARGUMENTS))]
    while paths:
        at, intact = paths.pop()
        instruction = instructions.get(at)
        if instruction is None or not intact or (at, intact) in seen:
            continue
        seen.add((at, intact))
        read |= intact & registers_read(instruction)
        if instruction.mnemonic != "call":
            after = intact - registers_written(instruction)
            paths += [(each, after) for each in ways_on(instruction)]
    return frozenset(read)
