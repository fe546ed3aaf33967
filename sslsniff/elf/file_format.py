"""The form of ELF files: headers, sections, notes (System V ABI; elf(5))."""

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

MAGIC = b"\x7fELF"
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SEGMENT = struct.Struct("<IIQQQQQQ")
SECTION = struct.Struct("<IIQQQQIIQQ")
RELOCATION = struct.Struct("<QQq")
SLOT_KINDS = (6, 7)
"""R_X86_64_GLOB_DAT and R_X86_64_JUMP_SLOT: the dynamic linker writes a symbol's address."""
PT_LOAD, PT_NOTE, PT_TLS, PT_GNU_EH_FRAME = 1, 4, 7, 0x6474E550
PF_X, PF_W = 1, 2
SHF_COMPRESSED = 0x800
SHT_SYMTAB, SHT_RELA, SHT_NOTE, SHT_DYNSYM, SHT_RELR = 2, 4, 7, 11, 19
SHT_GNU_HASH = 0x6FFFFFF6
MOST_SEGMENTS_BYTES = 1 << 16
"""The kernel loads no file with a larger table of segments (load_elf_phdrs, fs/binfmt_elf.c)."""

_NOTE = struct.Struct("<III")
_NT_GNU_BUILD_ID = 3


def is_elf(file: int) -> bool:
    """Say whether an open file begins as an ELF file does."""
    try:
        return os.pread(file, len(MAGIC), 0) == MAGIC
    except OSError:
        return False


class CodePart(NamedTuple):
    """A segment of code: its offset in the file, its address as linked, and its size."""

    offset: int
    address: int
    size: int


def code_parts(file: int) -> list[CodePart]:
    """Return the segments of code in an open ELF64 file.

    This reads 64 KB of a file at most. A damaged file has none.
    """
    return [
        CodePart(offset, address, size)
        for kind, flags, offset, address, _, size, _, _ in _segments(file)
        if kind == PT_LOAD and flags & PF_X
    ]


def code_spans(file: int) -> list[tuple[int, int]]:
    """Return the file offset and size of each segment of code in an open ELF64 file.

    See ``code_parts``.
    """
    return [(each.offset, each.size) for each in code_parts(file)]


def thread_local_bytes(file: int) -> int:
    """Return the size of an open ELF64 program's thread-local block; 0: it has none.

    On x86-64 the block of the program itself ends where the thread pointer leads to (variant II of
    Ulrich Drepper, "ELF Handling For Thread-Local Storage", section 3).
    """
    for kind, _, _, _, _, _, size, alignment in _segments(file):
        if kind == PT_TLS:
            alignment = max(alignment, 1)
            return int(-(-size // alignment) * alignment)
    return 0


def _segments(file: int) -> Iterator[tuple[int, ...]]:
    """Yield the entries of an open file's table of segments; none if it is damaged."""
    header = os.pread(file, HEADER.size, 0)
    if len(header) < HEADER.size:
        return
    _, _, _, _, _, table_at, _, _, _, _, count, *_ = HEADER.unpack(header)
    if table_at > os.fstat(file).st_size:
        return
    table = os.pread(file, min(count * SEGMENT.size, MOST_SEGMENTS_BYTES), table_at)
    yield from SEGMENT.iter_unpack(table[: len(table) // SEGMENT.size * SEGMENT.size])


def notes(data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield the notes of a section or segment, up to a damaged one: owner, kind, content."""
    at = 0
    while at + _NOTE.size <= len(data):
        name_size, size, kind = _NOTE.unpack_from(data, at)
        name_at = at + _NOTE.size
        content = name_at + (name_size + 3 & ~3)
        at = content + (size + 3 & ~3)
        if content + size <= len(data):
            yield (
                data[name_at : name_at + name_size].rstrip(b"\0"),
                kind,
                data[content : content + size],
            )


def build_id(data: bytes) -> str | None:
    """Return the build id in the notes of a section or segment; None: it has none."""
    found = (each for each in notes(data) if each[:2] == (b"GNU", _NT_GNU_BUILD_ID))
    return next((content.hex() for _, _, content in found), None)
