"""Finds functions without symbols (x86-64).

In tables of pointers that a library has in its data; and those that another function leads to, but
does not call.
"""

from collections.abc import Iterator
from itertools import permutations

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.relocations import read_pointers
from sslsniff.elf.symbols import Function
from sslsniff.machine_code.callers import callees, places_leading_to
from sslsniff.machine_code.data_flow import Flow
from sslsniff.machine_code.function_code import Code
from sslsniff.machine_code.known_values import Argument, Number
from sslsniff.machine_code.returns import return_sites, switches
from sslsniff.matching.probe_set import UnfitError
from sslsniff.matching.rows import Continued, PointerTable

_POINTER_BYTES = 8

Table = tuple[Function | None, ...]


def find_table(elf: Elf, form: PointerTable) -> Table:
    """Return the functions of the one table in a file that has this form.

    Raises ``UnfitError`` if there is not exactly one, and ``ElfError`` if the file is damaged.
    """
    tables = list(_tables(elf, form))
    found = [
        table
        for table, other in permutations(tables, 2)
        if _are_of_one_library(table, other, form)
        and _passes(elf, table, form)
        and not _passes(elf, other, form)
    ]
    if len(found) != 1:
        raise UnfitError(f"it has {len(found)} tables of functions like that of its TLS sockets")
    return found[0]


def _tables(elf: Elf, form: PointerTable) -> Iterator[Table]:
    """Yield what has functions, and null pointers, where a table of this form has them."""
    pointers = read_pointers(elf)
    for place in pointers.slots:
        addresses = [pointers.at(place + _POINTER_BYTES * index) for index in range(form.size)]
        if {index for index, address in enumerate(addresses) if address is None} == form.empty:
            table = tuple(None if each is None else elf.function_at(each) for each in addresses)
            if sum(each is not None for each in table) == form.size - len(form.empty):
                yield table


def _are_of_one_library(one: Table, other: Table, form: PointerTable) -> bool:
    equal = {index for index in range(form.size) if one[index] == other[index]}
    return equal == form.common | form.empty


def _passes(elf: Elf, table: Table, form: PointerTable) -> bool:
    outer, inner = (table[index] for index in form.passes)
    assert outer is not None
    assert inner is not None
    return inner.address in callees(elf.code(outer), outer.address)


def tails(elf: Elf, function: Function) -> dict[int, list[int]]:
    """Return the functions that only this one jumps to, when it is done, and where these return.

    Addresses -> those of return instructions. There the stack pointer is the one of the return of
    ``function``. Raises ``ElfError`` if the file is damaged.
    """
    flow = flow_of(elf, function)
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


def continued(elf: Elf, function: Function, wanted: Continued) -> Function:
    """Return the function to which ``function`` jumps with its own arguments.

    Raises ``UnfitError`` if there is not exactly one, and ``ElfError`` if the file is damaged.
    """
    flow = flow_of(elf, function)
    found = {
        operation.leads_to
        for address, state in flow.states.items()
        if flow.code.leaves(operation := flow.code.operations[address])
        and all(state.one(each) == Argument(each) for each in wanted.registers)
    }
    inner = [each for target in found if target and (each := elf.function_at(target)) is not None]
    if len(inner) != 1:
        raise UnfitError(f"what {wanted.caller} jumps to is not one function")
    return inner[0]


def stored_functions(elf: Elf, function: Function, object_: str) -> Iterator[Function]:
    """Yield the functions whose addresses a function stores in its object.

    ``object_``: the register in which it gets that.
    """
    flow = flow_of(elf, function)
    addresses = {
        value.value
        for address, state in flow.states.items()
        for memory in flow.code.operations[address].stores
        if memory.base and state.one(memory.base) == Argument(object_)
        for value in state.value(flow.code.operations[address].source) or ()
        if isinstance(value, Number)
    }
    yield from filter(None, map(elf.function_at, sorted(addresses)))


def flow_of(elf: Elf, function: Function) -> Flow:
    """Return the flow of data in a function; raises ``ElfError`` if the file is damaged."""
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
