"""Finds the instruction that is as good for a probe as a nop that a kernel may replace (x86-64).

A nop changes no register and no memory: right after it all is as it was before. So the next
instruction sees the same, once for each time, unless something else leads there, too.
"""

from collections.abc import Iterator

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function
from sslsniff.kernel.probe_safety.optimised_nops import optimised_nop
from sslsniff.machine_code.instructions import direct_target, disassemble, is_jump
from sslsniff.machine_code.returns import switches
from sslsniff.machine_code.stripped.references import TRANSFERS, find_references

_LONGEST_INSTRUCTION_BYTES = 15


def after_nops(elf: Elf, address: int) -> int:
    """Return the address of the first instruction after such nops at ``address``.

    ``address`` itself if it has none, and where it is not proved that only they lead there.
    """
    at = address
    while nop := optimised_nop(elf.data(at, _LONGEST_INSTRUCTION_BYTES) or b""):
        at += len(nop)
    if at == address:
        return address
    function = _function_around(elf, address)
    passed = range(address + 1, at + 1)
    if function is None or at >= function.address + function.size:
        return address
    is_reached = any(each is None or each in passed for each in _jumped_to(elf, function))
    if is_reached or find_references(elf.executable(), [(address + 1, at + 1)], TRANSFERS):
        return address
    return at


def _function_around(elf: Elf, address: int) -> Function | None:
    found = elf.function_around(address)
    if found is None:
        functions = (each.function for each in elf.functions())
        found = next((each for each in functions if 0 <= address - each.address < each.size), None)
    return found


def _jumped_to(elf: Elf, function: Function) -> Iterator[int | None]:
    """Yield where the jumps of a function lead; None: that is not known of one."""
    code = elf.code(function)
    instructions = disassemble(code, function.address)
    if sum(each.size for each in instructions) < len(code):
        yield None
    cases = switches(code, function.address, elf.data)
    for each in instructions:
        if is_jump(each):
            target = direct_target(each)
            yield from (target,) if target is not None else cases.get(each.address, (None,))
