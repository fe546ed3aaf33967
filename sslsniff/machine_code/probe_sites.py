"""Finds the best place for a probe in a function, by its instructions.

A uprobe replaces an instruction. An instruction that the kernel can emulate costs one trap. Any
other is executed out of line, with a second trap, which costs ten times more on virtual machines.
So a probe is placed on the first emulated instruction that each call passes once, while the values
that the probe needs are still where they were at the call.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from sslsniff.kernel.probe_safety.optimised_nops import optimised_nop
from sslsniff.machine_code import aarch64, instructions
from sslsniff.machine_code.instructions import registers_written

if TYPE_CHECKING:
    import capstone


class Cost(Enum):
    """What a hit of a probe costs: one trap (``EMULATED``) or two."""

    EMULATED = "emulated"
    STEPPED = "single-step"


class Site(NamedTuple):
    """The address of a place for a probe, and what a hit costs there."""

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
    return first in _PUSHES or (first in _BRANCHES and not may_be_replaced(encoded))


def may_be_replaced(encoded: bytes) -> bool:
    """Say whether some kernel replaces an instruction by a call: it is no place for a probe."""
    return bool(optimised_nop(encoded))


class Machine(NamedTuple):
    """The rules of one kind of processor.

    ``arguments``: the registers of arguments.
    ``by_return``: the registers that a return probe needs unchanged, to find the return address.
    ``is_emulated``: returns None for an instruction that cannot have a probe.
    ``may_be_replaced``: says of a nop that it must not have one.
    """

    arguments: tuple[str, ...]
    by_return: tuple[str, ...]
    is_emulated: Callable[[bytes], bool | None]
    may_be_replaced: Callable[[bytes], bool]
    decode: "Callable[[bytes, int, int], Iterator[capstone.CsInsn]]"
    jump_targets_before: Callable[[int, bytes, int], set[int]]
    is_branch: "Callable[[capstone.CsInsn], bool]"
    registers_written: "Callable[[capstone.CsInsn], set[str]]"


MACHINES = {
    "x86-64": Machine(
        arguments=instructions.ARGUMENTS,
        by_return=("rsp",),
        is_emulated=is_emulated,
        may_be_replaced=may_be_replaced,
        decode=instructions.decode,
        jump_targets_before=instructions.jump_targets_before,
        is_branch=instructions.is_branch,
        registers_written=registers_written,
    ),
    "aarch64": Machine(
        arguments=aarch64.ARGUMENTS,
        # The address is in x30, which paciasp signs; by sp the kernel distinguishes calls.
        by_return=("x30", "sp"),
        is_emulated=aarch64.is_emulated,
        may_be_replaced=lambda _: False,
        decode=aarch64.decode,
        jump_targets_before=aarch64.jump_targets_before,
        is_branch=aarch64.is_branch,
        registers_written=aarch64.registers_written,
    ),
}
"""The machines with rules, by the names of ``Elf.machine``."""


def best_site(
    code: bytes,
    address: int,
    registers: Collection[str],
    *,
    with_return: bool,
    machine: Machine = MACHINES["x86-64"],
) -> Site | None:
    """Return the place for a probe that reads ``registers`` in the function ``code``.

    ``registers``: 64-bit names such as ``rdi``.
    ``with_return``: a return probe is placed there, too, which needs the call's stack pointer.

    If no place is better, that is the entry: the first instruction that is not a nop which a kernel
    may replace. None if it cannot have a probe, or if jumps lead to it.
    """
    needed = {*registers, *(machine.by_return if with_return else ())}
    beginning = machine.decode(code, address, _FURTHEST_INSTRUCTIONS)
    first = next((each for each in beginning if not machine.may_be_replaced(each.bytes)), None)
    if first is None or machine.is_emulated(first.bytes) is None:
        return None
    entry = Site(first.address, Cost.STEPPED)
    site = _first_emulated(chain((first,), beginning), needed, machine) or entry
    targets = machine.jump_targets_before(site.address + 1, code, address)
    if any(each <= first.address for each in targets):
        return None  # a loop to the entry would count as calls
    return entry if targets else site  # jumps lead there: one call may pass it several times


def _first_emulated(
    beginning: "Iterable[capstone.CsInsn]", needed: set[str], machine: Machine
) -> Site | None:
    """Return the first instruction that is emulated, and that all calls pass with ``needed``."""
    for instruction in beginning:
        emulated = machine.is_emulated(instruction.bytes)
        if emulated:
            return Site(instruction.address, Cost.EMULATED)
        changed = machine.registers_written(instruction)
        if emulated is None or machine.is_branch(instruction) or not needed.isdisjoint(changed):
            return None
    return None
