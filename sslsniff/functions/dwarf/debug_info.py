"""Debug info of a program: its functions, variables, types and lines."""

import contextlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

from sslsniff.core.errors import ElfError
from sslsniff.elf import debug_files
from sslsniff.elf.byte_reader import DamagedError, damaged
from sslsniff.elf.debug_sections import DebugSections
from sslsniff.elf.elf_file import Elf
from sslsniff.functions.dwarf.debug_units import DebugUnit, Entry
from sslsniff.functions.dwarf.described_functions import CopyPlace, FunctionReader
from sslsniff.functions.dwarf.described_types import DescribedTypes
from sslsniff.functions.dwarf.function_model import (
    AddressRange,
    DescribedFunction,
    SourceLine,
    SourcePlace,
    Variable,
)
from sslsniff.functions.dwarf.info_section import InfoSection, SplitUnits
from sslsniff.functions.dwarf.inlined_calls import CodeCheck
from sslsniff.functions.dwarf.line_tables import LineTable
from sslsniff.functions.dwarf.scanner import RowFlag, RowTag


@contextlib.contextmanager
def _damage_of(path: str) -> Iterator[None]:
    """Make what debug info is damaged of an error that names the file."""
    try:
        yield
    except DamagedError as error:
        raise damaged(path) from error


_MOST_LINE_ROWS = 1 << 20  # of 20 bytes; a unit of Rust has 100,000


class VisibleVariables(NamedTuple):
    """The variables that the source shows at an address.

    ``function``: the full name of the function that the code is of, which may have been inlined.
    ``frame_base``: expression for the frame that the code uses.
    """

    function: str
    variables: list[Variable]
    frame_base: bytes | None


class FunctionSignature(NamedTuple):
    """A function's parameters and result, as ``DescribedFunction.signature`` shows them.

    ``addresses``: of its own code. ``signature``: None if the debug info has no parameters.
    """

    name: str
    symbol: str | None
    addresses: tuple[int, ...]
    signature: str | None


class CodeOfCall(NamedTuple):
    """A call that was inlined: full name and symbol of the function, where, and into what."""

    name: str
    symbol: str | None
    address: int
    into: str | None


class DebugInfo:
    """The debug info for an open program, which is its own or in a separate file.

    Methods raise ``ElfError`` if it is damaged. ``path``: of the file that has it.
    ``unread_functions``: the names of those that ``functions`` left out, as they are damaged.
    """

    def __init__(self, elf: Elf, described_by: Elf) -> None:
        self.path = described_by.path
        self._check = CodeCheck(elf)
        sections = DebugSections(described_by)
        shared = debug_files.find_shared(described_by, elf)
        sections.shared = None if shared is None else DebugSections(shared)
        link = debug_files.shared_link(described_by) if shared is None else None
        self._missing_shared = [link.name] if link else []
        self.unread_functions: set[str] = set()
        self._program = InfoSection(sections)
        self._split = SplitUnits(elf)
        self._tables: dict[int, LineTable] = {}
        self._function_ranges: dict[_UnitPlace, list[tuple[AddressRange, int]]] = {}
        self._functions = FunctionReader(DescribedTypes(), self._check, self._lines_of)

    @cached_property
    def _parts(self) -> list[InfoSection]:
        """The program's units, and those that are in files of their own."""
        with _damage_of(self.path):
            return [self._program, *self._split.find(self._program)]

    @property
    def missing_files(self) -> list[str]:
        """The names of files with debug info that were not found: what they describe is missing.

        They are .dwo files of split units, and the file that several programs share.
        """
        return [*self._missing_shared, *(self._split.missing if self._parts else ())]

    @property
    def is_whole(self) -> bool:
        """Whether all of it could be read; if not, functions are missing."""
        with _damage_of(self.path):
            return all(part.scan.is_whole for part in self._parts)

    def functions(self, is_wanted: Callable[[str], bool]) -> list[DescribedFunction]:
        """Return the functions whose full names are wanted, with all copies, by their names."""
        found = []
        for name, symbol, places in self._matches(lambda name, _: is_wanted(name)):
            try:
                for each in self._functions.by_declaration(symbol, places):
                    function = self._functions.function(name, symbol, each)
                    if function is not None:
                        found.append(function)
            except DamagedError:
                self.unread_functions.add(name)
        return sorted(found, key=lambda each: (each.name, each.copies[0].entries))

    def signatures(
        self, is_wanted: Callable[[str, str | None], bool]
    ) -> Iterator[FunctionSignature]:
        """Yield the signatures of the functions whose name and symbol are wanted."""
        for name, symbol, places in self._matches(is_wanted):
            try:
                signature = self._functions.signature(places[0].entry)
                own = [self._functions.calls(each) for each in places if not each.is_inlined]
                addresses = [entry for found in own if found for entry in found[1]]
            except DamagedError:
                continue
            yield FunctionSignature(name, symbol, tuple(addresses), signature)

    def inlined_calls(self, is_wanted: Callable[[str, str | None], bool]) -> Iterator[CodeOfCall]:
        """Yield all calls that were inlined of the functions whose name and symbol are wanted."""
        for part in self._parts:
            with _damage_of(self.path):
                wanted = part.wanted(is_wanted)
            for row in part.scan.copies({*wanted}):
                name, symbol = wanted[part.scan.row(row).group]
                try:
                    place = part.place(row)
                    if place is None or not place.is_inlined:
                        continue
                    found, caller = self._functions.calls(place), place.caller_name
                except DamagedError:
                    continue
                for address in found[1] if found else ():
                    yield CodeOfCall(name, symbol, address, caller)

    def _matches(
        self, is_wanted: Callable[[str, str | None], bool]
    ) -> Iterator[tuple[str, str | None, list[CopyPlace]]]:
        """Yield name, symbol and copies of each function that is wanted."""
        for part in self._parts:
            with _damage_of(self.path):
                wanted = part.wanted(is_wanted)
            copies: dict[int, list[int]] = {}
            for row in part.scan.copies({*wanted}):
                copies.setdefault(part.scan.row(row).group, []).append(row)
            for group, rows in copies.items():
                name, symbol = wanted[group]
                with _damage_of(self.path):
                    places = [place for row in rows if (place := part.place(row)) is not None]
                if places:
                    yield name, symbol, places

    def _lines_of(self, unit: DebugUnit) -> LineTable | None:
        offset = unit.line_program
        if offset is None:
            return None
        if offset not in self._tables:
            self._tables[offset] = self._line_table(unit, offset)
            while sum(each.loaded_rows for each in self._tables.values()) > _MOST_LINE_ROWS:
                del self._tables[next(iter(self._tables))]
        return self._tables[offset]

    def _line_table(self, unit: DebugUnit, offset: int) -> LineTable:
        check = self._check
        return LineTable(self._program.sections, offset, unit.folder, check.lowest, check.highest)

    def addresses_of(self, file_suffix: str, line: int) -> list[int]:
        """Return where the code of a source line begins: several places are usual.

        ``file_suffix``: the last parts of the source file's path.
        """
        found: set[int] = set()
        with _damage_of(self.path):
            for table, files in self._tables_with(file_suffix):
                found.update(table.addresses_of(files, line))
        return sorted(found)

    def lines_with_code(self, file_suffix: str) -> list[int]:
        """Return the lines of a source file for which ``addresses_of`` returns places."""
        found: set[int] = set()
        with _damage_of(self.path):
            for table, files in self._tables_with(file_suffix):
                found.update(table.lines_with_code(files))
        return sorted(found)

    def source_files(self) -> set[str]:
        """Return the paths of all source files of which there may be code."""
        with _damage_of(self.path):
            return {path for table in self._all_tables() for path in table.files.values()}

    def _tables_with(self, file_suffix: str) -> Iterator[tuple[LineTable, set[int]]]:
        """Yield the tables that know a file, with its indices there."""
        suffix = file_suffix.removeprefix("./")
        for table in self._all_tables():
            files = {
                index
                for index, path in table.files.items()
                if path == suffix or path.endswith(f"/{suffix}")
            }
            if files:
                yield table, files

    def _all_tables(self) -> Iterator[LineTable]:
        seen: set[int] = set()
        for at in self._program.compiled_units():
            unit = self._program.unit(at)
            offset = unit.line_program
            if offset is not None and offset not in seen:
                seen.add(offset)
                yield self._tables.get(offset) or self._line_table(unit, offset)

    def line_of(self, address: int) -> SourceLine | None:
        """Return the source line that the instruction at ``address`` is from; None: unknown."""
        with _damage_of(self.path):
            found = self._unit_around(address)
            table = self._lines_of(found.part.unit(found.unit)) if found else None
            return table.line_of(address) if table else None

    def prologue_end(self, function_address: int) -> int:
        """Return where the body of the function at ``function_address`` begins."""
        with _damage_of(self.path):
            found = self._function_at(function_address)
            if found is None:
                return function_address
            unit, entry = found.part.unit(found.unit), found.entry
            table = self._lines_of(unit)
            end = next(end for start, end in entry.ranges() if start <= function_address < end)
            return table.prologue_end(function_address, end) if table else function_address

    def variables_at(self, address: int) -> VisibleVariables | None:
        """Return the variables that the source shows at an address; None: it is in no function."""
        with _damage_of(self.path):
            found = self._function_at(address)
            if found is None:
                return None
            return VisibleVariables(
                found.part.names.of_row(_inlined_chain(found, address)[-1]) or "?",
                self._functions.variables_at(found.entry, address),
                found.entry.expression("DW_AT_frame_base"),
            )

    def places_at(self, address: int) -> list[SourcePlace]:
        """Return which functions the code at ``address`` is of: first the innermost inlined one.

        Empty: the debug info does not say.
        """
        with _damage_of(self.path):
            function = self._function_at(address)
            if function is None:
                return []
            part, unit = function.part, function.part.unit(function.unit)
            table = self._lines_of(unit)
            source = table.line_of(address) if table else None
            found = []
            for row in reversed(_inlined_chain(function, address)):
                name = part.names.of_row(row) or "?"
                found.append(SourcePlace(name, source, row != function.row))
                entry = unit.entry(part.scan.row(row).entry)
                source = self._functions.source_line(entry, "DW_AT_call_file", "DW_AT_call_line")
            return found

    def never_returns(self, address: int) -> bool:
        """Say whether the function with the code at ``address`` is declared never to return.

        DWARF 5, section 3.3.1 (DW_AT_noreturn). Raises ``ElfError`` if the file is damaged.
        """
        with _damage_of(self.path):
            function = self._function_at(address)
            return bool(function and function.entry.with_attribute("DW_AT_noreturn"))

    @cached_property
    def _unit_ranges(self) -> list[tuple[AddressRange, int, "_UnitPlace"]]:
        """The addresses of the units' code, in order; the number makes it sortable."""
        found: list[tuple[AddressRange, int, _UnitPlace]] = []
        split = {id(part.skeleton) for part in self._parts}
        for part in self._parts:
            for at in part.compiled_units():
                unit = part.unit(at)
                if id(unit) in split:
                    continue
                with contextlib.suppress(DamagedError):
                    for each in (unit.skeleton or unit).root.ranges():
                        if self._check.is_code(each):
                            found.append((each, len(found), _UnitPlace(part, at)))
        return sorted(found)

    def _unit_around(self, address: int) -> "_UnitPlace | None":
        at = bisect_right(self._unit_ranges, address, key=lambda each: each[0].start) - 1
        if at < 0 or address >= self._unit_ranges[at][0].end:
            return None
        return self._unit_ranges[at][2]

    def _function_at(self, address: int) -> "_FunctionPlace | None":
        """Return the function whose own code is at ``address``; None: there is none."""
        found = self._unit_around(address)
        if found is None:
            return None
        if found not in self._function_ranges:
            self._function_ranges[found] = sorted(self._ranges_of_functions(found))
        ranges = self._function_ranges[found]
        at = bisect_right(ranges, address, key=lambda each: each[0].start) - 1
        if at < 0 or address >= ranges[at][0].end:
            return None
        row = ranges[at][1]
        part, index = found
        return _FunctionPlace(part, index, row, part.unit(index).entry(part.scan.row(row).entry))

    def _ranges_of_functions(self, place: "_UnitPlace") -> Iterator[tuple[AddressRange, int]]:
        """Yield the addresses of the functions of a unit, each with its row."""
        part, index = place
        for at in part.scan.rows_of_unit(index):
            row = part.scan.row(at)
            if row.tag == RowTag.SUBPROGRAM and row.flags & RowFlag.HAS_CODE:
                for each in part.unit(index).entry(row.entry).ranges():
                    if self._check.is_code(each):
                        yield each, at


class _UnitPlace(NamedTuple):
    """A unit by its index in a section."""

    part: InfoSection
    unit: int


class _FunctionPlace(NamedTuple):
    """A function; ``unit``: the index of its unit, ``row``: of its entry in the scan."""

    part: InfoSection
    unit: int
    row: int
    entry: Entry


def _inlined_chain(function: _FunctionPlace, address: int) -> list[int]:
    """Return the rows of ``function`` and of the inlined functions whose code is at ``address``.

    The innermost one is last.
    """
    chain = [function.row]
    scan, unit = function.part.scan, function.part.unit(function.unit)
    for at in range(function.row + 1, scan.rows_of_unit(function.unit).stop):
        row = scan.row(at)
        if row.tag == RowTag.SUBPROGRAM and row.scope != function.row:
            break
        if row.tag == RowTag.INLINED_SUBROUTINE and row.scope == chain[-1]:
            ranges = unit.entry(row.entry).ranges()
            if any(start <= address < end for start, end in ranges):
                chain.append(at)
    return chain


def open_debug_info(elf: Elf) -> DebugInfo | None:
    """Return the debug info for an open program, valid while it is open; None: there is none.

    It is the program's own, or that of its debug file (``debug_files``). Raises ``ElfError``.
    """
    if _has_debug_info(elf):
        return DebugInfo(elf, elf)
    found = debug_files.find(elf)
    if found is not None and _has_debug_info(found.elf):
        return DebugInfo(elf, found.elf)
    other = None if found else debug_files.of_another_build(elf)
    if other is not None:
        raise ElfError(
            f"{other} is the debug info of another build of {elf.path}",
            f"install the debug info with build id {elf.build_id}",
        )
    return None


def _has_debug_info(elf: Elf) -> bool:
    return any(elf.section_region(each).size for each in (".debug_info", ".zdebug_info"))
