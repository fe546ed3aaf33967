"""Offsets in OpenSSL's SSL object, read from the library's own accessor functions.

Offsets differ between releases and builds. The accessor functions have them: ``SSL_is_server``
loads the field ``server``, and so on. This module follows their few instructions on all paths with
symbolic values. An offset that is not proved stays None.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sslsniff.elf.elf_file import Elf
from sslsniff.machine_code.instructions import disassemble, whole_register
from sslsniff.probing.object_layout import ObjectLayout

if TYPE_CHECKING:
    import capstone


@dataclass(frozen=True, slots=True)
class _NumberedArgument:
    """A function's argument, by its number from 0."""

    number: int


@dataclass(frozen=True, slots=True)
class _MemoryLoad:
    """What is in memory at ``base`` + ``offset``."""

    base: "_NumberedArgument | _MemoryLoad"
    offset: int


_Value = _NumberedArgument | _MemoryLoad | None
"""None: any other value."""


@dataclass
class _Outcomes:
    """What a function does, on all its paths together."""

    results: set[_Value] = field(default_factory=set)
    stores: dict[int, set[_Value]] = field(default_factory=dict)
    """Values stored through an argument, by its number."""
    tested: set[_Value] = field(default_factory=set)
    added_to: set[_Value] = field(default_factory=set)
    """Memory that an atomic addition changed."""


_ARGUMENTS = ("rdi", "rsi", "rdx")
_PRESERVED_BY_CALLS = ("rbx", "rbp", "r12", "r13", "r14", "r15")
_MOST_STEPS = 2000
_MOST_STEPS_A_PATH = 80


def read_layout(elf: Elf) -> ObjectLayout:
    """Return the layout of SSL objects of the library in ``elf``."""
    server = _run(elf, "SSL_is_server")
    version = _run(elf, "SSL_version")
    alpn = _run(elf, "SSL_get0_alpn_selected")
    cipher = _run(elf, "SSL_get_current_cipher")
    name = _run(elf, "SSL_CIPHER_get_name")
    free = _run(elf, "SSL_free")
    shutdown = _run(elf, "SSL_get_shutdown")
    names = {chain for value in _run(elf, "SSL_get_servername").results if (chain := _chain(value))}
    own_name = _only({each for each in names if len(each) == 1}) or (None,)
    inner_name = _only({each for each in names if len(each) == 2}) or (None, None)
    alpn_field = _field(alpn.stores.get(1, set()))
    length_field = _field(alpn.stores.get(2, set()))
    if alpn_field and length_field and alpn_field[:-1] != length_field[:-1]:
        length_field = None
    cipher_field = _field(cipher.results)
    if cipher_field is not None and len(cipher_field) != 2:
        cipher_field = None
    return ObjectLayout(
        server=_single(_field(server.results)),
        version=_single(_field(version.results)),
        alpn_base=alpn_field[0] if alpn_field and len(alpn_field) == 2 else None,
        alpn=alpn_field[-1] if alpn_field and length_field else None,
        alpn_length=length_field[-1] if alpn_field and length_field else None,
        session=cipher_field[0] if cipher_field else None,
        session_cipher=cipher_field[1] if cipher_field else None,
        cipher_name=_single(_field(name.results)),
        # SSL_free may also count down the references of objects that this one points to.
        references=_single(_field({each for each in free.added_to if _is_own(each)})),
        sni=own_name[0],
        sni_base=inner_name[0],
        sni_inner=inner_name[1],
        shutdown=_single(_field(shutdown.results)),
        is_typed=1 if _MemoryLoad(_NumberedArgument(0), 0) in server.tested else None,
    )


def _is_own(value: _Value) -> bool:
    return isinstance(value, _MemoryLoad) and value.base == _NumberedArgument(0)


def _single(offsets: tuple[int, ...] | None) -> int | None:
    return offsets[0] if offsets and len(offsets) == 1 else None


def _field(values: set[_Value]) -> tuple[int, ...] | None:
    """Return the offsets from the first argument to the value; None: there is not exactly one.

    A pointer on the way to the value does not count: the function returns it if it is null.
    """
    chains = {chain for value in values if (chain := _chain(value))}
    whole = [
        chain
        for chain in chains
        if not any(other != chain and other[: len(chain)] == chain for other in chains)
    ]
    return _only(whole)


def _only(chains: Collection[tuple[int, ...]]) -> tuple[int, ...] | None:
    return next(iter(chains)) if len(chains) == 1 else None


def _chain(value: _Value) -> tuple[int, ...] | None:
    if isinstance(value, _MemoryLoad):
        if value.base == _NumberedArgument(0):
            return (value.offset,)
        base = _chain(value.base)
        return (*base, value.offset) if base else None
    return None


def _run(elf: Elf, name: str) -> _Outcomes:
    """Follow the function ``name`` on all its paths."""
    outcomes = _Outcomes()
    function = elf.function(name)
    if function is None:
        return outcomes
    code = {each.address: each for each in disassemble(elf.code(function), function.address)}
    start: dict[str, _Value] = {
        name: _NumberedArgument(index) for index, name in enumerate(_ARGUMENTS)
    }
    paths = [(function.address, start, 0)]
    seen: set[tuple[int, frozenset[tuple[str, _Value]]]] = set()
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
    instruction: "capstone.CsInsn", registers: dict[str, _Value], outcomes: _Outcomes
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
    instruction: "capstone.CsInsn", registers: dict[str, _Value], outcomes: _Outcomes
) -> None:
    """Execute an instruction that does not branch."""
    import capstone

    operands = instruction.operands
    mnemonic = instruction.mnemonic
    if mnemonic in ("test", "cmp"):
        outcomes.tested.update(_value(instruction, each, registers) for each in operands)
    if mnemonic == "lock xadd":
        outcomes.added_to.add(_value(instruction, operands[0], registers))
    if mnemonic == "mov" and operands[0].type == capstone.CS_OP_MEM:
        base = registers.get(_whole(instruction, operands[0].mem.base))
        if isinstance(base, _NumberedArgument) and operands[0].mem.disp == 0:
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
    instruction: "capstone.CsInsn", operand: "capstone.x86.X86Op", registers: dict[str, _Value]
) -> _Value:
    import capstone

    if operand.type == capstone.CS_OP_REG:
        return registers.get(_whole(instruction, operand.reg))
    if operand.type == capstone.CS_OP_MEM and not operand.mem.index and not operand.mem.segment:
        base = registers.get(_whole(instruction, operand.mem.base))
        return _MemoryLoad(base, operand.mem.disp) if base is not None else None
    return None


def _whole(instruction: "capstone.CsInsn", register: int) -> str:
    return whole_register(instruction.reg_name(register) or "")
