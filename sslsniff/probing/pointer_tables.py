"""Finds a table of pointers to functions in a library's data by its form."""

from collections.abc import Iterator
from itertools import permutations

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.relocations import read_pointers
from sslsniff.elf.symbols import Function
from sslsniff.machine_code.callers import callees
from sslsniff.probing.plans import PointerTable
from sslsniff.probing.probe_set import UnfitError

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
