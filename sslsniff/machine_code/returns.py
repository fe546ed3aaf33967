"""Finds where a function returns (x86-64)."""

import re
import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

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
_WORD_BYTES = 8
_CASE = struct.Struct("<i")


class FunctionEnds(NamedTuple):
    """How a function ends.

    ``returns``: the addresses of all its return instructions.
    ``tail_calls``: those of jumps to other functions, which then return in its stead.
    ``is_known``: there is no jump with an unknown target, and no bytes that are no instructions.
    """

    returns: tuple[int, ...]
    tail_calls: tuple[int, ...]
    is_known: bool


def function_ends(
    parts: Sequence[tuple[int, bytes]], read: Callable[[int, int], bytes | None]
) -> FunctionEnds:
    """Return how a function ends whose code is in ``parts``: addresses and their bytes.

    ``read``: as in ``return_sites``. A part that is not only instructions has no returns: an
    address that is not the start of one must not have a probe.
    """
    swept = [(disassemble(code, address), code) for address, code in parts]
    whole = [found for found, code in swept if sum(each.size for each in found) == len(code)]
    starts = {each.address for found in whole for each in found}
    returns, tail_calls = [], []
    is_known = len(whole) == len(parts)
    for found in whole:
        for at, each in enumerate(found):
            if is_return(each):
                returns.append(each.address)
            elif is_jump(each):
                target = direct_target(each)
                if target is not None and target not in starts:
                    tail_calls.append(each.address)
                elif target is None and not _is_switch(at, found, starts, read):
                    is_known = False
    return FunctionEnds(tuple(sorted(returns)), tuple(sorted(tail_calls)), is_known)


def _is_switch(
    at: int,
    instructions: "list[capstone.CsInsn]",
    starts: Collection[int],
    read: Callable[[int, int], bytes | None],
) -> bool:
    """Say whether the indirect jump with index ``at`` leads to a place in the function."""
    import capstone

    operand = instructions[at].operands[0]
    if (
        operand.type == capstone.CS_OP_MEM
        and operand.mem.index
        and operand.mem.scale == _WORD_BYTES
    ):
        table = read(operand.mem.disp, _WORD_BYTES)  # of addresses, where the code is not moved
        return table is not None and int.from_bytes(table, "little") in starts
    return next(_cases(_path_to(at, instructions), read), None) in starts


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
