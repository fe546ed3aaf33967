"""Where a function returns, and cheap places for probes on that way (x86-64).

A return probe costs half a hit more, and needs a place where the stack pointer is that of the call.
Where a function has no such place that is cheap (newer compilers make the whole frame with one
``sub``), it may still have one behind that, and another before it returns, such as the jump by
which it checks its stack protector. On both the stack pointer is the same: by it a return is known
to be a call's.
"""

import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from sslsniff.instructions import (
    direct_target,
    disassemble,
    goes_on,
    is_branch,
    is_jump,
    is_return,
    jump_targets,
    registers_written,
)
from sslsniff.sites import Cost, best_site, is_emulated

if TYPE_CHECKING:
    import capstone

_FURTHEST_BACK = 32
_CASE = struct.Struct("<i")
_WORD_BYTES = 8


class Span(NamedTuple):
    """Addresses in a function: one that each call passes, others of which a return passes one."""

    enter: int
    leaves: tuple[int, ...]


def emulated_span(code: bytes, address: int, registers: tuple[str, ...]) -> Span | None:
    """Return emulated places for probes on a call's way in and out, all with one stack pointer.

    At the first the ``registers`` are as at the call, at the others ``rax`` is as at the return.
    None where the function has no such places.
    """
    enter = best_site(code, address, registers, with_return=False)
    function = disassemble(code, address)
    if enter is None or enter.cost is not Cost.EMULATED:
        return None
    if sum(each.size for each in function) < len(code):
        return None
    if any(is_jump(each) and direct_target(each) is None for each in function):
        return None  # it may lead anywhere
    depths = [_pushed_bytes(each) for each in function if each.address < enter.address]
    targets = jump_targets(code, address, ("j",))
    leaves = [
        _place_before(at, function, targets, sum(each or 0 for each in depths))
        for at, each in enumerate(function)
        if is_return(each)
    ]
    found = tuple(each for each in leaves if each is not None and each > enter.address)
    is_whole = None not in depths and found and len(found) == len(leaves)
    return Span(enter.address, found) if is_whole else None


def _place_before(
    at: int, function: "list[capstone.CsInsn]", targets: set[int], wanted_bytes: int
) -> int | None:
    """Return the emulated instruction that leads to the return with index ``at`` and only there.

    ``wanted_bytes``: so much is on the stack then. None where the way to the return has none.
    """
    on_stack = 0
    while at and function[at].address not in targets:
        at -= 1
        each = function[at]
        pushed = _pushed_bytes(each)
        if not goes_on(each) or pushed is None or "rax" in registers_written(each):
            return None
        on_stack -= pushed
        if is_emulated(each.bytes) and on_stack == wanted_bytes:
            return each.address if not is_branch(each) or _dies(each, function) else None
        if is_branch(each):
            return None
    return None


def _dies(jump: "capstone.CsInsn", function: "list[capstone.CsInsn]") -> bool:
    """Say whether a jump, if taken, leads to the end of the function: calls that do not return."""
    target = direct_target(jump)
    behind = [each for each in function if target is not None and each.address >= target]
    return (
        is_jump(jump)
        and bool(behind)
        and behind[0].address == target
        and behind[-1].mnemonic == "call"
        and not any(is_jump(each) or is_return(each) for each in behind)
    )


def _pushed_bytes(instruction: "capstone.CsInsn") -> int | None:
    """Return by how much an instruction makes the stack longer; None: who knows."""
    if "rsp" not in registers_written(instruction):
        return 0
    register, _, number = instruction.op_str.partition(", ")
    if instruction.mnemonic == "push":
        return _WORD_BYTES
    if instruction.mnemonic == "pop" and register != "rsp":
        return -_WORD_BYTES
    if instruction.mnemonic in _SIGNS and register == "rsp" and number[:1].isdecimal():
        return _SIGNS[instruction.mnemonic] * int(number, 0)
    return None


_SIGNS = {"sub": 1, "add": -1}


def return_sites(
    code: bytes, address: int, read: Callable[[int, int], bytes | None]
) -> list[int] | None:
    """Return the addresses of all return instructions of a function.

    ``read`` returns memory as linked by address and size, for the tables of its switches. None
    where returns are not all its ways out: a jump leaves it or leads who knows where, or not all
    bytes are instructions.
    """
    instructions = disassemble(code, address)
    if sum(each.size for each in instructions) < len(code):
        return None
    starts = {each.address for each in instructions}
    for at, each in enumerate(instructions):
        if is_jump(each) and direct_target(each) not in starts:
            target = _first_case(_way_to(at, instructions), read)
            if target not in starts or target == address:
                return None
    return [each.address for each in instructions if is_return(each)] or None


def _first_case(
    way: "list[capstone.CsInsn]", read: Callable[[int, int], bytes | None]
) -> int | None:
    """Return where the first case of a switch is, whose indirect jump ends ``way``; None: no such.

    Position-independent code jumps by a table of i32 that count from the table's own address: lea
    of the table, movsxd of an entry, add, jmp. Such a table is of one switch: where one case is in
    the function, all are.
    """
    *way, jump = way
    add = _change(jump.op_str, way)
    if add is None or add[-1].mnemonic != "add":
        return None
    operands = add[-1].op_str.split(", ")
    for value, table in (operands, reversed(operands)):
        load = _change(value, add[:-1])
        base = load and _change(table, load[:-1])
        if load is None or base is None:
            continue
        is_entry = re.fullmatch(rf"{value}, dword ptr \[{table} \+ \w+\*4\]", load[-1].op_str)
        at = re.fullmatch(rf"{table}, \[rip ([+-]) (\w+)\]", base[-1].op_str)
        if is_entry and at:
            start = base[-1].address + base[-1].size + int(at[1] + at[2], 0)
            entry = read(start, _CASE.size)
            return start + _CASE.unpack(entry)[0] if entry else None
    return None


def _way_to(at: int, instructions: "list[capstone.CsInsn]") -> "list[capstone.CsInsn]":
    """Return the last instructions on a way within a function to that with index ``at``, and it."""
    jumps = {direct_target(each): index for index, each in enumerate(instructions)}
    way = [instructions[at]]
    while len(way) < _FURTHEST_BACK:
        if at == 0 or not goes_on(instructions[at - 1]):
            if instructions[at].address not in jumps:
                break
            at = jumps[instructions[at].address]
        else:
            at -= 1
        way.insert(0, instructions[at])
    return way


def _change(register: str, way: "list[capstone.CsInsn]") -> "list[capstone.CsInsn] | None":
    """Return ``way`` up to the last instruction that changes a register; None: none does."""
    for count in range(len(way), 0, -1):
        if register in registers_written(way[count - 1]):
            return way[:count]
    return None
