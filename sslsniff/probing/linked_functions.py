"""Finds the functions that another one leads to, but does not call (x86-64)."""

from collections.abc import Iterator

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function
from sslsniff.machine_code.callers import places_leading_to
from sslsniff.machine_code.data_flow import Flow
from sslsniff.machine_code.function_code import Code
from sslsniff.machine_code.known_values import Argument, Number
from sslsniff.machine_code.returns import return_sites, switches


def tails(elf: Elf, function: Function) -> dict[int, list[int]]:
    """Return the functions that only this one jumps to, when it is done, and where these return.

    Addresses -> those of return instructions. There the stack pointer is the one of the return of
    ``function``. Raises ``ElfError`` if the file is damaged.
    """
    flow = _flow(elf, function)
    found: dict[int, list[int]] = {}
    for address, state in flow.states.items():
        operation = flow.code.operations[address]
        tail = flow.code.leaves(operation) and operation.leads_to
        if not tail or state.depth != 0 or (inner := elf.function_at(tail)) is None:
            continue
        returns = return_sites(elf.code(inner), tail, elf.data)
        if returns and _is_reached_only_from(function, tail, elf):
            found[tail] = returns
    return found


def stored_functions(elf: Elf, function: Function, object_: str) -> Iterator[Function]:
    """Yield the functions whose addresses a function stores in its object.

    ``object_``: the register in which it gets that.
    """
    flow = _flow(elf, function)
    addresses = {
        value.value
        for address, state in flow.states.items()
        for memory in flow.code.operations[address].stores
        if memory.base and state.one(memory.base) == Argument(object_)
        for value in state.value(flow.code.operations[address].source) or ()
        if isinstance(value, Number)
    }
    yield from filter(None, map(elf.function_at, sorted(addresses)))


def _flow(elf: Elf, function: Function) -> Flow:
    code = elf.code(function)
    return Flow(
        Code(
            code,
            function.address,
            switches=switches(code, function.address, elf.data),
        )
    )


def _is_reached_only_from(function: Function, target: int, elf: Elf) -> bool:
    own = range(function.address, function.address + function.size)
    parts = ((each.address, each.data) for each in elf.executable())
    return all(place in own for place in places_leading_to(target, parts))
