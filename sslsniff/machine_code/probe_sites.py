"""The best place for a probe in a function, by its instructions.

A uprobe replaces an instruction. Those that the kernel can emulate cost one trap; all
others are executed out of line with a second trap, an order of magnitude dearer on
virtual machines. So a probe is on the first emulated instruction of the straight way in at
which everything the probe needs is still as it was at the call.
"""

from collections.abc import Callable, Collection
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from sslsniff.machine_code import aarch64, instructions
from sslsniff.machine_code.instructions import disassemble, jump_targets, registers_written

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
        # The address is in x30, which paciasp signs; by sp the kernel distinguishes calls.
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

    ``registers`` are 64-bit names such as ``rdi``. ``with_return``: a return probe is at the
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
