"""From a function's bytes to the best place for a probe (x86-64).

A uprobe replaces an instruction. Those that the kernel can emulate cost one trap; all
others are executed out of line with a second trap, an order of magnitude dearer on
virtual machines. So a probe stands on the first emulated instruction of the straight way in at
which everything the probe needs is still as it was at the call.
"""

import re
import struct
from collections.abc import Callable, Collection
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

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
_SLOT_JUMPS = frozenset({"jmp", "bnd jmp", "notrack jmp"})
_SLOT = re.compile(r"qword ptr \[rip ([+-]) (\w+)\]")
_NO_WAY_ON = frozenset({"jmp", "notrack jmp", "ud2", "hlt"})

ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
"""The registers of integer arguments in order (System V ABI, x86-64)."""


@cache
def _disassembler() -> "capstone.Cs":
    import capstone  # costs 50 ms, and a warm start does not need it

    machine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    machine.detail = True
    return machine


def disassemble(code: bytes, address: int, most: int = 0) -> list["capstone.CsInsn"]:
    """Return the instructions of ``code`` up to the first that is none; not 0: so many at most."""
    return list(_disassembler().disasm(code, address, most))


def is_emulated(encoded: bytes) -> bool:
    """Say whether the kernel emulates an instruction rather than stepping over it."""
    first = encoded[0]
    if first == _REX_B:
        return len(encoded) == 2 and encoded[1] in _PUSHES
    if first == _TWO_BYTES:
        return encoded[1] in _LONG_CONDITIONAL
    return first in _PUSHES or first in _BRANCHES


def best_site(
    code: bytes, address: int, registers: Collection[str], *, with_return: bool
) -> Site | None:
    """Return where a probe that reads ``registers`` belongs in the function ``code``.

    ``registers`` are 64-bit names such as ``rdi``. ``with_return``: a return probe stands at the
    same site, which needs the stack pointer of the call. Where nothing is better it is the entry,
    ``address``; None where that is no beginning of calls alone.
    """
    needed = {*registers, "rsp"} if with_return else {*registers}
    instructions = disassemble(code, address, _FURTHEST_INSTRUCTIONS)
    targets = _targets(code, address, ("j",))
    if not instructions or address in targets:
        return None  # a loop to the entry would count as calls
    for instruction in instructions:
        if instruction.address in targets:
            break  # also reached from within the function: not once a call
        if is_emulated(instruction.bytes):
            return Site(instruction.address, Cost.EMULATED)
        if _is_branch(instruction) or not needed.isdisjoint(_written(instruction)):
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
        if _is_jump(each) and _direct_target(each) not in starts:
            target = _first_case(_way_to(at, instructions), read)
            if target not in starts or target == address:
                return None
    return [each.address for each in instructions if _is_return(each)] or None


def handed_on(code: bytes, address: int) -> dict[int, frozenset[str]]:
    """Return the functions called -> the registers with which they get the caller's own arguments.

    Only what holds for every such call of the function ``code`` at ``address``, in whatever way it
    is reached. A direct jump that leaves the function is a call too.
    """
    instructions = {each.address: each for each in disassemble(code, address)}
    intact_at: dict[int, frozenset[str]] = {}
    found: dict[int, frozenset[str]] = {}
    ways = [(address, frozenset(ARGUMENTS))]
    while ways:
        at, intact = ways.pop()
        instruction = instructions.get(at)
        intact &= intact_at.get(at, intact)
        if instruction is None or intact_at.get(at) == intact:
            continue
        intact_at[at] = intact
        target = _direct_target(instruction)
        if target is not None and target not in instructions:
            found[target] = found.get(target, intact) & intact
        after = frozenset() if instruction.mnemonic == "call" else intact - _written(instruction)
        ways += [(each, after) for each in _following(instruction)]
    return found


def callees(code: bytes, address: int) -> set[int]:
    """Return where direct calls and jumps lead out of a function, wherever they stand in it."""
    end = address + len(code)
    leads = _targets(code, address, ("j", "call"))
    return {each for each in leads if not address <= each < end}


def called_slots(code: bytes, address: int) -> set[int]:
    """Return the addresses of the pointers through which a function calls or jumps."""
    return {
        at + size + int(match[1] + match[2], 0)
        for at, size, mnemonic, operand in _disassembler().disasm_lite(code, address)
        if mnemonic in {"call", *_SLOT_JUMPS} and (match := _SLOT.fullmatch(operand))
    }


def stub_slot(code: bytes, address: int) -> int | None:
    """Return the address of the pointer through which ``code`` jumps at once; None if it does not.

    So look the stubs (procedure linkage table) by which a library calls functions that another
    may have in its place, its own exported ones included.
    """
    for instruction in disassemble(code, address, 2):
        if instruction.mnemonic in _SLOT_JUMPS:
            return min(called_slots(bytes(instruction.bytes), instruction.address), default=None)
    return None


def arguments(code: bytes, address: int) -> frozenset[str]:
    """Return the argument registers that a function reads before it changes or hands them on."""
    instructions = {each.address: each for each in disassemble(code, address)}
    read: set[str] = set()
    seen: set[tuple[int, frozenset[str]]] = set()
    ways = [(address, frozenset(ARGUMENTS))]
    while ways:
        at, intact = ways.pop()
        instruction = instructions.get(at)
        if instruction is None or not intact or (at, intact) in seen:
            continue
        seen.add((at, intact))
        read |= intact & _read(instruction)
        if instruction.mnemonic != "call":
            after = intact - _written(instruction)
            ways += [(each, after) for each in _following(instruction)]
    return frozenset(read)


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
    jumps = {_direct_target(each): index for index, each in enumerate(instructions)}
    way = [instructions[at]]
    while len(way) < _FURTHEST_BACK:
        if at == 0 or not _goes_on(instructions[at - 1]):
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
        if register in _written(way[count - 1]):
            return way[:count]
    return None


def _following(instruction: "capstone.CsInsn") -> list[int]:
    """Return where an instruction can lead within its function."""
    following = []
    if _goes_on(instruction):
        following.append(instruction.address + instruction.size)
    if _is_jump(instruction) and (target := _direct_target(instruction)) is not None:
        following.append(target)
    return following


def _goes_on(instruction: "capstone.CsInsn") -> bool:
    """Say whether an instruction can lead to the one behind it."""
    return not (_is_return(instruction) or instruction.mnemonic in _NO_WAY_ON)


def _is_return(instruction: "capstone.CsInsn") -> bool:
    import capstone

    return bool(instruction.group(capstone.CS_GRP_RET))


def _is_jump(instruction: "capstone.CsInsn") -> bool:
    import capstone

    return bool(instruction.group(capstone.CS_GRP_JUMP))


def _is_branch(instruction: "capstone.CsInsn") -> bool:
    return instruction.mnemonic == "call" or _is_jump(instruction) or _is_return(instruction)


def _targets(code: bytes, address: int, mnemonics: tuple[str, ...]) -> set[int]:
    """Return where direct jumps or calls lead; without what takes capstone its time."""
    return {
        int(operand, 16)
        for _, _, mnemonic, operand in _disassembler().disasm_lite(code, address)
        if mnemonic.startswith(mnemonics) and operand.startswith("0x")
    }


def _direct_target(instruction: "capstone.CsInsn") -> int | None:
    """Return where a jump or call leads; None where that is indirect, and for all others."""
    import capstone

    if not (instruction.mnemonic == "call" or _is_jump(instruction)):
        return None
    operand = instruction.operands[0]
    return int(operand.imm) if operand.type == capstone.CS_OP_IMM else None


def _read(instruction: "capstone.CsInsn") -> set[str]:
    """Return the 64-bit names of the general registers that an instruction reads."""
    read, _ = instruction.regs_access()
    operands = instruction.op_str.split(", ")
    if instruction.mnemonic == "xor" and operands[0] == operands[-1]:
        return set()  # the way to say zero
    return {whole_register(instruction.reg_name(each)) for each in read}


def _written(instruction: "capstone.CsInsn") -> set[str]:
    """Return the 64-bit names of the general registers that an instruction changes."""
    _, written = instruction.regs_access()
    return {whole_register(instruction.reg_name(each)) for each in written}


def whole_register(name: str) -> str:
    """Return the 64-bit name of a general register by that of a part: ``eax`` is of ``rax``."""
    return _WHOLE.get(name, name)


def _parts() -> dict[str, str]:
    """Return every part of a general register -> the whole register."""
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
