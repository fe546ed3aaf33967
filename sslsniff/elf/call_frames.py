"""Finds where a caller keeps its frame and registers (DWARF 5, section 6.4; LSB 5.0, 10.6)."""

import struct
import weakref
from enum import Enum
from typing import NamedTuple

from sslsniff.elf.byte_reader import Bytes, DamagedError
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.frame_descriptions import FrameDescription, FrameDescriptions


class RegisterOffset(NamedTuple):
    """An address: what a register (by its number in DWARF) has, plus ``offset``."""

    register: int
    offset: int


class RuleKind(Enum):
    """How the caller's value of a register is found. A register without a rule has it still."""

    UNDEFINED = "undefined"
    OFFSET = "offset"
    """It is in memory, ``value`` after the canonical frame address."""
    VALUE_OFFSET = "value offset"
    """It is the canonical frame address plus ``value``."""
    REGISTER = "register"
    """Register ``value`` has it."""
    EXPRESSION = "expression"
    """It is in memory, where an expression leads to."""
    VALUE_EXPRESSION = "value expression"
    """It is the value of an expression."""


class RegisterRule(NamedTuple):
    """The rule of a register: ``value`` is a number, or the bytes of an expression."""

    kind: RuleKind
    value: int | bytes = 0


class CallFrame(NamedTuple):
    """What leads from a frame to its caller's.

    ``address``: the canonical frame address, by a register or an expression.
    ``rules``: the rules of registers, by their numbers in DWARF. ``return_register``: the number of
    the return address among them.
    ``is_signal``: a signal interrupted the caller.
    """

    address: RegisterOffset | bytes
    rules: dict[int, RegisterRule]
    return_register: int
    is_signal: bool


class _FrameInstruction:
    """DW_CFA: instructions of a frame description."""

    ADVANCE, OFFSET, RESTORE = 1, 2, 3  # in the two highest bits
    NOP = 0x00
    SET_LOC = 0x01
    ADVANCE_1 = 0x02
    ADVANCE_2 = 0x03
    ADVANCE_4 = 0x04
    OFFSET_EXTENDED = 0x05
    RESTORE_EXTENDED = 0x06
    UNDEFINED = 0x07
    SAME_VALUE = 0x08
    REGISTER = 0x09
    REMEMBER_STATE = 0x0A
    RESTORE_STATE = 0x0B
    DEF_CFA = 0x0C
    DEF_CFA_REGISTER = 0x0D
    DEF_CFA_OFFSET = 0x0E
    DEF_CFA_EXPRESSION = 0x0F
    EXPRESSION = 0x10
    OFFSET_EXTENDED_SF = 0x11
    DEF_CFA_SF = 0x12
    DEF_CFA_OFFSET_SF = 0x13
    VAL_OFFSET = 0x14
    VAL_OFFSET_SF = 0x15
    VAL_EXPRESSION = 0x16
    GNU_WINDOW_SAVE = 0x2D
    GNU_ARGS_SIZE = 0x2E
    GNU_NEGATIVE_OFFSET = 0x2F


_ADVANCES = {
    _FrameInstruction.ADVANCE_1: 1,
    _FrameInstruction.ADVANCE_2: 2,
    _FrameInstruction.ADVANCE_4: 4,
}
_RULES = {
    _FrameInstruction.OFFSET_EXTENDED: (RuleKind.OFFSET, False),
    _FrameInstruction.OFFSET_EXTENDED_SF: (RuleKind.OFFSET, True),
    _FrameInstruction.VAL_OFFSET: (RuleKind.VALUE_OFFSET, False),
    _FrameInstruction.VAL_OFFSET_SF: (RuleKind.VALUE_OFFSET, True),
}
"""Instructions with a register and an offset in units of the data factor; whether it is signed."""
_EXPRESSIONS = {
    _FrameInstruction.EXPRESSION: RuleKind.EXPRESSION,
    _FrameInstruction.VAL_EXPRESSION: RuleKind.VALUE_EXPRESSION,
}


def cfa_at(elf: Elf, address: int) -> RegisterOffset | bytes | None:
    """Return where the frame of the function begins while the code is at ``address``.

    As a register and an offset, or as an expression; None: the file does not say. The file is the
    program itself: a separate debug file has no .eh_frame.
    """
    if elf not in _DESCRIPTIONS:
        _DESCRIPTIONS[elf] = FrameDescriptions(elf)
    found = call_frame_at(_DESCRIPTIONS[elf], address)
    return found and found.address


def call_frame_at(descriptions: FrameDescriptions, address: int) -> CallFrame | None:
    """Return what leads from the code at ``address`` to its caller; None: the file does not say."""
    try:
        found = descriptions.at(address)
        return found and _FrameRun(found).run(address)
    except (DamagedError, struct.error):
        return None


# .debug_frame has no table: it is searched at most once a file.
_DESCRIPTIONS: "weakref.WeakKeyDictionary[Elf, FrameDescriptions]" = weakref.WeakKeyDictionary()


class _FrameState(NamedTuple):
    address: RegisterOffset | bytes
    rules: dict[int, RegisterRule]


class _FrameRun:
    """Runs the instructions of a description up to an address (DWARF 5, section 6.4.3)."""

    def __init__(self, description: FrameDescription) -> None:
        self._description = description
        self._common = description.common
        self._at = description.start
        self._address: RegisterOffset | bytes = RegisterOffset(0, 0)
        self._rules: dict[int, RegisterRule] = {}
        self._first_rules: dict[int, RegisterRule] = {}
        self._remembered: list[_FrameState] = []

    def run(self, address: int) -> CallFrame:
        """Return the frame at ``address``; raises ``DamagedError``."""
        common = self._common
        self._run_program(common.instructions, address)
        self._first_rules = dict(self._rules)
        self._run_program(self._description.instructions, address)
        return CallFrame(self._address, self._rules, common.return_register, common.is_signal)

    def _run_program(self, program: bytes, address: int) -> None:
        source = Bytes(program)
        while source.at < len(program):
            byte = source.fixed(1)
            operation, operand = byte >> 6, byte & 0x3F
            if operation == _FrameInstruction.ADVANCE:
                self._at += operand * self._common.code_factor
            elif operation == _FrameInstruction.OFFSET:
                offset = source.uleb() * self._common.data_factor
                self._rules[operand] = RegisterRule(RuleKind.OFFSET, offset)
            elif operation == _FrameInstruction.RESTORE:
                self._restore(operand)
            elif byte in _ADVANCES:
                self._at += source.fixed(_ADVANCES[byte]) * self._common.code_factor
            elif not self._set_address(byte, source):
                self._set_rule(byte, source)
            if self._at > address:
                break

    def _restore(self, register: int) -> None:
        if register in self._first_rules:
            self._rules[register] = self._first_rules[register]
        else:
            self._rules.pop(register, None)

    def _set_address(self, operation: int, source: Bytes) -> bool:
        """Run an instruction that defines the canonical frame address; False: it does not."""
        factor = self._common.data_factor
        if operation == _FrameInstruction.DEF_CFA:
            self._address = RegisterOffset(source.uleb(), source.uleb())
        elif operation == _FrameInstruction.DEF_CFA_SF:
            self._address = RegisterOffset(source.uleb(), source.sleb() * factor)
        elif operation == _FrameInstruction.DEF_CFA_REGISTER:
            self._address = RegisterOffset(source.uleb(), self._offset())
        elif operation == _FrameInstruction.DEF_CFA_OFFSET:
            self._address = RegisterOffset(self._register(), source.uleb())
        elif operation == _FrameInstruction.DEF_CFA_OFFSET_SF:
            self._address = RegisterOffset(self._register(), source.sleb() * factor)
        elif operation == _FrameInstruction.DEF_CFA_EXPRESSION:
            self._address = source.block(source.uleb())
        else:
            return False
        return True

    def _register(self) -> int:
        return 0 if isinstance(self._address, bytes) else self._address.register

    def _offset(self) -> int:
        return 0 if isinstance(self._address, bytes) else self._address.offset

    def _set_rule(self, operation: int, source: Bytes) -> None:
        """Run an instruction on the rules of registers; raises ``DamagedError`` for others."""
        factor = self._common.data_factor
        if operation in _RULES:
            kind, is_signed = _RULES[operation]
            register = source.uleb()
            offset = (source.sleb() if is_signed else source.uleb()) * factor
            self._rules[register] = RegisterRule(kind, offset)
        elif operation in _EXPRESSIONS:
            register = source.uleb()
            expression = source.block(source.uleb())
            self._rules[register] = RegisterRule(_EXPRESSIONS[operation], expression)
        elif operation == _FrameInstruction.RESTORE_EXTENDED:
            self._restore(source.uleb())
        elif operation == _FrameInstruction.UNDEFINED:
            self._rules[source.uleb()] = RegisterRule(RuleKind.UNDEFINED)
        elif operation == _FrameInstruction.SAME_VALUE:
            self._rules.pop(source.uleb(), None)
        elif operation == _FrameInstruction.REGISTER:
            self._rules[source.uleb()] = RegisterRule(RuleKind.REGISTER, source.uleb())
        elif operation == _FrameInstruction.GNU_NEGATIVE_OFFSET:
            register = source.uleb()
            self._rules[register] = RegisterRule(RuleKind.OFFSET, -source.uleb() * factor)
        elif operation == _FrameInstruction.REMEMBER_STATE:
            self._remembered.append(_FrameState(self._address, dict(self._rules)))
        elif operation == _FrameInstruction.RESTORE_STATE:
            if not self._remembered:
                raise DamagedError
            self._address, self._rules = self._remembered.pop()
        elif operation == _FrameInstruction.GNU_ARGS_SIZE:
            source.uleb()
        elif operation not in {_FrameInstruction.NOP, _FrameInstruction.GNU_WINDOW_SAVE}:
            raise DamagedError
