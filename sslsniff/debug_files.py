"""Separate debug files: the symbols of a program that was stripped of them.

They are looked for where gdb does ("Separate Debug Files" in its manual): by build id under
/usr/lib/debug, else by the name in the section .gnu_debuglink beside the program, in the folder
.debug there, and under /usr/lib/debug. pyelftools reads them: it takes 40 ms to import, and few
programs have one.
"""

import os
import stat
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from sslsniff.elf import Elf
from sslsniff.region import Region
from sslsniff.symbols import Symbols

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

FOLDER = "/usr/lib/debug"

_CHECKSUM = struct.Struct("<I")
_PIECE_BYTES = 1 << 20


class DebugFile(NamedTuple):
    """A debug file and what it says."""

    path: str
    symbols: Symbols


class _Link(NamedTuple):
    """What .gnu_debuglink says: the debug file's name, and the CRC-32 of its bytes."""

    name: str
    checksum: int


def find(elf: Elf) -> DebugFile | None:
    """Return the debug file that belongs to ``elf``; None where there is none, or a damaged one."""
    link = _link(elf)
    for path in _candidates(elf, link):
        try:
            with open(path, "rb", opener=_open) as file:
                if _is_trusted(file, elf) and (symbols := _read(file, elf, link)) is not None:
                    return DebugFile(path, symbols)
        except OSError:
            continue
    return None


def _link(elf: Elf) -> _Link | None:
    content = elf.section(".gnu_debuglink")
    if content is None or len(content) <= _CHECKSUM.size:
        return None
    name = os.fsdecode(content.split(b"\0", 1)[0])
    (checksum,) = _CHECKSUM.unpack(content[-_CHECKSUM.size :])
    return _Link(name, checksum) if name and "/" not in name else None


def _candidates(elf: Elf, link: _Link | None) -> Iterator[str]:
    if elf.build_id:
        yield f"{FOLDER}/.build-id/{elf.build_id[:2]}/{elf.build_id[2:]}.debug"
    if link:
        beside = Path(elf.path).absolute().parent
        for folder in (beside, f"{beside}/.debug", f"{FOLDER}{beside}"):
            yield f"{folder}/{link.name}"


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)


def _is_trusted(file: BinaryIO, elf: Elf) -> bool:
    """Say whether nobody but root and the program's owner can have written a debug file.

    A made-up one could put probes into the middle of instructions of a program of others.
    """
    status = os.fstat(file.fileno())
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_uid in {0, elf.status.st_uid}
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def _read(file: BinaryIO, elf: Elf, link: _Link | None) -> Symbols | None:
    """Return the symbols in an open debug file; None where it is not that of ``elf``."""
    from elftools.elf.elffile import ELFFile

    try:
        debug = ELFFile(file)
        if elf.build_id:
            matches = elf.build_id in _build_ids(debug)
        else:
            matches = link is not None and _checksum(file) == link.checksum
        table = debug.get_section_by_name(".symtab")
        if not matches or table is None:
            return None
        names = debug.get_section(table["sh_link"])
        return Symbols(Region.of(table.data()), Region.of(names.data()))
    except Exception:  # a damaged file: pyelftools raises whatever it stumbles over
        return None


def _build_ids(debug: "ELFFile") -> Iterator[str]:
    from elftools.elf.sections import NoteSection

    for section in debug.iter_sections():
        if isinstance(section, NoteSection):
            for note in section.iter_notes():
                if note["n_type"] == "NT_GNU_BUILD_ID":
                    yield note["n_desc"]


def _checksum(file: BinaryIO) -> int:
    file.seek(0)
    checksum = 0
    while piece := file.read(_PIECE_BYTES):
        checksum = zlib.crc32(piece, checksum)
    return checksum
