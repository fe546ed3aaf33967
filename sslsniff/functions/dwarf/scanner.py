"""The functions and lines of debug info, as ``scanner.c`` and ``lines.c`` find them.

Structures and constants are those of ``scanner.h``. They are in C as a program has millions of
entries and lines: the search takes 0.1 us for each there, and 25 us in Python.
"""

import ctypes
import functools
import struct
import weakref
from array import array
from collections.abc import Iterator, Sequence
from ctypes import POINTER, c_char_p, c_int, c_int8, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import NamedTuple

NO_OFFSET = 2**64 - 1
NO_ROW = 2**32 - 1
STRING_SECTION_SHIFT = 56
"""A name's place has, from this bit on, its section: .debug_info, .debug_str, .debug_line_str, or
.debug_str of the file that programs share."""

_LIBRARY = Path(__file__).with_name("libscanner.so")
# struct function_row, unit_row, group_row
_ROW = struct.Struct("<4Q3I2H")
_UNIT = struct.Struct("<6QI2H4B4x")
_GROUP = struct.Struct("<2Q2I")
_SCOPE = struct.Struct("<I")
_SCOPE_AT = struct.calcsize("<4QI")  # in a row


class RowTag:
    """Values of ``FunctionRow.tag``: DW_TAG."""

    SUBPROGRAM = 0x2E
    INLINED_SUBROUTINE = 0x1D
    NAMESPACE = 0x39


class RowFlag:
    """Bits of ``FunctionRow.flags``."""

    HAS_CODE = 1
    IS_DECLARATION = 2
    HAS_PARAMETERS = 4


class LineFlag:
    """Bits of ``LineRows.flags``."""

    IS_STATEMENT = 1
    ENDS_SEQUENCE = 2
    ENDS_PROLOGUE = 4


class _SectionBytes(ctypes.Structure):
    _fields_ = (("start", c_char_p), ("size", c_uint64))


class _FunctionScan(ctypes.Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("rows", "units", "groups")),
        *((name, c_uint32) for name in ("row_count", "unit_count", "group_count", "is_whole")),
    )


class _LineRow(ctypes.Structure):
    _fields_ = (
        ("address", c_uint64),
        ("file", c_uint32),
        ("line", c_uint32),
        ("column", c_uint16),
        ("flags", c_uint16),
        ("_padding", c_uint32),
    )


class _LineRows(ctypes.Structure):
    _fields_ = (("rows", POINTER(_LineRow)), ("count", c_uint64))


class _LineForm(ctypes.Structure):
    _fields_ = (
        *((name, c_uint8) for name in ("address_bytes", "instruction_bytes", "operations")),
        ("is_statement", c_uint8),
        ("line_base", c_int8),
        ("line_range", c_uint8),
        ("opcode_base", c_uint8),
        ("operand_counts", c_uint8 * 255),
    )


class FunctionRow(NamedTuple):
    """A subprogram, an inlined subroutine, or the namespace or class that one is in.

    ``entry``: its offset in .debug_info. ``origin``: that of the entry with the rest of its
    description, or ``NO_OFFSET``. ``unit``: index. ``scope``: row of what contains it, ``group``:
    of the function whose code it is; both may be ``NO_ROW``.
    """

    entry: int
    name: int
    linkage_name: int
    origin: int
    unit: int
    scope: int
    group: int
    tag: int
    flags: int


class ScannedUnit(NamedTuple):
    """A unit of .debug_info; see ``struct unit_row`` in scanner.h."""

    start: int
    end: int
    first_entry: int
    abbreviations: int
    id: int
    type_entry: int
    first_row: int
    version: int
    language: int
    kind: int
    address_bytes: int
    offset_bytes: int
    has_types: int


class FunctionGroup(NamedTuple):
    """Copies of one function: ``row`` has the name, ``copy`` is one with code."""

    name: int
    linkage_name: int
    row: int
    copy: int


class FunctionScan:
    """The functions of a .debug_info section, with its abbreviations and string offsets.

    ``has_types``: it is .debug_types of DWARF 4, whose units have another header.
    ``is_whole``: False if some of it is damaged; what was found in the rest is there.
    Raises ``MemoryError``.
    """

    def __init__(
        self, info: bytes, abbreviations: bytes, string_offsets: bytes, *, has_types: bool = False
    ) -> None:
        library = load_library()
        sections = map(_bytes, (info, abbreviations, string_offsets))
        scan = library.function_scan_new(*sections, has_types)
        if not scan:
            raise MemoryError
        weakref.finalize(self, library.function_scan_free, scan)
        self._scan = scan
        found = scan.contents
        self.is_whole = bool(found.is_whole)
        self.row_count: int = found.row_count
        self.group_count: int = found.group_count
        self._rows = _memory(found.rows, found.row_count * _ROW.size)
        self._groups = _memory(found.groups, found.group_count * _GROUP.size)
        units = _memory(found.units, found.unit_count * _UNIT.size)
        self.units: Sequence[ScannedUnit] = [
            ScannedUnit._make(each) for each in _UNIT.iter_unpack(units)
        ]

    def row(self, index: int) -> FunctionRow:
        """Return a row by its index."""
        return FunctionRow._make(_ROW.unpack_from(self._rows, index * _ROW.size))

    def group(self, index: int) -> FunctionGroup:
        """Return a function by its index."""
        return FunctionGroup._make(_GROUP.unpack_from(self._groups, index * _GROUP.size))

    def names(self) -> Iterator[tuple[int, int, int]]:
        """Yield the places of name and linkage name, and the row, of each function.

        Faster than ``group``, for all of them.
        """
        for name, linkage_name, row, _ in _GROUP.iter_unpack(self._groups):
            yield name, linkage_name, row

    def scope(self, index: int) -> int:
        """Return the scope of a row, faster than ``row``."""
        (scope,) = _SCOPE.unpack_from(self._rows, index * _ROW.size + _SCOPE_AT)
        return int(scope)

    def copies(self, groups: set[int]) -> "array[int]":
        """Return the rows with code of these functions, in order."""
        wanted = bytearray(self.group_count)
        for group in groups:
            wanted[group] = 1
        rows = (c_uint32 * self.row_count)()
        count = load_library().function_scan_copies(self._scan, bytes(wanted), rows)
        return array("I", memoryview(rows)[:count].tobytes())

    def rows_of_unit(self, unit: int) -> range:
        """Return the indices of a unit's rows."""
        after = unit + 1
        end = self.units[after].first_row if after < len(self.units) else self.row_count
        return range(self.units[unit].first_row, end)


class LineForm(NamedTuple):
    """What the header of a line number program says about it (DWARF 5, section 6.2.4)."""

    address_bytes: int
    instruction_bytes: int
    is_statement: bool
    line_base: int
    line_range: int
    opcode_base: int
    operand_counts: bytes


class LineRows:
    """The rows of a line number program, as columns, in the order of their addresses.

    Sequences that begin outside of ``lowest`` to before ``highest`` are left out: a linker removed
    their code. Raises ``MemoryError``.
    """

    def __init__(self, program: bytes, form: LineForm, lowest: int, highest: int) -> None:
        library = load_library()
        by = _LineForm(
            form.address_bytes,
            form.instruction_bytes,
            1,
            form.is_statement,
            form.line_base,
            form.line_range,
            form.opcode_base,
            (c_uint8 * 255)(*form.operand_counts[:255]),
        )
        lines = library.line_rows_new(_bytes(program), by, lowest, highest)
        if not lines:
            raise MemoryError
        try:
            found = lines.contents
            size = found.count * ctypes.sizeof(_LineRow)
            data = ctypes.string_at(found.rows, size) if size else b""
        finally:
            library.line_rows_free(lines)
        longs, words, halves = array("Q", data), array("I", data), array("H", data)
        self.addresses = longs[::3]
        self.files = words[2::6]
        self.lines = words[3::6]
        self.columns = halves[8::12]
        self.flags = halves[9::12]


def _memory(address: int | None, size: int) -> memoryview:
    """Return memory of the library: it is there as long as what it belongs to."""
    return memoryview((ctypes.c_char * size).from_address(address) if address and size else b"")


def _bytes(data: bytes) -> _SectionBytes:
    return _SectionBytes(data, len(data))


@functools.cache
def load_library() -> ctypes.CDLL:
    """Return the library with the C functions; it is loaded once."""
    library = ctypes.CDLL(str(_LIBRARY))
    library.function_scan_new.argtypes = (*(_SectionBytes,) * 3, c_int)
    library.function_scan_new.restype = POINTER(_FunctionScan)
    library.function_scan_free.argtypes = (POINTER(_FunctionScan),)
    library.function_scan_free.restype = None
    library.function_scan_copies.argtypes = (POINTER(_FunctionScan), c_char_p, POINTER(c_uint32))
    library.function_scan_copies.restype = c_uint32
    library.line_rows_new.argtypes = (_SectionBytes, POINTER(_LineForm), c_uint64, c_uint64)
    library.line_rows_new.restype = POINTER(_LineRows)
    library.line_rows_free.argtypes = (POINTER(_LineRows),)
    library.line_rows_free.restype = None
    return library
