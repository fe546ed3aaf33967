"""Finds where rustls hands its secrets to its ``KeyLog``, whose methods it calls by a vtable.

TLS 1.2: ``log("CLIENT_RANDOM", client_random, master_secret)`` is called in any case. TLS 1.3:
``KeySchedule::derive_logged_secret`` (src/tls13/key_schedule.rs) first asks ``will_log(label)``,
which says no by default. Since 0.22 the secret is in memory by then. So the place is right after
that call, and the values are those that ``log`` would get. Earlier releases derive the secret once
more, only if it is wanted.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sslsniff.core.logged_secret import RANDOM_BYTES
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.mapped_file import places
from sslsniff.elf.symbols import Function
from sslsniff.machine_code.instructions import (
    direct_target,
    disassemble,
    goes_on,
    is_jump,
    register_name,
    registers_written,
)
from sslsniff.machine_code.known_values import Number
from sslsniff.machine_code.operations import OperationKind
from sslsniff.machine_code.stripped.references import address_forms, find_references
from sslsniff.matching.hidden_functions import flow_of
from sslsniff.matching.key_log.chains import Chain
from sslsniff.matching.probe_set import KeyLog, KeyLogPlace

if TYPE_CHECKING:
    import capstone

_LABEL = b"CLIENT_RANDOM"
_STRINGS = ".rodata"
_DERIVES = b"derive_logged_secret"
_SETS_RANDOM_BYTES = b"\x41\xb8\x20\0\0\0"  # mov r8d, 32
_KEPT_BY_CALLS = ("rbx", "rbp", "r12", "r13", "r14", "r15", "rsp")
_MOST_TO_LOG = 24
"""Instructions from ``will_log`` to ``log``."""

_NOT_13 = (
    "no place of secrets of TLS 1.3 was found; before 0.22, rustls has them only for a program that"
    " asks for them"
)


def rustls_key_log(elf: Elf) -> KeyLog:
    """Return the places of all rustls in a file; raises ``ElfError`` if it is damaged."""
    newer = [place for each in _deriving(elf) for place in _after_will_log(elf, each)]
    return KeyLog((*_calls_of_log(elf), *newer), "" if newer else _NOT_13)


def _deriving(elf: Elf) -> list[Function]:
    """Return the functions that may be ``derive_logged_secret``: by name, or all with its size."""
    named = [each.function for each in elf.functions_with(_DERIVES)]
    if named:
        return named
    found = (
        elf.function_around(memory.address + place)
        for memory in elf.executable()
        for place in places(memory.data, _SETS_RANDOM_BYTES)
    )
    return list({each.address: each for each in found if each is not None}.values())


def _calls_of_log(elf: Elf) -> Iterator[KeyLogPlace]:
    """Yield the calls ``log("CLIENT_RANDOM", ...)``: the arguments are in their registers."""
    address = elf.section_address(_STRINGS)
    if address is None:
        return
    labels = [address + each for each in elf.section_region(_STRINGS).places(_LABEL)]
    ranges = [(each, each + 1) for each in labels]
    functions = {
        function.address: function
        for each in find_references(elf.executable(), ranges, address_forms(elf))
        if (function := elf.function_around(each.address)) is not None
    }
    for function in functions.values():
        flow = flow_of(elf, function)
        for at, state in flow.states.items():
            operation = flow.code.operations[at]
            label = state.one("rsi")
            if (
                operation.kind is OperationKind.CALL
                and operation.leads_to is None
                and isinstance(label, Number)
                and label.value in labels
                and state.one("rdx") == Number(len(_LABEL))
                and state.one("r8") == Number(RANDOM_BYTES)
            ):
                size = Chain("rsp").loaded()
                given = (Chain("rsi"), Chain("rdx"), Chain("rcx"), Chain("r9"), size)
                yield KeyLogPlace(elf.offset(at), *given)


def _after_will_log(elf: Elf, function: Function) -> Iterator[KeyLogPlace]:
    """Yield the place right after a call of ``will_log``, if a call of ``log`` follows."""
    code = disassemble(elf.code(function), function.address)
    for number, call in enumerate(code[:-2]):
        asked, branch = code[number + 1], code[number + 2]
        if (
            call.mnemonic == "call"
            and direct_target(call) is None
            and asked.mnemonic == "test"
            and branch.mnemonic == "je"
        ):
            given = _given_to_log(code[number + 3 : number + 3 + _MOST_TO_LOG])
            if given is not None:
                yield KeyLogPlace(elf.offset(asked.address), *given)


def _given_to_log(code: "list[capstone.CsInsn]") -> tuple[Chain, ...] | None:
    """Return where what ``log`` gets is before ``code``, which calls it.

    The label and its size, the random, the secret and its size. None: the first call in ``code`` is
    another one, or these cannot be followed.
    """
    values = {name: Chain(name) for name in _KEPT_BY_CALLS}
    numbers: dict[str, int] = {}
    pushed: dict[int, Chain | None] = {}
    for instruction in code:
        if instruction.mnemonic == "call":
            given = (*map(values.get, ("rsi", "rdx", "rcx", "r9")), pushed.get(0))
            is_log = direct_target(instruction) is None and numbers.get("r8") == RANDOM_BYTES
            chains = tuple(each for each in given if each is not None)
            return chains if is_log and len(chains) == len(given) else None
        if not goes_on(instruction):
            return None
        if is_jump(instruction):
            continue  # the other way is that of a panic
        _follow(instruction, values, numbers, pushed)
    return None


def _follow(
    instruction: "capstone.CsInsn",
    values: dict[str, Chain],
    numbers: dict[str, int],
    pushed: dict[int, Chain | None],
) -> None:
    """Execute an instruction on what is known."""
    import capstone

    operands = instruction.operands
    moves = instruction.mnemonic in ("mov", "lea") and len(operands) == 2
    target, source = operands if moves else (None, None)
    found: Chain | None = None
    number: int | None = None
    if source is not None and source.type == capstone.CS_OP_REG:
        found = values.get(register_name(source.reg)) if source.size == 8 else None
    elif source is not None and source.type == capstone.CS_OP_IMM:
        number = int(source.imm)
    elif source is not None and not source.mem.index and not source.mem.segment:
        base = values.get(register_name(source.mem.base))
        if base is not None and instruction.mnemonic == "lea":
            found = base.plus(source.mem.disp)
        elif base is not None and source.size == 8:
            found = base.loaded(source.mem.disp)
    if target is not None and target.type == capstone.CS_OP_MEM:
        if values.get(register_name(target.mem.base)) == Chain("rsp"):
            pushed[target.mem.disp] = found
        return
    for name in registers_written(instruction):
        values.pop(name, None)
        numbers.pop(name, None)
    if target is not None and found is not None:
        values[register_name(target.reg)] = found
    if target is not None and number is not None:
        numbers[register_name(target.reg)] = number
