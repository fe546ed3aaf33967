"""Finds what a library's accessor functions load from its objects.

This module follows their few instructions on all paths with symbolic values.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function
from sslsniff.machine_code.instructions import disassemble, whole_register

if TYPE_CHECKING:
    import capstone


@dataclass(frozen=True, slots=True)
class NumberedArgument:
    """A function's argument, by its number from 0."""

    number: int


@dataclass(frozen=True, slots=True)
class MemoryLoad:
    """What is in memory at ``base`` + ``offset``."""

    base: "NumberedArgument | MemoryLoad"
    offset: int


LoadedValue = NumberedArgument | MemoryLoad | None
"""None: any other value."""


@dataclass
class AccessorOutcomes:
    """What a function does, on all its paths together."""

    results: set[LoadedValue] = field(default_factory=set)
    stores: dict[int, set[LoadedValue]] = field(default_factory=dict)
    """Values stored through an argument, by its number."""
    tested: set[LoadedValue] = field(default_factory=set)
    compared: set[tuple[LoadedValue, int]] = field(default_factory=set)
    """Values, each with a number that it is compared with."""
    added_to: set[LoadedValue] = field(default_factory=set)
    """Memory that an atomic addition changed."""


_Found = TypeVar("_Found")

_ARGUMENTS = ("rdi", "rsi", "rdx")
_PRESERVED_BY_CALLS = ("rbx", "rbp", "r12", "r13", "r14", "r15")
_MOST_STEPS = 2000
_MOST_STEPS_A_PATH = 80


def single(offsets: tuple[int, ...] | None) -> int | None:
    """Return the offset in the object itself; None: there is none, or pointers are on the way."""
    return offsets[0] if offsets and len(offsets) == 1 else None


def field_of(values: set[LoadedValue]) -> tuple[int, ...] | None:
    """Return the offsets from the first argument to the value; None: there is not exactly one.

    A pointer on the way to the value does not count: the function returns it if it is null.
    """
    chains = {chain for value in values if (chain := chain_of(value))}
    whole = [
        chain
        for chain in chains
        if not any(other != chain and other[: len(chain)] == chain for other in chains)
    ]
    return only(whole)


def only(found: Collection[_Found]) -> _Found | None:
    """Return what was found, if it is one; None: there is not exactly one."""
    return next(iter(found)) if len(found) == 1 else None


def counted_field(outcomes: AccessorOutcomes) -> int | None:
    """Return the offset of the object's own field that an atomic addition changes; None: not one.

    A function that frees an object may also count references of those that it points to.
    """
    return single(field_of({each for each in outcomes.added_to if _is_own(each)}))


def _is_own(value: LoadedValue) -> bool:
    return isinstance(value, MemoryLoad) and value.base == NumberedArgument(0)


def chain_of(value: LoadedValue) -> tuple[int, ...] | None:
    """Return the offsets from the first argument to a value; None: it is no such value."""
    if isinstance(value, MemoryLoad):
        if value.base == NumberedArgument(0):
            return (value.offset,)
        base = chain_of(value.base)
        return (*base, value.offset) if base else None
    return None


def follow_accessor(elf: Elf, name: str) -> AccessorOutcomes:
    """Follow the function ``name`` on all its paths; without it there are no outcomes."""
    function = elf.function(name)
    return follow_function(elf, function) if function is not None else AccessorOutcomes()


def follow_function(elf: Elf, function: Function) -> AccessorOutcomes:
    """Follow a function on all its paths."""
    outcomes = AccessorOutcomes()
    code = {each.address: each for each in disassemble(elf.code(function), function.address)}
    start: dict[str, LoadedValue] = {
        name: NumberedArgument(index) for index, name in enumerate(_ARGUMENTS)
    }
    paths = [(function.address, start, 0)]
    seen: set[tuple[int, frozenset[tuple[str, LoadedValue]]]] = set()
    for _ in range(_MOST_STEPS):
        if not paths:
            break
        address, registers, steps = paths.pop()
        instruction = code.get(address)
        state = (address, frozenset(registers.items()))
        if instruction is None or steps > _MOST_STEPS_A_PATH or state in seen:
            continue
        seen.add(state)
        for following in _step(instruction, registers, outcomes):
            paths.append((following, registers.copy(), steps + 1))
    return outcomes


def _step(
    instruction: "capstone.CsInsn", registers: dict[str, LoadedValue], outcomes: AccessorOutcomes
) -> Iterator[int]:
    """Execute one instruction on ``registers``; yield the addresses of the next ones."""
    import capstone

    following = instruction.address + instruction.size
    if instruction.group(capstone.CS_GRP_RET):
        outcomes.results.add(registers.get("rax"))
        return
    if instruction.group(capstone.CS_GRP_CALL):
        preserved = {name: registers.get(name) for name in _PRESERVED_BY_CALLS}
        registers.clear()
        registers.update(preserved)
        yield following
        return
    if instruction.group(capstone.CS_GRP_JUMP):
        if instruction.operands[0].type == capstone.CS_OP_IMM:
            yield instruction.operands[0].imm
        if instruction.mnemonic != "jmp":
            yield following
        return
    _operate(instruction, registers, outcomes)
    yield following


def _operate(
    instruction: "capstone.CsInsn", registers: dict[str, LoadedValue], outcomes: AccessorOutcomes
) -> None:
    """Execute an instruction that does not branch."""
    import capstone

    operands = instruction.operands
    mnemonic = instruction.mnemonic
    if mnemonic in ("test", "cmp"):
        values = [_value(instruction, each, registers) for each in operands]
        outcomes.tested.update(values)
        if mnemonic == "cmp" and operands[1].type == capstone.CS_OP_IMM:
            outcomes.compared.add((values[0], operands[1].imm))
    if mnemonic == "lock xadd":
        outcomes.added_to.add(_value(instruction, operands[0], registers))
    if mnemonic == "mov" and operands[0].type == capstone.CS_OP_MEM:
        base = registers.get(_whole(instruction, operands[0].mem.base))
        if isinstance(base, NumberedArgument) and operands[0].mem.disp == 0:
            value = _value(instruction, operands[1], registers)
            outcomes.stores.setdefault(base.number, set()).add(value)
    moved = (
        _value(instruction, operands[1], registers)
        if mnemonic == "mov" and operands[0].type == capstone.CS_OP_REG
        else None
    )
    _, written = instruction.regs_access()
    for register in written:
        registers[_whole(instruction, register)] = None
    if moved is not None and operands[0].size >= 4:
        registers[_whole(instruction, operands[0].reg)] = moved


def _value(
    instruction: "capstone.CsInsn", operand: "capstone.x86.X86Op", registers: dict[str, LoadedValue]
) -> LoadedValue:
    import capstone

    if operand.type == capstone.CS_OP_REG:
        return registers.get(_whole(instruction, operand.reg))
    if operand.type == capstone.CS_OP_MEM and not operand.mem.index and not operand.mem.segment:
        base = registers.get(_whole(instruction, operand.mem.base))
        return MemoryLoad(base, operand.mem.disp) if base is not None else None
    return None


def _whole(instruction: "capstone.CsInsn", register: int) -> str:
    return whole_register(instruction.reg_name(register) or "")
