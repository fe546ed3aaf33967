"""The beginning of a function, which each call passes once, from its entry to its first branch.

It tells for each instruction which registers still have what they had at the entry, where the
entry's stack pointer is, and which bytes of the frame were written: unoptimised code writes its
parameters there first (x86-64).
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from sslsniff.machine_code.instructions import (
    direct_target,
    disassemble,
    is_branch,
    is_jump,
    is_return,
    jump_targets,
    register_name,
    registers_written,
)
from sslsniff.machine_code.probe_sites import is_emulated, may_be_replaced

if TYPE_CHECKING:
    import capstone

_MOST_INSTRUCTIONS = 96
_FURTHEST_INSTRUCTIONS = 64
_WORD_BYTES = 8
_INT_BYTES = 4
REGISTERS = (
    *("rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp"),
    *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"),
)
_WRITES_STRINGS = ("rep", "stos", "movsb", "movsq")


class EntryCopy(NamedTuple):
    """The low ``size`` bytes of what ``register`` had at the entry."""

    register: str
    size: int


class BeginningStep(NamedTuple):
    """An instruction of the beginning, as it is before it runs.

    ``may_be_replaced``: it is a nop that must not have a probe.
    ``pointers``: the registers that point into the frame, each with its distance to the entry's
    stack pointer, at which the return address is.
    ``copies``: the registers that have low bytes of what one had at the entry.
    ``written``: the bytes of the frame, by that distance, that were written once;
    ``overwritten``: more than once.
    """

    address: int
    is_emulated: bool
    is_return: bool
    may_be_replaced: bool
    pointers: Mapping[str, int]
    copies: Mapping[str, EntryCopy]
    written: frozenset[int]
    overwritten: frozenset[int]

    def copy_of(self, register: str, size: int) -> str | None:
        """Return a register that has ``size`` low bytes of what ``register`` had at the entry."""
        for name in (register, *self.copies):
            copy = self.copies.get(name)
            if copy is not None and copy.register == register and copy.size >= size:
                return name
        return None

    def has_written(self, offset: int, size: int) -> bool:
        """Say whether all ``size`` bytes of the frame at ``offset`` were written once."""
        wanted = range(offset, offset + size)
        return self.written.issuperset(wanted) and self.overwritten.isdisjoint(wanted)


def function_beginning(code: bytes, address: int) -> list[BeginningStep]:
    """Return the instructions that each call of a function passes once, in order.

    None of them follows one that writes memory outside of the frame: what arguments point to is as
    the caller left it. Where Go's stack check jumps back to the entry, they are only those after
    the check. Empty if other jumps lead to the entry: each turn of that loop would count as a call.
    """
    targets = jump_targets(code, address, ("j",))
    instructions = disassemble(code, address, _MOST_INSTRUCTIONS)
    check = _stack_check(code, address) if address in targets else None
    if address in targets and check is None:
        return []
    frame = _KnownFrame()
    steps = []
    for each in instructions[:_FURTHEST_INSTRUCTIONS]:
        if any(address < target <= each.address for target in targets):
            break
        if check is None or each.address > check:
            steps.append(frame.step(each))
        is_end = is_branch(each) and each.address != check
        if is_end or not frame.run(each):
            break
    return steps


def _stack_check(code: bytes, address: int) -> int | None:
    """Return the address of the branch to code that calls something and then jumps to the entry.

    None if other jumps lead to the entry, too.
    """
    instructions = {each.address: each for each in disassemble(code, address)}
    to_entry = [
        each.address
        for each in instructions.values()
        if is_jump(each) and direct_target(each) == address
    ]
    if len(to_entry) != 1:
        return None
    for each in instructions.values():
        if is_branch(each):
            if each.mnemonic in ("jmp", "call") or not is_jump(each):
                return None
            path = list(_until_branch(instructions, direct_target(each)))
            is_check = path and path[-1].address == to_entry[0]
            return each.address if is_check and any(at.mnemonic == "call" for at in path) else None
    return None


def _until_branch(
    instructions: "Mapping[int, capstone.CsInsn]", at: int | None
) -> "Iterator[capstone.CsInsn]":
    """Yield the instructions from an address to the next jump or return."""
    while at is not None and (instruction := instructions.get(at)) is not None:
        yield instruction
        if is_branch(instruction) and instruction.mnemonic != "call":
            return
        at = instruction.address + instruction.size


class _KnownFrame:
    """What is known of registers and the frame, after the instructions that ran so far."""

    def __init__(self) -> None:
        # The registers that point into the frame -> their distance to the entry's stack pointer.
        self._pointers = {"rsp": 0}
        self._copies = {each: EntryCopy(each, _WORD_BYTES) for each in REGISTERS}
        self._written: frozenset[int] = frozenset()
        self._overwritten: frozenset[int] = frozenset()

    def step(self, instruction: "capstone.CsInsn") -> BeginningStep:
        return BeginningStep(
            instruction.address,
            is_emulated(instruction.bytes),
            is_return(instruction),
            may_be_replaced(instruction.bytes),
            dict(self._pointers),
            dict(self._copies),
            self._written,
            self._overwritten,
        )

    def run(self, instruction: "capstone.CsInsn") -> bool:
        """Run an instruction; return False if it may write memory outside of the frame."""
        import capstone

        written = registers_written(instruction)
        pointer = self._new_pointer(instruction)
        copy = self._new_copy(instruction)
        for index, operand in enumerate(instruction.operands):
            # capstone 5 calls the stores of AVX reads.
            is_store = index == 0 and instruction.mnemonic.startswith("v")
            is_written = is_store or operand.access & capstone.CS_AC_WRITE
            if operand.type == capstone.CS_OP_MEM and is_written:
                at = self._address(operand)
                if at is None:
                    return False
                self._write(at, operand.size)
        if instruction.mnemonic.startswith(_WRITES_STRINGS):
            return False
        for register in written:
            self._pointers.pop(register, None)
            self._copies.pop(register, None)
        if copy is not None:
            register, source = copy
            self._copies[register] = source
        if pointer is not None:
            register, distance = pointer
            self._pointers[register] = distance
            if instruction.mnemonic == "push":
                self._write(distance, _WORD_BYTES)
        return True

    def _write(self, at: int, size: int) -> None:
        place = frozenset(range(at, at + size))
        self._overwritten |= self._written & place
        self._written |= place

    def _address(self, operand: "capstone.x86.X86Op") -> int | None:
        """Return an operand's distance to the entry's stack pointer; None: not known."""
        base = self._pointers.get(register_name(operand.mem.base))
        if base is None or operand.mem.index or operand.mem.segment:
            return None
        return base + int(operand.mem.disp)

    def _new_copy(self, instruction: "capstone.CsInsn") -> tuple[str, EntryCopy] | None:
        """Return the register that an instruction copies a value of the entry to, and which."""
        import capstone

        if instruction.mnemonic != "mov":
            return None
        target, source = instruction.operands
        if target.type != capstone.CS_OP_REG or source.type != capstone.CS_OP_REG:
            return None
        copy = self._copies.get(register_name(source.reg))
        if copy is None or target.size < _INT_BYTES:
            return None
        return register_name(target.reg), copy._replace(size=min(copy.size, target.size))

    def _new_pointer(self, instruction: "capstone.CsInsn") -> tuple[str, int] | None:
        """Return the register that points into the frame after an instruction, and where to."""
        import capstone

        operands = instruction.operands
        stack = self._pointers.get("rsp")
        match instruction.mnemonic:
            case "push" if stack is not None and operands[0].size == _WORD_BYTES:
                return "rsp", stack - _WORD_BYTES
            case "pop" if stack is not None and register_name(operands[0].reg) != "rsp":
                return "rsp", stack + _WORD_BYTES
            case "add" | "sub" if operands[1].type == capstone.CS_OP_IMM:
                register = register_name(operands[0].reg)
                if operands[0].type == capstone.CS_OP_REG and register in self._pointers:
                    change = int(operands[1].imm)
                    is_sum = instruction.mnemonic == "add"
                    return register, self._pointers[register] + (change if is_sum else -change)
            case "mov" if operands[0].type == operands[1].type == capstone.CS_OP_REG:
                source = self._pointers.get(register_name(operands[1].reg))
                if source is not None and operands[0].size == _WORD_BYTES:
                    return register_name(operands[0].reg), source
            case "lea" if operands[0].size == _WORD_BYTES:
                at = self._address(operands[1])
                return None if at is None else (register_name(operands[0].reg), at)
        return None
