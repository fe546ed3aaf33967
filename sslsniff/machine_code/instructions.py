"""x86-64 instructions, by capstone: where they lead, which registers they use."""

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import capstone

ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
"""The registers of integer arguments in order (System V ABI, x86-64)."""


class CallingConvention(NamedTuple):
    """Where a function finds its arguments, and where its caller finds the result.

    Both are a register, or an offset from the stack pointer of the entry.
    """

    arguments: tuple[str | int, ...]
    result: str | int
    kept: frozenset[str]
    """Registers that a call does not change."""
    has_own_arguments: bool = False
    """An address of a local variable never leads to an argument on the stack: Go has no pointer
    arithmetic."""


SYSTEM_V = CallingConvention(
    ARGUMENTS, "rax", frozenset({"rbx", "rsp", "rbp", "r12", "r13", "r14", "r15"})
)
"""That of C (System V ABI, AMD64 supplement, section 3.2.1)."""

_NEAR_JUMP = re.compile(rb"[\x70-\x7f\xe3\xeb](?=(.))", re.DOTALL)
_FAR_JUMP = re.compile(rb"(?:\xe9|\x0f[\x80-\x8f])(?=(.{4}))", re.DOTALL)
_FURTHEST_NEAR = 128
# With an operand-size prefix, among other prefixes, some processors read 16 bits of distance.
_PREFIXED_JUMP = re.compile(
    rb"\x66[\x26\x2e\x36\x3e\x40-\x4f\x64-\x67\xf0\xf2\xf3]*"
    rb"(?:[\x70-\x7f\xe3\xe9\xeb]|\x0f[\x80-\x8f])"
)

_HAS_NO_NEXT = frozenset({"jmp", "notrack jmp", "ud2", "hlt"})


@cache
def _disassembler() -> "capstone.Cs":
    import capstone  # takes 50 ms; a start with cached plans does not need it

    machine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    machine.detail = True
    return machine


def disassemble(code: bytes, address: int, most: int = 0) -> list["capstone.CsInsn"]:
    """Return the instructions of ``code`` up to the first that is none; not 0: so many at most."""
    return list(decode(code, address, most))


def decode(code: bytes, address: int, most: int = 0) -> Iterator["capstone.CsInsn"]:
    """Yield what ``disassemble`` returns: faster if only the first are used."""
    yield from _disassembler().disasm(code, address, most)


def instruction_lines(code: bytes, address: int) -> Iterator[tuple[int, int, str, str]]:
    """Yield address, size, mnemonic and operands: faster than ``disassemble``."""
    yield from _disassembler().disasm_lite(code, address)


def ways_on(instruction: "capstone.CsInsn") -> list[int]:
    """Return the addresses of the instructions that may follow one in its function."""
    following = []
    if goes_on(instruction):
        following.append(instruction.address + instruction.size)
    if is_jump(instruction) and (target := direct_target(instruction)) is not None:
        following.append(target)
    return following


def goes_on(instruction: "capstone.CsInsn") -> bool:
    """Say whether the instruction at the next address may follow."""
    return not (is_return(instruction) or instruction.mnemonic in _HAS_NO_NEXT)


def is_return(instruction: "capstone.CsInsn") -> bool:
    """Say whether an instruction returns."""
    import capstone

    return bool(instruction.group(capstone.CS_GRP_RET))


def is_jump(instruction: "capstone.CsInsn") -> bool:
    """Say whether an instruction is a jump, conditional or not."""
    import capstone

    return bool(instruction.group(capstone.CS_GRP_JUMP))


def is_branch(instruction: "capstone.CsInsn") -> bool:
    """Say whether an instruction jumps, calls or returns."""
    return instruction.mnemonic == "call" or is_jump(instruction) or is_return(instruction)


def jump_targets(code: bytes, address: int, mnemonics: tuple[str, ...]) -> set[int]:
    """Return the targets of direct jumps and calls whose mnemonic begins with one of these."""
    return {
        int(operand, 16)
        for _, _, mnemonic, operand in instruction_lines(code, address)
        if mnemonic.startswith(mnemonics) and operand.startswith("0x")
    }


def jump_targets_before(end: int, code: bytes, address: int) -> set[int]:
    """Return the targets of direct jumps that are in ``code``, and before the address ``end``.

    Faster than ``jump_targets``: only where some bytes may be such a jump, at whatever offset, is
    the code disassembled.
    """
    size = end - address
    if not _may_jump_before(size, code):
        return set()
    return {each for each in jump_targets(code, address, ("j",)) if address <= each < end}


def _may_jump_before(size: int, code: bytes) -> bool:
    """Say whether any bytes of ``code`` look like a jump to its first ``size`` bytes."""
    if _PREFIXED_JUMP.search(code):
        return True
    for form, last in ((_NEAR_JUMP, size + _FURTHEST_NEAR), (_FAR_JUMP, len(code))):
        for found in form.finditer(code, 0, last):
            distance = int.from_bytes(found[1], "little", signed=True)
            if 0 <= found.end(1) + distance < size:
                return True
    return False


def direct_target(instruction: "capstone.CsInsn") -> int | None:
    """Return the target of a direct jump or call; None for all other instructions."""
    import capstone

    if not (instruction.mnemonic == "call" or is_jump(instruction)):
        return None
    operand = instruction.operands[0]
    return int(operand.imm) if operand.type == capstone.CS_OP_IMM else None


def registers_read(instruction: "capstone.CsInsn") -> set[str]:
    """Return the 64-bit names of the general registers that an instruction reads."""
    read, _ = instruction.regs_access()
    operands = instruction.op_str.split(", ")
    if instruction.mnemonic == "xor" and operands[0] == operands[-1]:
        return set()  # sets the register to 0, whatever it had
    return {register_name(each) for each in read}


def registers_written(instruction: "capstone.CsInsn") -> set[str]:
    """Return the 64-bit names of the general registers that an instruction changes."""
    _, written = instruction.regs_access()
    return {register_name(each) for each in written}


@cache
def register_name(number: int) -> str:
    """Return the 64-bit name of a general register by capstone's number of it or of a part."""
    return whole_register(_disassembler().reg_name(number) or "")


def whole_register(name: str) -> str:
    """Return the 64-bit name of a general register by the name of a part: ``eax`` -> ``rax``."""
    return _WHOLE.get(name, name)


def _parts() -> dict[str, str]:
    """Return the name of each part of a general register -> its 64-bit name."""
    whole = {}
    for letter in "abcd":
        for part in (f"e{letter}x", f"{letter}x", f"{letter}l", f"{letter}h"):
            whole[part] = f"r{letter}x"
    for name in ("si", "di", "sp", "bp"):
        for part in (f"e{name}", name, f"{name}l"):
            whole[part] = f"r{name}"
    for number in range(8, 16):
        for suffix in "dwb":
            whole[f"r{number}{suffix}"] = f"r{number}"
    return whole


_WHOLE = _parts()
