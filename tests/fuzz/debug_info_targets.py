"""Fuzzing targets for what reads debug info: damage ends in less, or in an ``ElfError``."""

import ctypes
import functools
import io
import os
import struct

import atheris
from elftools.elf.elffile import ELFFile

with atheris.instrument_imports(include=["sslsniff.elf"]):
    from sslsniff.elf.call_frames import cfa_at
    from sslsniff.elf.elf_file import Elf
    from sslsniff.functions.dwarf import scanner
    from sslsniff.functions.dwarf.debug_info import open_debug_info

from sslsniff.core.errors import ElfError
from tests.fuzz.described_program import (
    SOURCE_NAME,
    VERSIONS,
    compile_program,
    compile_scanner,
)

_SIZES = struct.Struct("<2H")
_FORM = struct.Struct("<2B?b2B")
# Of the standard opcodes (DWARF 5, section 6.2.5.2).
_OPERAND_COUNTS = bytes((0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1))
_EDIT = struct.Struct("<BHB")


@functools.cache
def _watch_scanner() -> None:
    """Replace the library by one whose branches libFuzzer sees. Its symbols must be global by then.

    Not before ``atheris.Setup``, which takes a libFuzzer that is global already for another one.
    """
    from atheris import core_with_libfuzzer

    ctypes.CDLL(core_with_libfuzzer.__file__, ctypes.RTLD_GLOBAL)
    scanner._LIBRARY = compile_scanner()


def _scanner(data: bytes) -> None:
    """The sizes of the abbreviations and string offsets, these, and .debug_info."""
    _watch_scanner()
    if len(data) < _SIZES.size:
        return
    first, second = _SIZES.unpack_from(data)
    second += first
    rest = data[_SIZES.size :]
    parts = rest[second:], rest[:first], rest[first:second]
    scan = scanner.FunctionScan(*parts, has_types=len(rest) % 2 == 1)
    seen = 0
    for index, unit in enumerate(scan.units):
        assert unit.start <= unit.end <= len(rest)
        for at in scan.rows_of_unit(index):
            row = scan.row(at)
            assert at == seen
            assert row.unit == index
            assert row.scope == scanner.NO_ROW or row.scope < at
            assert row.group == scanner.NO_ROW or row.group < scan.group_count
            seen += 1
    assert seen == scan.row_count
    groups = [scan.group(at) for at in range(scan.group_count)]
    assert all(group.row < scan.row_count for group in groups)
    copies = scan.copies(set(range(scan.group_count)))
    assert sorted(set(copies)) == [*copies]


def _lines(data: bytes) -> None:
    """What a header says about a line number program, and the program."""
    _watch_scanner()
    if len(data) < _FORM.size:
        return
    form = scanner.LineForm._make((*_FORM.unpack_from(data), _OPERAND_COUNTS))
    rows = scanner.LineRows(data[_FORM.size :], form, 0, 1 << 63)
    starts = [0, *(at + 1 for at, flags in enumerate(rows.flags) if flags & _ENDS)]
    firsts = [rows.addresses[at] for at in starts[:-1]]
    assert firsts == sorted(firsts)
    assert starts[-1] == len(rows.lines) == len(rows.files) == len(rows.columns)


_ENDS = scanner.LineFlag.ENDS_SEQUENCE


def _debug_info(data: bytes) -> None:
    """The version of DWARF, then bits to change: section, offset, bits."""
    _watch_scanner()
    program, sections = _PROGRAMS[data[0] % len(_PROGRAMS)] if data else _PROGRAMS[0]
    damaged = bytearray(program)
    for section, offset, bits in _EDIT.iter_unpack(data[1 : 1 + len(data[1:]) // 4 * 4]):
        start, size = sections[section % len(sections)]
        damaged[start + offset % size] ^= bits
    os.pwrite(_FILE, damaged, 0)
    os.ftruncate(_FILE, len(damaged))
    try:
        with Elf(f"/proc/self/fd/{_FILE}") as elf:
            _read_all(elf)
    except ElfError:
        pass


def _read_all(elf: Elf) -> None:
    info = open_debug_info(elf)
    if info is None:
        return
    for function in info.functions(lambda _: True):
        assert function.copies
        for copy in function.copies:
            for entry in copy.entries[:4]:
                info.line_of(entry)
                info.places_at(entry)
                info.prologue_end(entry)
                info.variables_at(entry)
                cfa_at(elf, entry)
        assert function.signature is None or isinstance(function.signature, str)
    list(info.inlined_calls(lambda *_: True))
    list(info.signatures(lambda *_: True))
    info.addresses_of(SOURCE_NAME, 10)
    info.lines_with_code(SOURCE_NAME)
    info.source_files()


def _sections(program: bytes) -> list[tuple[int, int]]:
    """Return offset and size of each section that says something about the code."""
    sections = ELFFile(io.BytesIO(program)).iter_sections()
    found = [each for each in sections if each.name.startswith((".debug_", ".eh_frame"))]
    return [(each["sh_offset"], each["sh_size"]) for each in found if each["sh_size"]]


_PROGRAMS = [(each, _sections(each)) for each in map(compile_program, VERSIONS)]
_FILE = os.memfd_create("damaged")

TARGETS = {"scanner": _scanner, "lines": _lines, "debug_info": _debug_info}
