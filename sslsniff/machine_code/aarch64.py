"""aarch64 instructions: how the kernel probes them, their targets, and what they change.

Each is a word of 4 bytes. This module recognises them by their bits (Arm ARM, C4.1) where it can:
capstone does not know the newest.
"""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import capstone

ARGUMENTS = tuple(f"x{number}" for number in range(8))
"""The registers of integer arguments in order (AAPCS64, 6.8.2)."""

_WORD_BYTES = 4


class _Form(NamedTuple):
    """The words that have ``value`` in the bits of ``mask``."""

    mask: int
    value: int

    def fits(self, word: int) -> bool:
        return word & self.mask == self.value


class _Jump(NamedTuple):
    """Jumps whose distance, in words from their own address, has ``bits`` bits from ``low`` on."""

    form: _Form
    low: int
    bits: int

    def target(self, word: int, address: int) -> int:
        sign = 1 << self.bits - 1
        words = word >> self.low & 2 * sign - 1
        return address + ((words ^ sign) - sign) * _WORD_BYTES


_JUMPS = (
    _Jump(_Form(0xFC000000, 0x14000000), 0, 26),  # b
    _Jump(_Form(0xFF000000, 0x54000000), 5, 19),  # b.cond
    _Jump(_Form(0x7E000000, 0x34000000), 5, 19),  # cbz, cbnz
    _Jump(_Form(0x7E000000, 0x36000000), 5, 14),  # tbz, tbnz
)
_BRANCHES = (
    *(each.form for each in _JUMPS),
    _Form(0xFC000000, 0x94000000),  # bl
    _Form(0xFE000000, 0xD6000000),  # br, blr, ret, also authenticated, and eret
)

# arch/arm64/kernel/probes/decode-insn.c, arm_probe_decode_insn, and arch/arm64/include/asm/insn.h
# of kernels 5.8 to 6.18: True is simulated, False stepped out of line, None refused. The first form
# that fits decides. All others are stepped.
_HANDLED: tuple[tuple[_Form, bool | None], ...] = (
    (_Form(0xFF000010, 0x54000000), True),  # b.cond
    (_Form(0x7E000000, 0x34000000), True),  # cbz, cbnz
    (_Form(0x7E000000, 0x36000000), True),  # tbz, tbnz
    (_Form(0x1F000000, 0x10000000), True),  # adr, adrp
    (_Form(0x7C000000, 0x14000000), True),  # b, bl
    (_Form(0xFFFFFC1F, 0xD61F0000), True),  # br
    (_Form(0xFFFFFC1F, 0xD63F0000), True),  # blr
    (_Form(0xFFFFFC1F, 0xD65F0000), True),  # ret
    (_Form(0xFFFFFFFF, 0xD503201F), False),  # nop: simulated only since 6.13
    (_Form(0xFFFFFF3F, 0xD503241F), False),  # bti
    (_Form(0xFFFFFF9F, 0xD503231F), False),  # paciaz, paciasp, pacibz, pacibsp
    (_Form(0xFFFFFFBF, 0xD503211F), False),  # pacia1716, pacib1716
    (_Form(0xFFFFFFFF, 0xD50320FF), False),  # xpaclri
    (_Form(0xFFF00000, 0xD5300000), False),  # mrs
    # Other branches, exceptions, hints (autiasp) and msr. Also refused, though the kernel steps
    # them: barriers, and bc.cond and cb, which it wrongly does not treat as branches.
    (_Form(0x1C000000, 0x14000000), None),
    # Loads by literal: 5.8 to 6.11 simulated them with a wrong address (CVE-2024-50099). Loads of
    # vector registers are stepped, out of line, where the distance to the literal is wrong.
    (_Form(0x3B000000, 0x18000000), None),
    (_Form(0x3F800000, 0x08000000), None),  # exclusive: after it a trap makes its store fail
    (_Form(0x3B200C00, 0x19000400), None),  # one of three that together copy or set memory
    (_Form(0xFFFF0000, 0x00000000), None),  # udf: no code
)


def is_emulated(encoded: bytes) -> bool | None:
    """Say whether the kernel simulates an instruction rather than stepping over it.

    None: the kernel refuses a probe on it, or should.
    """
    word = int.from_bytes(encoded, "little")
    return next((handled for form, handled in _HANDLED if form.fits(word)), False)


@cache
def _disassembler() -> "capstone.Cs":
    import capstone

    machine = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    machine.detail = True
    return machine


def disassemble(code: bytes, address: int, most: int = 0) -> list["capstone.CsInsn"]:
    """Return the instructions of ``code`` up to the first that is none; not 0: so many at most."""
    return list(decode(code, address, most))


def decode(code: bytes, address: int, most: int = 0) -> Iterator["capstone.CsInsn"]:
    """Yield what ``disassemble`` returns: faster if only the first are used."""
    yield from _disassembler().disasm(code, address, most)


def jump_targets(code: bytes, address: int) -> set[int]:
    """Return the targets of direct jumps, also of data in the code that looks like jumps."""
    return {
        jump.target(word, address + at)
        for at in range(0, len(code) - _WORD_BYTES + 1, _WORD_BYTES)
        for word in (int.from_bytes(code[at : at + _WORD_BYTES], "little"),)
        for jump in _JUMPS
        if jump.form.fits(word)
    }


def jump_targets_before(end: int, code: bytes, address: int) -> set[int]:
    """Return those of ``jump_targets`` that are in ``code``, and before the address ``end``."""
    return {each for each in jump_targets(code, address) if address <= each < end}


def is_branch(instruction: "capstone.CsInsn") -> bool:
    """Say whether an instruction jumps, calls or returns."""
    word = int.from_bytes(instruction.bytes, "little")
    return any(form.fits(word) for form in _BRANCHES)


def registers_written(instruction: "capstone.CsInsn") -> set[str]:
    """Return the 64-bit names (``x0``, ``sp``) of the general registers that are changed."""
    _, written = instruction.regs_access()
    return {whole_register(instruction.reg_name(each)) for each in written}


def whole_register(name: str) -> str:
    """Return the 64-bit name of a general register by capstone's name: ``w0`` -> ``x0``."""
    return _WHOLE.get(name, name)


_WHOLE = {"fp": "x29", "lr": "x30", "wsp": "sp"} | {
    f"w{number}": f"x{number}" for number in range(31)
}
