"""Full names of the functions that the scanner found."""

from collections.abc import Iterator
from functools import cached_property

from sslsniff.elf.debug_sections import DebugSections
from sslsniff.elf.symbols import demangle
from sslsniff.functions.dwarf.scanner import (
    NO_OFFSET,
    NO_ROW,
    STRING_SECTION_SHIFT,
    FunctionScan,
    RowTag,
)

_SECTIONS = ("info", "str", "line_str")
_UNNAMED = {RowTag.NAMESPACE: "(anonymous namespace)"}
_OFFSET = (1 << STRING_SECTION_SHIFT) - 1


class ScannedNames:
    """Names of the rows of a scan: of Rust demangled, of C++ with namespaces and classes."""

    def __init__(self, scan: FunctionScan, sections: DebugSections) -> None:
        self._scan = scan
        self._sections = sections
        self._scopes: dict[int, str] = {NO_ROW: ""}
        self._of_groups: dict[int, str | None] = {}  # a function has many inlined copies

    def functions(self) -> Iterator[tuple[int, str, str | None]]:
        """Yield group, full name and symbol of each function that has code."""
        for at, (name, linkage_name, row) in enumerate(self._scan.names()):
            symbol = self._string(linkage_name)
            full_name = self._full_name(symbol, row, self._string(name))
            if full_name is not None:
                yield at, full_name, symbol

    def of_row(self, index: int) -> str | None:
        """Return the full name of the function that a row is a copy of; None: it has none."""
        row = self._scan.row(index)
        if row.group == NO_ROW:
            return None
        if row.group not in self._of_groups:
            group = self._scan.group(row.group)
            self._of_groups[row.group] = self._full_name(
                self._string(group.linkage_name), group.row, self._string(group.name)
            )
        return self._of_groups[row.group]

    def _full_name(self, symbol: str | None, row: int, name: str | None) -> str | None:
        if symbol is not None and (readable := demangle(symbol)) is not None:
            return readable
        if name is None:
            return symbol
        return self._scope(self._scan.scope(row)) + name

    def _scope(self, index: int) -> str:
        """Return the namespaces and classes around what is in a row, each with ``::``."""
        inside = []
        at = index
        while at not in self._scopes:
            inside.append(at)
            row = self._scan.row(at)
            at = row.scope
        prefix = self._scopes[at]
        for each in reversed(inside):
            row = self._scan.row(each)
            name = self._string(row.name) or _UNNAMED.get(row.tag)
            prefix += f"{name}::" if name else ""
            self._scopes[each] = prefix
        return prefix

    def _string(self, place: int) -> str | None:
        if place == NO_OFFSET or (section := place >> STRING_SECTION_SHIFT) >= len(self._data):
            return None
        data, offset = self._data[section], place & _OFFSET
        end = data.find(b"\0", offset)
        return str(data[offset:end], errors="replace") if end >= 0 else None

    @cached_property
    def _data(self) -> list[bytes]:
        shared = self._sections.shared
        own = [self._sections.get(each) for each in _SECTIONS]
        return [*own, shared.get("str")] if shared else own
