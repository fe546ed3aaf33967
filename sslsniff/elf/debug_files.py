"""Separate debug files: the symbols of a stripped program.

They are searched where gdb does ("Separate Debug Files" in its manual): by build id under
/usr/lib/debug; else by the name in the section .gnu_debuglink, in the program's folder, in .debug
there, and under /usr/lib/debug.
"""

import contextlib
import os
import re
import stat
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sslsniff.elf.elf_file import Elf, WantedDebugFile
from sslsniff.elf.symbols import Symbols
from sslsniff.errors import ElfError
from sslsniff.kernel.regular_files import open_regular

FOLDER = "/usr/lib/debug"

_CHECKSUM = struct.Struct("<I")
_PIECE_BYTES = 1 << 20
# The checksum is only for files without a build id: no distribution has made these since 2010. The
# largest browsers have debug files of 2 GB.
_LARGEST_CHECKED_BYTES = 256 << 20
_LARGEST_LINK_BYTES = 4096
_BUILD_ID = re.compile(r"[0-9a-f]{4,128}")


class DebugFile(NamedTuple):
    """The path of a debug file, and its symbols."""

    path: str
    symbols: Symbols


class Offer(NamedTuple):
    """An open file that may be a program's debug file; root or the program's owner wrote it."""

    path: str
    file: int


class _DebugLink(NamedTuple):
    """The contents of .gnu_debuglink: the debug file's name, and the CRC-32 of its bytes."""

    name: str
    checksum: int


def find(elf: Elf) -> DebugFile | None:
    """Return the debug file of ``elf``; None: there is none, or it is damaged.

    It is one of ``elf.offered``. If these are None, this function opens it, and ``elf`` closes it.
    Sets ``elf.wanted``.
    """
    link = _link(elf)
    elf.wanted = WantedDebugFile(elf.build_id, link and link.name)
    offers = elf.offered
    if offers is None:
        closing = contextlib.ExitStack()
        elf.close_with(closing.close)
        offers = open_offers(elf.path, elf.status.st_uid, elf.wanted, closing)
    for path, file in offers:
        symbols = _read(path, file, elf, link)
        if symbols is not None:
            return DebugFile(path, symbols)
    return None


def open_offers(
    path: str, owner: int, wanted: WantedDebugFile, closing: contextlib.ExitStack
) -> list[Offer]:
    """Open the files that may be the debug file of the one at ``path``, which belongs to ``owner``.

    Only root and the owner can have written them: a forged one could put probes into the middle of
    instructions of another user's program. ``wanted`` need not be trusted. ``closing`` closes the
    files.
    """
    offers = []
    for each in _places(path, wanted):
        try:
            file = open_regular(each)
        except (OSError, ValueError):
            continue
        closing.callback(os.close, file)
        status = os.fstat(file)
        if status.st_uid in {0, owner} and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            offers.append(Offer(each, file))
    return offers


def _link(elf: Elf) -> _DebugLink | None:
    section = elf.section_region(".gnu_debuglink")
    if not _CHECKSUM.size < section.size <= _LARGEST_LINK_BYTES:
        return None
    content = section.read(0, section.size)
    name = os.fsdecode(content.split(b"\0", 1)[0])
    (checksum,) = _CHECKSUM.unpack(content[-_CHECKSUM.size :])
    return _DebugLink(name, checksum) if _is_name(name) else None


def _is_name(name: str) -> bool:
    return bool(name) and "/" not in name and "\0" not in name


def _places(path: str, wanted: WantedDebugFile) -> Iterator[str]:
    build_id, name = wanted
    if build_id and _BUILD_ID.fullmatch(build_id):
        yield f"{FOLDER}/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
    if name and _is_name(name):
        beside = Path(path).absolute().parent
        for folder in (beside, f"{beside}/.debug", f"{FOLDER}{beside}"):
            yield f"{folder}/{name}"


def _read(path: str, file: int, elf: Elf, link: _DebugLink | None) -> Symbols | None:
    """Return the symbols in a debug file, valid while it is open; None: it is not ``elf``'s."""
    try:
        debug = Elf(path, file, is_debug=True)
        if elf.build_id:
            matches = elf.build_id in debug.section_build_ids()
        else:
            matches = link is not None and _checksum(file) == link.checksum
        return debug.own_symbols() if matches else None
    except (ElfError, OSError):  # it is damaged, or no ELF file
        return None


def _checksum(file: int) -> int | None:
    size = os.fstat(file).st_size
    if size > _LARGEST_CHECKED_BYTES:
        return None
    checksum = 0
    for at in range(0, size, _PIECE_BYTES):
        checksum = zlib.crc32(os.pread(file, _PIECE_BYTES, at), checksum)
    return checksum
