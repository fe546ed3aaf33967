"""ELF files that take long, or much memory, to look into, and are small on disk.

They are of a user without rights.
"""

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_NOBODY = 65534
_PAGE = 4096
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_LOAD, _NOTE, _EH_FRAME = 1, 4, 0x6474E550
_READ_EXECUTE = 5
_STRTAB, _DYNSYM = 3, 11
_FUNCTION = struct.Struct("<IBBHQQ").pack(0, 0x12, 0, 1, _PAGE, 16)


class _Segment(NamedTuple):
    kind: int
    offset: int
    size: int


class _Section(NamedTuple):
    kind: int
    offset: int
    size: int
    link: int = 0
    name: int = 0


def _write(
    path: Path,
    size: int,
    segments: list[_Segment],
    sections: list[_Section] | None = None,
    parts: dict[int, bytes] | None = None,
    names: int = 0,
) -> Path:
    """Write a shared library for x86-64 of this size, sparse but for its headers and ``parts``."""
    sections = sections or []
    table = _PAGE  # of section headers: after the page that can be mapped and executed
    count = len(segments) + 1
    with path.open("wb") as file:
        ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
        file.write(
            _HEADER.pack(
                *(ident, 3, 62, 1, 0, _HEADER.size, table if sections else 0, 0),
                *(_HEADER.size, _PROGRAM_HEADER.size, count),
                *(_SECTION_HEADER.size, len(sections), names),
            )
        )
        for kind, offset, length in (_Segment(_LOAD, 0, _PAGE), *segments):
            file.write(
                _PROGRAM_HEADER.pack(kind, _READ_EXECUTE, offset, offset, 0, length, length, 1)
            )
        for index, section in enumerate(sections):
            file.seek(table + index * _SECTION_HEADER.size)
            file.write(
                _SECTION_HEADER.pack(
                    *(section.name, section.kind, 0, 0, section.offset, section.size),
                    *(section.link, 0, 1, 0),
                )
            )
        for offset, data in (parts or {}).items():
            file.seek(offset)
            file.write(data)
        file.truncate(size)
    path.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(path, _NOBODY, _NOBODY)
    return path


def notes(path: Path, size: int = 100 << 20) -> Path:
    """A segment of notes of 100 MB, all of them empty."""
    return _write(path, _PAGE + size, [_Segment(_NOTE, _PAGE, size)])


def names(path: Path, size: int = 800 << 20) -> Path:
    """A symbol table with 800 million bytes of names."""
    at = 2 * _PAGE
    sections = [_Section(0, 0, 0), _Section(_DYNSYM, 0, 24, 2), _Section(_STRTAB, at, size)]
    return _write(path, at + size, [], sections)


def debug_link(path: Path, size: int = 4 << 30) -> Path:
    """A file without a build id whose debug file, beside it, has 4 GB."""
    strings = b"\0.gnu_debuglink\0"
    debug = _write(path.with_name(f"{path.name}.debug"), size, [])
    link = debug.name.encode().ljust(len(debug.name) + 4 & ~3, b"\0") + b"\1\2\3\4"
    at = 2 * _PAGE
    sections = [
        _Section(0, 0, 0),
        _Section(_STRTAB, at, len(strings)),
        _Section(1, at + 64, len(link), name=1),
    ]
    parts = {at: strings, at + 64: link}
    return _write(path, at + _PAGE, [], sections, parts, names=1)


def unwind_table(path: Path, size: int = 1 << 30) -> Path:
    """An unwind table of 1 GB, which is read as a whole for a symbol without length."""
    strings = b"\0SSL_read\0SSL_write\0SSL_new\0SSL_get_fd\0SSL_free\0"
    at = 2 * _PAGE
    table = b"".join(
        struct.pack("<IBBHQQ", strings.index(name), 0x12, 0, 1, 64, 0)
        for name in (b"SSL_read\0", b"SSL_write\0", b"SSL_new\0")
    )
    sections = [
        _Section(0, 0, 0),
        _Section(_DYNSYM, at + 256, len(table), 2),
        _Section(_STRTAB, at, len(strings)),
    ]
    parts = {at: strings, at + 256: table}
    return _write(path, at + size, [_Segment(_EH_FRAME, at, size)], sections, parts)


def symbol_tables(path: Path, count: int = 60_000) -> Path:
    """As many symbol tables as a file can have: each name is looked for in each of them."""
    at = _PAGE + (count + 3) * _SECTION_HEADER.size
    strings = b"\0SSL_nothing".ljust(1 << 20, b"_")
    sections = [
        _Section(0, 0, 0),
        _Section(_STRTAB, at + _PAGE, len(strings)),
        *[_Section(_DYNSYM, at, _PAGE, 1)] * count,
    ]
    parts = {at: _FUNCTION * 64, at + _PAGE: strings}
    return _write(path, at + _PAGE + len(strings), [], sections, parts)


def with_long_section(program: Path, name: str, path: Path, size: int = 3 << 30) -> Path:
    """A copy of a program, one of whose sections begins where the copy ends, and has 3 GB."""
    data = bytearray(program.read_bytes())
    _, _, _, _, _, _, table, *_, count, names = _HEADER.unpack_from(data)
    spots = [table + index * _SECTION_HEADER.size for index in range(count)]
    headers = [_SECTION_HEADER.unpack_from(data, each) for each in spots]
    strings_at = headers[names][4]
    for spot, header in zip(spots, headers, strict=True):
        if data[strings_at + header[0] :].startswith(name.encode() + b"\0"):
            changed = (*header[:4], len(data), size, *header[6:])
            _SECTION_HEADER.pack_into(data, spot, *changed)
    with path.open("wb") as file:
        file.write(data)
        file.truncate(len(data) + size)
    path.chmod(0o755)
    return path


KINDS: dict[str, Callable[[Path], Path]] = {
    each.__name__: each for each in (notes, names, debug_link, unwind_table, symbol_tables)
}
"""Each writes a file at a path, and returns that."""
