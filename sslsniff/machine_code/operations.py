"""Turns x86-64 instructions into what data flow needs: what they move, and which may follow.

An instruction that is none of the kinds below is an ``OTHER``: only the registers and the memory
that it changes are known.
"""

from collections.abc import Iterator
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple, TypeVar

import capstone

from sslsniff.machine_code.instructions import (
    disassemble,
    is_jump,
    is_return,
    register_name,
    registers_written,
)
from sslsniff.machine_code.probe_sites import is_emulated


class OperationKind(Enum):
    """What an operation does.

    MOVE: ``target = source``.
    ADDRESS: ``target`` = the address of ``source``.
    CHOOSE: a MOVE, or nothing.
    ADD: ``target += source``.
    END: no instruction follows.
    """

    MOVE = auto()
    ADDRESS = auto()
    CHOOSE = auto()
    ADD = auto()
    PUSH = auto()
    POP = auto()
    LEAVE = auto()
    CALL = auto()
    JUMP = auto()
    BRANCH = auto()
    RETURN = auto()
    END = auto()
    OTHER = auto()


class Register(NamedTuple):
    """The low ``size`` bytes of the register with the 64-bit ``name``."""

    name: str
    size: int


class MemoryOperand(NamedTuple):
    """Memory at the value of register ``base``, if any, plus ``offset``.

    ``is_exact``: the address has no index and no segment.
    """

    base: str | None
    offset: int
    size: int
    is_exact: bool


Operand = Register | MemoryOperand | int
_AnOperand = TypeVar("_AnOperand", bound=Operand | None)


class Comparison(NamedTuple):
    """A comparison of the low ``size`` bytes of a register with a number, as the flags have it."""

    register: str
    size: int
    number: int


class Operation(NamedTuple):
    """One instruction.

    ``leads_to``: the target of a direct jump or call.
    ``condition``: the number of a conditional jump's condition in its encoding.
    ``compares``: the comparison that sets the flags, with the register's value after the operation.
    ``registers``: the registers that it changes.
    ``stores``: the memory that it changes.
    ``fills``: it also changes memory after that.
    ``computes_with``: the registers that its result may be computed from.
    """

    address: int
    size: int
    kind: OperationKind
    target: Operand | None
    source: Operand | None
    leads_to: int | None
    condition: int | None
    compares: Comparison | None
    registers: frozenset[str]
    stores: tuple[MemoryOperand, ...]
    fills: bool
    computes_with: frozenset[str]
    is_emulated: bool

    @property
    def following(self) -> int:
        """The address of the instruction after it."""
        return self.address + self.size


_LEADING = frozenset({OperationKind.CALL, OperationKind.JUMP, OperationKind.BRANCH})
_INT_BYTES = 4
_ALL_ONES = (-1, 0xFFFFFFFF)
_CALL_CHANGES = frozenset({"rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11"})
_ENDS = frozenset({"ud2", "hlt", "int3"})
_ONLY_READS = frozenset(
    {"cmp", "test", "bt", "push", "call", "jmp", "nop", "mul", "imul", "div", "idiv"}
    | {"prefetchnta", "prefetcht0", "prefetcht1", "prefetcht2"}
)
"""Instructions that do not change their first operand if it is memory."""

_ONLY_COMPARES = frozenset({"cmp", "test"})
_ZEROED_BY_ITSELF = frozenset({"xor", "sub"})
_WIDENED = frozenset({"movsxd", "movsx", "movzx"})
_LONG_BRANCH = 0x0F
_PROTECTOR_AT = 0x28
_CHECKS = frozenset({"sub", "xor", "cmp"})
_ANYWHERE = 1 << 40
"""An address with room for jumps in both directions."""


class InstructionShape(NamedTuple):
    """The meaning of an instruction's bytes at any address: most occur at many addresses.

    ``operation``: as it would be at ``_ANYWHERE``.
    ``is_relative``: it names addresses by their distance.
    ``reads_protector``: it reads the value of a stack protector.
    ``is_check``: it may compare that value.
    """

    operation: Operation
    is_relative: bool
    reads_protector: bool
    is_check: bool

    def at(self, address: int) -> Operation:
        """Return the operation that the instruction is at an address."""
        operation = Operation._make((address, *self.operation[1:]))
        if not self.is_relative:
            return operation
        by = address - _ANYWHERE
        if operation.leads_to is not None:
            there = operation.leads_to + by
            return operation._replace(source=there, leads_to=there)
        return operation._replace(
            target=_moved(operation.target, by),
            source=_moved(operation.source, by),
            stores=tuple(_moved(each, by) for each in operation.stores),
        )


@lru_cache(1 << 14)
def instruction_shape(encoded: bytes) -> InstructionShape:
    """Return the meaning of one instruction, from its bytes."""
    [instruction] = disassemble(encoded, _ANYWHERE)
    operation = _operation(instruction)
    return InstructionShape(
        operation,
        is_relative=operation.leads_to is not None or _is_relative_to_itself(instruction),
        reads_protector=_reads_protector(instruction),
        is_check=instruction.mnemonic in _CHECKS,
    )


def _moved(operand: _AnOperand, by: int) -> _AnOperand:
    """Return an operand of a relative instruction after moving the instruction ``by`` bytes."""
    if isinstance(operand, MemoryOperand) and operand.base is None:
        return operand._replace(offset=operand.offset + by)
    return operand


def _is_relative_to_itself(instruction: capstone.CsInsn) -> bool:
    """Say whether an instruction names memory by its distance from the instruction's end."""
    return any(
        each.type == capstone.CS_OP_MEM and register_name(each.mem.base) == "rip"
        for each in instruction.operands
    )


def _reads_protector(instruction: capstone.CsInsn) -> bool:
    """Say whether an instruction reads the value of stack protectors (System V ABI: fs:0x28)."""
    return any(
        register_name(each.mem.segment) == "fs" and each.mem.disp == _PROTECTOR_AT
        for each in instruction.operands
        if each.type == capstone.CS_OP_MEM and each.mem.segment
    )


def _operation(instruction: capstone.CsInsn) -> Operation:
    kind, target, source = _meaning(instruction)
    if (
        kind in (OperationKind.JUMP, OperationKind.BRANCH)
        and source == instruction.address + instruction.size
    ):
        kind, source = OperationKind.OTHER, None  # the next instruction follows in any case
    registers = registers_written(instruction)
    if kind is OperationKind.CALL:
        registers |= _CALL_CHANGES
    encoded = bytes(instruction.bytes)
    return Operation(
        address=instruction.address,
        size=instruction.size,
        kind=kind,
        target=target,
        source=source,
        leads_to=source if kind in _LEADING and isinstance(source, int) else None,
        condition=_condition(encoded) if kind is OperationKind.BRANCH else None,
        compares=_comparison(instruction.mnemonic, target, source),
        registers=frozenset(registers),
        stores=tuple(_stores(instruction)),
        fills=instruction.mnemonic.startswith("rep"),
        computes_with=frozenset(_computed_with(instruction, kind)),
        is_emulated=is_emulated(encoded),
    )


def _meaning(instruction: capstone.CsInsn) -> tuple[OperationKind, Operand | None, Operand | None]:
    """Return the kind of an operation, with its target and source."""
    mnemonic = instruction.mnemonic
    if is_return(instruction):
        return OperationKind.RETURN, None, None
    if mnemonic in _ENDS:
        return OperationKind.END, None, None
    operands = [_operand(instruction, each) for each in instruction.operands]
    if mnemonic in ("call", "notrack call", "bnd call"):
        return OperationKind.CALL, None, operands[0]
    if is_jump(instruction):
        always = mnemonic in ("jmp", "notrack jmp", "bnd jmp")
        return (OperationKind.JUMP if always else OperationKind.BRANCH), None, operands[0]
    if mnemonic == "leave":
        return OperationKind.LEAVE, None, None
    if mnemonic == "cdqe":
        return OperationKind.MOVE, Register("rax", 8), Register("rax", _INT_BYTES)
    if mnemonic in ("push", "pop") and len(operands) == 1:
        if mnemonic == "push":
            return OperationKind.PUSH, None, operands[0]
        is_followed = isinstance(operands[0], Register)
        return (OperationKind.POP if is_followed else OperationKind.OTHER), operands[0], None
    if len(operands) != 2:
        return OperationKind.OTHER, None, None
    target, source = operands
    kind = _BINARY.get(mnemonic, OperationKind.OTHER)
    if mnemonic in _ZEROED_BY_ITSELF and target == source:
        return OperationKind.MOVE, target, 0
    if mnemonic == "or" and source in _ALL_ONES:
        return OperationKind.MOVE, target, -1
    if mnemonic in ("add", "sub") and isinstance(source, int):
        return OperationKind.ADD, target, source if mnemonic == "add" else -source
    if mnemonic in _WIDENED or mnemonic.startswith("cmov"):
        kind = OperationKind.MOVE if mnemonic in _WIDENED else OperationKind.CHOOSE
    return kind, target, source


_BINARY = {"mov": OperationKind.MOVE, "movabs": OperationKind.MOVE, "lea": OperationKind.ADDRESS}


def _operand(instruction: capstone.CsInsn, operand: capstone.x86.X86Op) -> Operand | None:
    if operand.type == capstone.CS_OP_IMM:
        return int(operand.imm)
    if operand.type == capstone.CS_OP_REG:
        return Register(register_name(operand.reg), operand.size)
    if operand.type == capstone.CS_OP_MEM:
        return _memory(instruction, operand)
    return None


def _memory(instruction: capstone.CsInsn, operand: capstone.x86.X86Op) -> MemoryOperand:
    place = operand.mem
    base = register_name(place.base) if place.base else None
    offset = place.disp
    if base == "rip":
        base, offset = None, instruction.address + instruction.size + offset
    is_exact = not place.index and not place.segment
    return MemoryOperand(base, offset, operand.size, is_exact)


def _comparison(mnemonic: str, target: Operand | None, source: Operand | None) -> Comparison | None:
    """Return the comparison of an instruction; None: it compares no register with a number."""
    if not isinstance(target, Register) or target.size < _INT_BYTES:
        return None
    if mnemonic == "and" or (mnemonic == "test" and source == target):
        return Comparison(target.name, target.size, 0)
    if mnemonic == "cmp" and isinstance(source, int):
        return Comparison(target.name, target.size, source)
    return None


def _stores(instruction: capstone.CsInsn) -> Iterator[MemoryOperand]:
    """Yield the memory that an instruction changes.

    Capstone reports that ``movups`` and others read it: so all first operands count as changed.
    """
    only_reads = instruction.mnemonic.split()[-1] in _ONLY_READS
    for index, operand in enumerate(instruction.operands):
        is_written = operand.access & capstone.CS_AC_WRITE or (index == 0 and not only_reads)
        if operand.type == capstone.CS_OP_MEM and is_written:
            yield _memory(instruction, operand)


def _computed_with(instruction: capstone.CsInsn, kind: OperationKind) -> Iterator[str]:
    """Yield the registers that an instruction's result may be computed from."""
    if instruction.mnemonic in _ONLY_COMPARES or kind not in (
        OperationKind.ADDRESS,
        OperationKind.CHOOSE,
        OperationKind.ADD,
        OperationKind.OTHER,
    ):
        return
    for operand in instruction.operands:
        if operand.type == capstone.CS_OP_REG:
            yield register_name(operand.reg)
        elif operand.type == capstone.CS_OP_MEM and kind is OperationKind.ADDRESS:
            for each in (operand.mem.base, operand.mem.index):
                if each:
                    yield register_name(each)


def _condition(encoded: bytes) -> int | None:
    """Return the number of a conditional jump's condition; None: it has none (jrcxz, loop)."""
    if encoded[0] == _LONG_BRANCH and encoded[1] & 0xF0 == 0x80:
        return encoded[1] & 0xF
    return encoded[0] & 0xF if encoded[0] & 0xF0 == 0x70 else None
