"""From a function's bytes to the best place for a probe.

A uprobe replaces an instruction. Those that the kernel can emulate cost one trap; all
others are executed out of line with a second trap, an order of magnitude dearer on
virtual machines. So a probe stands on the first emulated instruction of the straight way in at
which everything the probe needs is still as it was at the call.
"""

import re
import struct
from collections.abc import Callable, Collection
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from sslsniff import aarch64, instructions
from sslsniff.instructions import (
    direct_target,
    disassemble,
    goes_on,
    is_jump,
    is_return,
    jump_targets,
    registers_written,
)

if TYPE_CHECKING:
    import capstone


class Cost(Enum):
    """What a hit costs."""

    EMULATED = "emulated"
    STEPPED = "single-step"


class Site(NamedTuple):
    """The address for a probe, and what a hit costs there."""

    address: int
    cost: Cost


# arch/x86/kernel/uprobes.c: push_setup_ops and branch_setup_ops. `push` of a register, direct jumps
# and calls, and the one-byte nop; none with an operand-size prefix.
_PUSHES = frozenset(range(0x50, 0x58))
_BRANCHES = frozenset({0x90, 0xE8, 0xE9, 0xEB, *range(0x70, 0x80)})
_REX_B = 0x41
_TWO_BYTES = 0x0F
_LONG_CONDITIONAL = frozenset(range(0x80, 0x90))

_FURTHEST_INSTRUCTIONS = 16
_FURTHEST_BACK = 32
_CASE = struct.Struct("<i")


def is_emulated(encoded: bytes) -> bool:
    """Say whether the kernel emulates an instruction rather than stepping over it."""
    first = encoded[0]
    if first == _REX_B:
        return len(encoded) == 2 and encoded[1] in _PUSHES
    if first == _TWO_BYTES:
        return encoded[1] in _LONG_CONDITIONAL
    return first in _PUSHES or first in _BRANCHES


class Machine(NamedTuple):
    """What sites depend on.

    ``arguments`` are the registers of arguments, ``by_return`` those that a return probe needs as
    they were at the call: what tells it where the call returns to. ``is_emulated`` is None for what
    takes no probe.
    """

    arguments: tuple[str, ...]
    by_return: tuple[str, ...]
    is_emulated: Callable[[bytes], bool | None]
    disassemble: "Callable[[bytes, int, int], list[capstone.CsInsn]]"
    jump_targets: Callable[[bytes, int], set[int]]
    is_branch: "Callable[[capstone.CsInsn], bool]"
    registers_written: "Callable[[capstone.CsInsn], set[str]]"


MACHINES = {
    "x86-64": Machine(
        arguments=instructions.ARGUMENTS,
        by_return=("rsp",),
        is_emulated=is_emulated,
        disassemble=disassemble,
        jump_targets=lambda code, address: jump_targets(code, address, ("j",)),
        is_branch=instructions.is_branch,
        registers_written=registers_written,
    ),
    "aarch64": Machine(
        arguments=aarch64.ARGUMENTS,
        # The address is in x30, which paciasp signs; by sp the kernel tells calls apart.
        by_return=("x30", "sp"),
        is_emulated=aarch64.is_emulated,
        disassemble=aarch64.disassemble,
        jump_targets=aarch64.jump_targets,
        is_branch=aarch64.is_branch,
        registers_written=aarch64.registers_written,
    ),
}
"""Those for which there are rules, by the name that ``Elf.machine`` has."""


def best_site(
    code: bytes,
    address: int,
    registers: Collection[str],
    *,
    with_return: bool,
    machine: Machine = MACHINES["x86-64"],
) -> Site | None:
    """Return where a probe that reads ``registers`` belongs in the function ``code``.

    ``registers`` are 64-bit names such as ``rdi``. ``with_return``: a return probe stands at the
    same site, which needs the stack pointer of the call. Where nothing is better it is the entry,
    ``address``; None where that takes no probe or is no beginning of calls alone.
    """
    needed = {*registers, *(machine.by_return if with_return else ())}
    way = machine.disassemble(code, address, _FURTHEST_INSTRUCTIONS)
    targets = machine.jump_targets(code, address)
    if not way or address in targets or machine.is_emulated(way[0].bytes) is None:
        return None  # a loop to the entry would count as calls
    for instruction in way:
        if any(address < target <= instruction.address for target in targets):
            break  # also reached from within the function: not once a call
        emulated = machine.is_emulated(instruction.bytes)
        if emulated:
            return Site(instruction.address, Cost.EMULATED)
        changed = machine.registers_written(instruction)
        if emulated is None or machine.is_branch(instruction) or not needed.isdisjoint(changed):
            break
    return Site(address, Cost.STEPPED)


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
