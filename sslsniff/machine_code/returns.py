"""Where a function returns (x86-64)."""

import re
import struct
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from sslsniff.machine_code.instructions import (
    direct_target,
    disassemble,
    goes_on,
    is_jump,
    is_return,
    registers_written,
)

if TYPE_CHECKING:
    import capstone

_FURTHEST_BACK = 32
_MOST_CASES = 256
_CASE = struct.Struct("<i")


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
            target = next(_cases(_way_to(at, instructions), read), None)
            if target not in starts or target == address:
                return None
    return [each.address for each in instructions if is_return(each)] or None


def switches(
    code: bytes, address: int, read: Callable[[int, int], bytes | None]
) -> dict[int, tuple[int, ...]]:
    """Return the switches of a function: the address of the jump -> where its cases are.

    There may be cases too many, of another switch whose table follows.
    """
    instructions = disassemble(code, address)
    starts = {each.address for each in instructions}
    found = {}
    for at, each in enumerate(instructions):
        if is_jump(each) and direct_target(each) is None:
            cases = _cases(_way_to(at, instructions), read)
            found[each.address] = tuple(dict.fromkeys(takewhile(starts.__contains__, cases)))
    return {jump: cases for jump, cases in found.items() if cases}


def _cases(way: "list[capstone.CsInsn]", read: Callable[[int, int], bytes | None]) -> Iterator[int]:
    """Yield where the cases of a switch are, whose indirect jump ends ``way``, and what follows.

    Position-independent code jumps by a table of i32 that count from the table's own address: lea
    of the table, movsxd of an entry, add, jmp. Such a table is of one switch: where one case is in
    the function, all are.
    """
    *way, jump = way
    add = _change(jump.op_str, way)
    if add is None or add[-1].mnemonic != "add":
        return
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
            for number in range(_MOST_CASES):
                entry = read(start + number * _CASE.size, _CASE.size)
                if entry is None:
                    return
                yield start + _CASE.unpack(entry)[0]
            return


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
