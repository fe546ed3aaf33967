"""Line tables: which source line each instruction is from (DWARF 5, section 6.2)."""

import io
import posixpath
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from elftools.construct import Container
from elftools.dwarf.structs import DWARFStructs

from sslsniff.elf.byte_reader import Bytes, DamagedError, reading
from sslsniff.elf.debug_sections import DebugSections
from sslsniff.functions.dwarf.function_model import SourceLine
from sslsniff.functions.dwarf.scanner import LineFlag, LineForm, LineRows


class LineKey(NamedTuple):
    """Where in the source an instruction is from; ``file`` is an index of the table's files."""

    file: int
    line: int
    column: int


class _LineTableHeader(NamedTuple):
    """A line table: the paths of its files by index, its program and the program's form."""

    files: dict[int, str]
    program_at: int
    end: int
    form: LineForm


class LineTable:
    """The line table at an offset in .debug_line.

    ``folder``: relative paths are from there. ``lowest`` to before ``highest``: the addresses of
    code. Methods raise ``DamagedError``.
    """

    def __init__(
        self, sections: DebugSections, offset: int, folder: str, lowest: int, highest: int
    ) -> None:
        self._sections = sections
        self._offset = offset
        self._folder = folder
        self._lowest = lowest
        self._highest = highest

    @cached_property
    def _header(self) -> _LineTableHeader:
        return _read_header(self._sections, self._offset, self._folder)

    @property
    def files(self) -> dict[int, str]:
        """The paths of the source files, by their indices."""
        return self._header.files

    @cached_property
    def rows(self) -> LineRows:
        """The rows, in the order of their addresses."""
        header = self._header
        program = self._sections.part("line", header.program_at, header.end - header.program_at)
        return LineRows(program, header.form, self._lowest, self._highest)

    @property
    def loaded_rows(self) -> int:
        """How many rows are in memory."""
        return len(self.rows.addresses) if "rows" in self.__dict__ else 0

    def line_of(self, address: int) -> SourceLine | None:
        """Return the line that the instruction at ``address`` is from; None: of none."""
        rows = self.rows
        at = self._row_of(address)
        if at is None or not rows.lines[at]:
            return None
        return SourceLine(self.files.get(rows.files[at], "?"), rows.lines[at])

    def first_key(self, start: int, end: int) -> LineKey | None:
        """Return the first place in the source of the code from ``start`` to before ``end``."""
        rows = self.rows
        at = self._row_of(start)
        if at is None:
            return None
        while at < len(rows.addresses) and rows.addresses[at] < end:
            if rows.flags[at] & LineFlag.ENDS_SEQUENCE:
                return None
            if rows.lines[at]:
                return LineKey(rows.files[at], rows.lines[at], rows.columns[at])
            at += 1
        return None

    def statement_key(self, start: int) -> LineKey | None:
        """Return the place in the source of the statement that begins at an address; None: none."""
        rows = self.rows
        at = self._row_of(start)
        while at is not None and at >= 0 and rows.addresses[at] == start:
            if rows.flags[at] & LineFlag.IS_STATEMENT and rows.lines[at]:
                return LineKey(rows.files[at], rows.lines[at], rows.columns[at])
            at -= 1
        return None

    def _row_of(self, address: int) -> int | None:
        """Return the index of the row that describes the instruction at ``address``."""
        rows = self.rows
        at = bisect_right(rows.addresses, address) - 1
        return None if at < 0 or rows.flags[at] & LineFlag.ENDS_SEQUENCE else at

    def addresses_of(self, files: set[int], line: int) -> Iterator[int]:
        """Yield where a line's code begins: the first statement of each run of its rows."""
        rows = self.rows
        is_in_run = False
        at = -1
        while True:
            try:
                at = rows.lines.index(line, at + 1)
            except ValueError:
                return
            if rows.files[at] not in files or rows.flags[at] & LineFlag.ENDS_SEQUENCE:
                continue
            is_in_run = at > 0 and self._is_same_line(at - 1, at) and is_in_run
            if not is_in_run and rows.flags[at] & LineFlag.IS_STATEMENT:
                yield rows.addresses[at]
                is_in_run = True

    def lines_with_code(self, files: set[int]) -> set[int]:
        """Return the lines of files, given by their indices, at which statements begin."""
        rows = self.rows
        return {
            line
            for file, line, flags in zip(rows.files, rows.lines, rows.flags, strict=True)
            if file in files
            and line
            and flags & LineFlag.IS_STATEMENT
            and not flags & LineFlag.ENDS_SEQUENCE
        }

    def _is_same_line(self, one: int, other: int) -> bool:
        rows = self.rows
        is_same = rows.lines[one] == rows.lines[other] and rows.files[one] == rows.files[other]
        return is_same and not rows.flags[one] & LineFlag.ENDS_SEQUENCE

    def prologue_end(self, function: int, end: int) -> int:
        """Return where the code of a function's body begins; ``function`` if that is unknown.

        clang and rustc mark it. gcc does not: its second row of a function is there.
        """
        rows = self.rows
        first = bisect_left(rows.addresses, function)
        last = bisect_left(rows.addresses, end)
        marked = (at for at in range(first, last) if rows.flags[at] & LineFlag.ENDS_PROLOGUE)
        if (at := next(marked, None)) is not None:
            return rows.addresses[at]
        later = (at for at in range(first, last) if rows.addresses[at] > function)
        if rows.addresses[first : first + 2] == rows.addresses[first : first + 1] * 2:
            return function  # two rows at the entry: there is no prologue
        at = next(later, None)
        return function if at is None else rows.addresses[at]


def _read_header(sections: DebugSections, offset: int, folder: str) -> _LineTableHeader:
    start = Bytes(sections.part("line", offset, 14))
    length, offset_bytes = start.fixed(4), 4
    if length == 0xFFFFFFFF:
        length, offset_bytes = start.fixed(8), 8
    end = start.at + length
    version = start.fixed(2)
    data = sections.part("line", offset, end)
    if not 2 <= version <= 5 or len(data) != end:
        raise DamagedError
    stream = io.BytesIO(data)
    with reading:
        structs = DWARFStructs(
            little_endian=True, dwarf_format=8 * offset_bytes, address_size=8, dwarf_version=version
        )
        found = structs.Dwarf_lineprog_header.parse_stream(stream)
        form = LineForm(
            found.address_size if version >= 5 else 8,
            found.minimum_instruction_length,
            bool(found.default_is_stmt),
            found.line_base,
            found.line_range,
            found.opcode_base,
            bytes(found.standard_opcode_lengths),
        )
        names = _names_of_5(found, sections) if version >= 5 else _names_of_4(found)
        files = {index: posixpath.join(folder, path) for index, path in names}
    return _LineTableHeader(files, offset + stream.tell(), offset + end, form)


def _names_of_4(header: Container) -> Iterator[tuple[int, str]]:
    folders = ["", *(each.decode(errors="replace") for each in header.include_directory)]
    for index, each in enumerate(header.file_entry, start=1):
        name = each.name.decode(errors="replace")
        yield index, posixpath.join(_folder(folders, each.dir_index), name)


def _names_of_5(header: Container, sections: DebugSections) -> Iterator[tuple[int, str]]:
    folder_form, file_form = (
        next((each.form for each in format if each.content_type == "DW_LNCT_path"), "")
        for format in (header.directory_entry_format, header.file_name_entry_format)
    )
    folders = [_path(folder_form, each, sections) for each in header.directories]
    for index, each in enumerate(header.file_names):
        folder = _folder(folders, each.get("DW_LNCT_directory_index", 0))
        yield index, posixpath.join(folder, _path(file_form, each, sections))


def _folder(folders: list[str], at: int) -> str:
    return folders[at] if at < len(folders) else ""


def _path(form: str, entry: Container, sections: DebugSections) -> str:
    found = entry.get("DW_LNCT_path", "?")
    if section := {"DW_FORM_line_strp": "line_str", "DW_FORM_strp": "str"}.get(form):
        found = sections.string(section, found)
    return found.decode(errors="replace") if isinstance(found, bytes) else "?"
