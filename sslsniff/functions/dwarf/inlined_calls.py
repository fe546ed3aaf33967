"""Which addresses are calls of a function that was inlined.

A compiler may split an inlined copy, and unroll the loop that it is in: the copy then has several
ranges, and only some begin a call.
"""

import re
from collections.abc import Callable, Sequence
from functools import cached_property

from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.function_parts import MARKS_OF_PARTS, part_of
from sslsniff.functions.dwarf.debug_units import DebugUnit
from sslsniff.functions.dwarf.function_model import AddressRange
from sslsniff.functions.dwarf.line_tables import LineTable

# What compilers fill up with: nop; nopl and nopw of all lengths; xchg %ax,%ax.
_NOPS = {
    "x86-64": re.compile(
        rb"(?:[\x66\x2e]*(?:\x90|\x0f\x1f(?:[\x00\x01\x02]|\x40.|\x44..|\x80.{4}|\x84.{5})))+",
        re.DOTALL,
    ),
    "aarch64": re.compile(rb"(?:\x1f\x20\x03\xd5)+"),
}
_MOST_PADDING_BYTES = 64


class CodeCheck:
    """Says which ranges of a program's debug info are code that it has."""

    def __init__(self, elf: Elf) -> None:
        self._elf = elf
        self._parts = [(address, address + size) for address, size in elf.code_parts]
        self.lowest = min((start for start, _ in self._parts), default=0)
        self.highest = max((end for _, end in self._parts), default=0)

    def is_code(self, each: AddressRange) -> bool:
        """Say whether a range is code; a linker gives code that it removed address 0, 1 or -1."""
        return each.start > 1 and any(
            start <= each.start < each.end <= end for start, end in self._parts
        )

    @cached_property
    def fragments(self) -> frozenset[int]:
        """Where parts of functions begin that gcc moved out of them: they are no calls."""
        symbols = self._elf.functions_with(*MARKS_OF_PARTS)
        return frozenset(
            function.address for symbol, function in symbols if part_of(symbol) is not None
        )

    def without_padding(self, each: AddressRange) -> AddressRange:
        """Return a range without the instructions at its start that only fill up."""
        size = min(each.end - each.start, _MOST_PADDING_BYTES)
        try:
            code = self._elf.data(each.start, size)
        except ElfError:
            code = None
        padding = _NOPS[self._elf.machine].match(code or b"")
        return each if padding is None else AddressRange(each.start + padding.end(), each.end)


def entries_of(
    ranges: Sequence[AddressRange],
    first: int | None,
    check: CodeCheck,
    unit: DebugUnit,
    lines: Callable[[DebugUnit], LineTable | None],
) -> tuple[int, ...]:
    """Return where the calls begin of an inlined copy with code at ``ranges``, which are of a unit.

    ``first``: its DW_AT_entry_pc. A range begins a call if its code begins with the same line and
    column of the source as the first range's. gcc moves instructions far from one another: there,
    a statement has to begin, too.
    """
    code = [check.without_padding(each) for each in ranges]
    code = [each for each in code if each.start < each.end]
    if len(code) < 2:
        return tuple(each.start for each in code)
    table = lines(unit)
    at_first = next((each for each in code if each.start == first), code[0])
    # Go's compiler copies no code, and writes a range for each statement.
    if table is None or unit.producer.startswith("Go "):
        return (at_first.start,)
    if unit.producer.startswith("GNU "):
        keys = {each: table.statement_key(each.start) for each in code}
    else:
        keys = {each: table.first_key(*each) for each in code}
    key = keys[at_first]
    if key is None:
        return (at_first.start,)
    return tuple(sorted(each.start for each in code if keys[each] == key))
