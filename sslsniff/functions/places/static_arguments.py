"""The arguments of static probes (USDT), as their notes have them in assembler.

The forms are those of GNU as for x86-64, each after its size: ``-4@%edi``, ``8@-16(%rbp)``,
``4@$5``, ``8@(%rax,%rbx,8)``, ``-4@16+counter(%rip)``, ``8f@%xmm0``
(sourceware.org/systemtap/wiki/UserSpaceProbeImplementation). A negative size: the number is signed.
"""

import re
from collections.abc import Callable, Iterator

from sslsniff.fetching.fetch_steps import FetchStep, StepKind
from sslsniff.fetching.locations import (
    REGISTER_NAMES,
    ComputedNumber,
    LocationPiece,
    ValueInMemory,
    ValueLocation,
    add_constant,
    push_address,
    push_constant,
    push_register,
)
from sslsniff.fetching.traced_values import Missing
from sslsniff.functions.dwarf.type_model import Floating, Integer, Type
from sslsniff.functions.values.fetching import WantedValue
from sslsniff.machine_code.instructions import whole_register

AddressOf = Callable[[str], int | None]
"""Returns the linked address of a symbol; None: it is not known."""

_WORD_BYTES = 8
_ARGUMENT = re.compile(r"(?:(?P<size>-?[0-9]{1,3})(?P<float>f?)@)?(?P<operand>\S+)")
_NUMBER = r"[+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+)"
_MOST_DIGITS = 32  # an address has 20
_MEMORY = re.compile(
    r"(?:%(?P<segment>[fg]s):)?(?P<offset>[^()%]*)"
    r"(?:\(\s*(?P<base>%\w+)?(?:,(?P<index>%\w+)(?:,(?P<scale>[1248]))?)?\s*\))?"
)
_OFFSET_PART = re.compile(rf"(?P<number>{_NUMBER})|[+]?(?P<symbol>[A-Za-z_.$][\w.$]*)")
_SIZES = (1, 2, 4, 8)
_HIGH_BYTES = {"ah": "rax", "bh": "rbx", "ch": "rcx", "dh": "rdx"}
_BYTE_BITS = 8


def static_arguments(text: str, address: int, address_of: AddressOf) -> Iterator[WantedValue]:
    """Yield the arguments of a static probe at the linked ``address``: ``arg1``, ``arg2`` ..."""
    for number, found in enumerate(_ARGUMENT.finditer(text), 1):
        operand = found["operand"]
        size = int(found["size"]) if found["size"] else _register_bytes(operand)
        location: ValueLocation | Missing = Missing.UNKNOWN_TYPE
        type = _type(size, is_floating=bool(found["float"]))
        if type is not None:
            location = _location(operand, address, address_of)
        yield WantedValue(f"arg{number}", type, location)


def _type(size: int, *, is_floating: bool) -> Type | None:
    if abs(size) not in _SIZES:
        return None
    if is_floating:
        return Floating(name="float", size=abs(size))
    return Integer(name="", size=abs(size), is_signed=size < 0)


def _register_bytes(operand: str) -> int:
    """Return the size of an argument without one: that of its register, as SystemTap has it."""
    if operand.startswith("%e") or operand.endswith("d"):
        return 4
    return _WORD_BYTES


def _location(operand: str, address: int, address_of: AddressOf) -> ValueLocation | Missing:
    if operand.startswith("$"):
        number = _sum(operand[1:], address_of)
        if number is None or number[1]:
            return Missing.UNKNOWN_TYPE
        return (LocationPiece(ComputedNumber(push_constant(number[0]))),)
    if operand.startswith("%") and ":" not in operand:
        steps = _register(operand)
        if not steps:
            return Missing.NOT_READABLE
        return (LocationPiece(ComputedNumber(steps)),)
    steps = _memory(operand, address, address_of)
    return (LocationPiece(ValueInMemory(steps)),) if steps else Missing.UNKNOWN_TYPE


def _memory(operand: str, address: int, address_of: AddressOf) -> tuple[FetchStep, ...]:
    """Return the steps that push the address of an operand in memory; none: not known."""
    found = _MEMORY.fullmatch(operand)
    offset = _sum(found["offset"], address_of) if found else None
    if found is None or offset is None or found["segment"] == "gs":
        return ()
    number, has_symbol = offset
    base, index = found["base"], found["index"]
    if has_symbol or (base == "%rip"):
        # An offset from the instruction pointer without a symbol counts from an instruction that
        # is not known.
        if index or not has_symbol or base not in (None, "%rip"):
            return ()
        return push_address(number, address)
    parts: list[tuple[FetchStep, ...]] = []
    if found["segment"]:
        parts.append((FetchStep(StepKind.THREAD_POINTER),))
    if base:
        parts.append(_register(base))
    if index:
        if not _register(index):
            return ()
        scale = push_constant(int(found["scale"] or 1))
        parts.append((*_register(index), *scale, FetchStep(StepKind.MULTIPLY)))
    if not all(parts):
        return ()
    steps: tuple[FetchStep, ...] = ()
    for count, part in enumerate(parts):
        steps += part + ((FetchStep(StepKind.ADD),) if count else ())
    return steps + add_constant(number) if steps else push_constant(number)


def _register(name: str) -> tuple[FetchStep, ...]:
    """Return the steps that push a register; none if a probe cannot read it."""
    name = name.removeprefix("%")
    if name in _HIGH_BYTES:
        whole = push_register(REGISTER_NAMES.index(_HIGH_BYTES[name]))
        return (*whole, *push_constant(_BYTE_BITS), FetchStep(StepKind.SHIFT_RIGHT))
    whole_name = whole_register(name)
    return push_register(REGISTER_NAMES.index(whole_name)) if whole_name in REGISTER_NAMES else ()


def _sum(text: str, address_of: AddressOf) -> tuple[int, bool] | None:
    """Return a sum of numbers and at most one symbol, and whether it has one; None: unknown."""
    total, at, has_symbol = 0, 0, False
    while at < len(text):
        part = _OFFSET_PART.match(text, at)
        if part is None:
            return None
        at = part.end()
        if part["number"] is not None:
            if len(part["number"]) > _MOST_DIGITS:
                return None
            total += (
                int(part["number"], 0) if "x" in part["number"].lower() else int(part["number"])
            )
            continue
        address = address_of(part["symbol"])
        if address is None or has_symbol:
            return None
        total, has_symbol = total + address, True
    return total, has_symbol
