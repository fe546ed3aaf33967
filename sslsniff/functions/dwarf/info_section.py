"""A .debug_info section: the program's, or that of a unit in a .dwo or .dwp file (split DWARF)."""

import contextlib
import posixpath
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from sslsniff.core.errors import ElfError
from sslsniff.elf import debug_files
from sslsniff.elf.byte_reader import DamagedError, reading
from sslsniff.elf.debug_sections import DebugSections, SectionParts
from sslsniff.elf.elf_file import Elf
from sslsniff.functions.dwarf.debug_units import DebugUnit, Entry
from sslsniff.functions.dwarf.described_functions import CopyPlace
from sslsniff.functions.dwarf.scanned_names import ScannedNames
from sslsniff.functions.dwarf.scanner import NO_ROW, FunctionScan, RowTag
from sslsniff.functions.dwarf.unit_reader import UnitReader

FUNCTIONS = {RowTag.SUBPROGRAM, RowTag.INLINED_SUBROUTINE}
"""Tags of rows with code of a function."""

_SPLIT = ".dwo"
_PACKAGE = ".dwp"
# DW_SECT of DWARF 5, section 7.3.5.3, and of GNU's packages before it
_CONTRIBUTIONS = {
    5: {1: "info", 3: "abbrev", 5: "loclists", 6: "str_offsets", 8: "rnglists"},
    # 2: of type units, in .debug_types
    2: {1: "info", 2: "info", 3: "abbrev", 5: "loc", 6: "str_offsets"},
}
_INDICES = (".debug_cu_index", ".debug_tu_index")
_INDEX_HEADER = struct.Struct("<4I")


class InfoSection:
    """The units of a section; ``skeleton``: what a split unit belongs to in the program.

    ``main``: the section to which these are type units; None: they are others, too.
    ``packaged_type``: returns the section with the type unit of a signature; None: there is none.
    """

    def __init__(
        self,
        sections: DebugSections,
        skeleton: DebugUnit | None = None,
        *,
        main: "InfoSection | None" = None,
        packaged_type: "Callable[[int, InfoSection], InfoSection | None] | None" = None,
    ) -> None:
        self._shared = None if sections.shared is None else InfoSection(sections.shared)
        self.sections = sections
        self.skeleton = skeleton
        self._main = main or self
        self._packaged_type = packaged_type
        self._units: dict[int, DebugUnit] = {}

    @cached_property
    def scan(self) -> FunctionScan:
        """Its functions; raises ``DamagedError`` if the section cannot be decompressed."""
        get = self.sections.get
        has_types = self._main is not self
        return FunctionScan(get("info"), get("abbrev"), get("str_offsets"), has_types=has_types)

    @cached_property
    def reader(self) -> UnitReader:
        """What reads its units; raises ``DamagedError``."""
        with reading:
            return UnitReader(
                self.sections,
                self.skeleton.compiled if self.skeleton else None,
                self._shared.reader if self._shared else None,
            )

    @cached_property
    def names(self) -> ScannedNames:
        """The names of its functions."""
        return ScannedNames(self.scan, self.sections)

    def wanted(
        self, is_wanted: Callable[[str, str | None], bool]
    ) -> dict[int, tuple[str, str | None]]:
        """Return name and symbol of the functions that are wanted, by their groups in the scan."""
        return {
            index: (name, symbol)
            for index, name, symbol in self.names.functions()
            if is_wanted(name, symbol)
        }

    def place(self, index: int) -> CopyPlace | None:
        """Return the copy that a row of the scan describes; None: it cannot be read."""
        row = self.scan.row(index)
        around: list[int] = []
        caller: int | None = None
        scope = row.scope
        while scope != NO_ROW:
            outer = self.scan.row(scope)
            if outer.tag in FUNCTIONS:
                caller = scope if caller is None else caller
                around.append(outer.entry)
                if outer.tag == RowTag.SUBPROGRAM:
                    break
            scope = outer.scope
        try:
            entry = self.unit(row.unit).entry(row.entry)
        except DamagedError:
            return None
        return CopyPlace(
            entry, tuple(around), lambda: None if caller is None else self.names.of_row(caller)
        )

    def unit(self, index: int) -> DebugUnit:
        """Return a unit by its index in the scan."""
        if index not in self._units:
            self._units[index] = DebugUnit(
                self.reader,
                self.sections,
                self.scan.units[index],
                self._main.entry_at,
                self._main.entry_of_type,
                self.skeleton,
                self._shared.entry_at if self._shared else None,
            )
        return self._units[index]

    def compiled_units(self) -> Iterator[int]:
        """Yield the indices of the units that may have code."""
        return (at for at, each in enumerate(self.scan.units) if not each.type_entry)

    @cached_property
    def _unit_starts(self) -> list[int]:
        return [each.start for each in self.scan.units]

    def entry_at(self, offset: int) -> Entry:
        """Return the entry at an offset in the section; raises ``DamagedError``."""
        at = bisect_right(self._unit_starts, offset) - 1
        if at < 0:
            raise DamagedError
        return self.unit(at).entry(offset)

    @cached_property
    def _type_units(self) -> dict[int, int]:
        return {each.id: at for at, each in enumerate(self.scan.units) if each.type_entry}

    @cached_property
    def _types(self) -> "InfoSection | None":
        """The type units in .debug_types, of DWARF 4; None: there are none."""
        if not self.sections.size("types"):
            return None
        return InfoSection(SectionParts(self.sections, has_types=True), self.skeleton, main=self)

    def entry_of_type(self, signature: int) -> Entry | None:
        """Return the type with a signature; None: it is not described."""
        found = self._own_type(signature)
        if found is None and self._types is not None:
            found = self._types._own_type(signature)
        if found is None and self._packaged_type is not None:
            section = self._packaged_type(signature, self)
            found = section._own_type(signature) if section else None
        return found

    def _own_type(self, signature: int) -> Entry | None:
        at = self._type_units.get(signature)
        return None if at is None else self.unit(at).entry(self.scan.units[at].type_entry)


class SplitUnits:
    """The units of a program whose descriptions are in files of their own.

    ``elf``: the program, which closes these files. ``missing``: the names of those that were not
    found. Only root and the program's owner can have written them, as debug files.
    """

    def __init__(self, elf: Elf) -> None:
        self._elf = elf
        self._closing = contextlib.ExitStack()
        elf.close_with(self._closing.close)
        self.missing: list[str] = []
        self._types: dict[int, InfoSection] = {}

    def find(self, program: InfoSection) -> list[InfoSection]:
        """Return the split units that the units in a program belong to."""
        found = []
        for index in program.compiled_units():
            if not program.scan.units[index].id:
                continue
            skeleton = program.unit(index)
            root = skeleton.root
            name = root.string("DW_AT_dwo_name") or root.string("DW_AT_GNU_dwo_name")
            if name is None:
                continue
            sections = self._packaged(skeleton.scanned.id) or self._split_file(skeleton, name)
            if sections is None:
                self.missing.append(name)
            else:
                found.append(InfoSection(sections, skeleton, packaged_type=self._packaged_type))
        return found

    def _split_file(self, skeleton: DebugUnit, name: str) -> DebugSections | None:
        beside = Path(self._elf.path).parent / posixpath.basename(name)
        for path in (posixpath.join(skeleton.folder, name), str(beside)):
            if (elf := self._open(path)) is not None:
                return DebugSections(elf, _SPLIT)
        return None

    def _open(self, path: str) -> Elf | None:
        file = debug_files.open_beside(self._elf, path, self._closing)
        try:
            return None if file is None else Elf(path, file, is_debug=True)
        except ElfError:
            return None

    @cached_property
    def _package(self) -> "_Package | None":
        elf = self._open(self._elf.path + _PACKAGE)
        if elf is None:
            return None
        units, types = (_read_index(elf.section(each) or b"") for each in _INDICES)
        return _Package(DebugSections(elf, _SPLIT), units, types)

    def _packaged(self, unit: int) -> DebugSections | None:
        if self._package is None or unit not in self._package.units:
            return None
        return SectionParts(self._package.sections, self._package.units[unit])

    def _packaged_type(self, signature: int, main: InfoSection) -> InfoSection | None:
        """Return the section of a package that has a type unit which ``main`` refers to."""
        if self._package is None or signature not in self._package.types:
            return None
        if signature not in self._types:
            has_types = bool(self._package.sections.size("types"))
            parts = SectionParts(
                self._package.sections, self._package.types[signature], has_types=has_types
            )
            self._types[signature] = InfoSection(parts, main.skeleton, main=main)
        return self._types[signature]


class _Package(NamedTuple):
    """The file with all split units, and which parts of its sections each has, by id.

    ``types``: those of type units, by signature.
    """

    sections: DebugSections
    units: dict[int, dict[str, tuple[int, int]]]
    types: dict[int, dict[str, tuple[int, int]]]


def _read_index(data: bytes) -> dict[int, dict[str, tuple[int, int]]]:
    """Read an index of a package (DWARF 5, section 7.3.5.3); one that is damaged has no units."""
    if len(data) < _INDEX_HEADER.size:
        return {}
    version, columns, units, slots = _INDEX_HEADER.unpack_from(data)
    names = _CONTRIBUTIONS.get(version & 0xFFFF, {})
    table_at = _INDEX_HEADER.size + 12 * slots
    row_bytes = 4 * columns
    if table_at + row_bytes * (1 + 2 * units) > len(data):
        return {}
    kinds = struct.unpack_from(f"<{columns}I", data, table_at)
    found = {}
    for slot in range(slots):
        (unit,) = struct.unpack_from("<Q", data, _INDEX_HEADER.size + 8 * slot)
        (row,) = struct.unpack_from("<I", data, _INDEX_HEADER.size + 8 * slots + 4 * slot)
        if not 0 < row <= units:
            continue
        offsets, sizes = (
            struct.unpack_from(f"<{columns}I", data, table_at + row_bytes * at)
            for at in (row, row + units)
        )
        found[unit] = {
            names[kind]: part
            for kind, *part in zip(kinds, offsets, sizes, strict=True)
            if kind in names
        }
    return {
        unit: {name: (at, size) for name, (at, size) in parts.items()}
        for unit, parts in found.items()
    }
