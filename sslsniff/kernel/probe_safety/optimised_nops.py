"""Finds nops that a kernel may replace by a call once a uprobe on them was hit (x86-64).

Linux 6.18 does so with every nop of 5 bytes (arch/x86/kernel/uprobes.c, ``can_optimize``). The call
stores its return address below the stack pointer, where a leaf function may keep values: the
program computes with wrong numbers. A child that the program forks lacks the page that is called.
Later kernels take a nop of 10 bytes, which has room to move the stack pointer first ("uprobes/x86:
Move optimized uprobe from nop5 to nop10").
"""

_SHORTEST_CALL_BYTES = 5
_PREFIXES = frozenset(b"\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3")
_REX = range(0x40, 0x50)
_NOP, _NOP_MODRM, _MOV, _LEA, _JUMP, _NEAR_JUMP = 0x90, b"\x0f\x1f", 0x89, 0x8D, 0xE9, 0xEB
_JUMP_DISTANCE_BYTES = {_JUMP: 4, _NEAR_JUMP: 1}
_MOST_BYTES = 15


def optimised_nop(code: bytes) -> bytes:
    """Return the nop that ``code`` begins with, if a kernel may replace it by a call; else b"".

    A call needs 5 bytes: shorter nops stay. The forms are those of ``insn_is_nop`` in
    arch/x86/lib/insn-eval.c, and more: what its operands are does not count here.
    """
    at = 0
    while at < len(code) and (code[at] in _PREFIXES or code[at] in _REX):
        at += 1
    size = at + _size_without_prefixes(code[at:])
    return code[:size] if at < size and _SHORTEST_CALL_BYTES <= size <= _MOST_BYTES else b""


def _size_without_prefixes(code: bytes) -> int:
    """Return the size of a nop; 0: it is none, or does not end in ``code``."""
    first = code[0] if code else 0
    size = 0
    if first == _NOP:
        size = 1
    elif first in _JUMP_DISTANCE_BYTES:
        size = 1 + _JUMP_DISTANCE_BYTES[first]
        if any(code[1:size]):
            size = 0
    elif code.startswith(_NOP_MODRM) and len(code) > 2 and code[2] >> 3 & 7 == 0:
        size = 2 + _operand_bytes(code[2:])
    elif first in (_MOV, _LEA) and len(code) > 1 and _keeps_registers(first, code[1:]):
        size = 1 + _operand_bytes(code[1:])
    return size if size <= len(code) else 0


def _keeps_registers(opcode: int, operand: bytes) -> bool:
    """Say whether ``mov`` or ``lea`` may have the register as its target that it reads."""
    mode, register, base = operand[0] >> 6, operand[0] >> 3 & 7, operand[0] & 7
    if opcode == _MOV:
        return mode == 3 and register == base
    if mode not in (1, 2):
        return False
    if base == 4:  # a SIB byte follows
        base = operand[1] & 7 if len(operand) > 1 else -1
    size = _operand_bytes(operand)
    return register == base and not any(operand[size - (1 if mode == 1 else 4) : size])


def _operand_bytes(operand: bytes) -> int:
    """Return the size of ModRM, SIB and displacement (Intel SDM, volume 2, section 2.1.3)."""
    mode, base = operand[0] >> 6, operand[0] & 7
    if mode == 3:
        return 1
    has_sib = base == 4
    is_absolute = mode == 0 and (
        base == 5 or (has_sib and len(operand) > 1 and operand[1] & 7 == 5)
    )
    displacement = 4 if mode == 2 or is_absolute else mode
    return 1 + has_sib + displacement
