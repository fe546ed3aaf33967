"""Where a function returns (x86-64)."""

import re
import struct
from collections.abc import Callable, Collection, Iterator
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
    code: bytes,
    address: int,
    read: Callable[[int, int], bytes | None],
    tails: Collection[int] = (),
) -> list[int] | None:
    """Return the addresses of all return instructions of a function.

    ``read`` returns memory as linked by address and size, for the tables of switches. The result is
    None if the function may end otherwise: a jump leaves it or has an unknown target, or not all
    bytes are instructions. Jumps to one of ``tails`` do not count.
    """
    instructions = disassemble(code, address)
    if sum(each.size for each in instructions) < len(code):
        return None
    starts = {each.address for each in instructions}
    known = starts.union(tails)
    for at, each in enumerate(instructions):
        if is_jump(each) and direct_target(each) not in known:
            target = next(_cases(_path_to(at, instructions), read), None)
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
            cases = _cases(_path_to(at, instructions), read)
            found[each.address] = tuple(dict.fromkeys(takewhile(starts.__contains__, cases)))
    return {jump: cases for jump, cases in found.items() if cases}


def _cases(
    path: "list[capstone.CsInsn]", read: Callable[[int, int], bytes | None]
) -> Iterator[int]:
    """Yield where the cases of a switch are, whose indirect jump ends ``path``, and what follows.

    Position-independent code jumps by a table of i32, which are relative to the table's address:
    lea of the table, movsxd of an entry, add, jmp. A table belongs to one switch: if one case is in
    the function, all are.
    """
    *path, jump = path
    add = _last_change(jump.op_str, path)
    if add is None or add[-1].mnemonic != "add":
        return
    operands = add[-1].op_str.split(", ")
    for value, table in (operands, reversed(operands)):
        load = _last_change(value, add[:-1])
        base = load and _last_change(table, load[:-1])
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


def _path_to(at: int, instructions: "list[capstone.CsInsn]") -> "list[capstone.CsInsn]":
    """Return the end of a path in a function: it ends with the instruction with index ``at``."""
    jumps = {direct_target(each): index for index, each in enumerate(instructions)}
    path = [instructions[at]]
    while len(path) < _FURTHEST_BACK:
        if at == 0 or not goes_on(instructions[at - 1]):
            if instructions[at].address not in jumps:
                break
            at = jumps[instructions[at].address]
        else:
            at -= 1
        path.insert(0, instructions[at])
    return path


def _last_change(register: str, path: "list[capstone.CsInsn]") -> "list[capstone.CsInsn] | None":
    """Return ``path`` up to the last instruction that changes a register; None: none does."""
    for count in range(len(path), 0, -1):
        if register in registers_written(path[count - 1]):
            return path[:count]
    return None
