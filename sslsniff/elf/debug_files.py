"""Finds separate debug files, which have the symbols of stripped programs.

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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Symbols
from sslsniff.elf.wanted_files import WantedDebugFile
from sslsniff.kernel.regular_files import open_regular

FOLDER = "/usr/lib/debug"

_CHECKSUM = struct.Struct("<I")
_SUPPLEMENTARY = struct.Struct("<HB")
_PIECE_BYTES = 1 << 20
# The checksum is only for files without a build id: no distribution has made these since 2010. The
# largest browsers have debug files of 2 GB.
_LARGEST_CHECKED_BYTES = 256 << 20
_LARGEST_LINK_BYTES = 4096
_BUILD_ID = re.compile(r"[0-9a-f]{4,128}")


class DebugFile(NamedTuple):
    """The path of a debug file, its symbols, and the file itself."""

    path: str
    symbols: Symbols
    elf: Elf


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

    It is one of ``elf.offered``. If these are None, ``elf.opener`` opens it, or this function does,
    and ``elf`` closes it. Sets ``elf.wanted``.
    """
    link = _link(elf)
    elf.wanted = WantedDebugFile(elf.build_id, link and link.name)
    offers = elf.offered
    if offers is None:
        closing = contextlib.ExitStack()
        elf.close_with(closing.close)
        offers = _offers(elf, elf.wanted, closing)
    for path, file in offers:
        found = _read(path, file, elf, link)
        if found is not None:
            return found
    return None


def find_shared(described_by: Elf, program: Elf) -> Elf | None:
    """Return the file with the debug info that several programs share (dwz); None: there is none.

    ``described_by`` names it in .gnu_debugaltlink with its build id, or in .debug_sup of DWARF 5
    with a checksum (section 7.3.6). ``program`` closes it.
    """
    link = shared_link(described_by)
    if link is None:
        return None
    path = Path(described_by.path).parent / link.name
    closing = contextlib.ExitStack()
    program.close_with(closing.close)
    file = open_beside(program, str(path), closing)
    try:
        found = None if file is None else Elf(str(path), file, is_debug=True)
        return found if found and link.checksum in _shared_checksums(found) else None
    except ElfError:
        return None


class SharedLink(NamedTuple):
    """The name of a file with debug info that several programs share, and what it must have."""

    name: str
    checksum: bytes


def shared_link(described_by: Elf) -> SharedLink | None:
    """Return the link to the file that shares debug info with another; None: it has none."""
    section = described_by.section_region(".gnu_debugaltlink")
    if 0 < section.size <= _LARGEST_LINK_BYTES:
        name, _, build_id = section.read(0, section.size).partition(b"\0")
        return SharedLink(os.fsdecode(name), build_id)
    found = _supplementary(described_by)
    return None if found is None or found[0] else found[1]


def _shared_checksums(shared: Elf) -> Iterator[bytes]:
    """Yield what links to a file with shared debug info may have."""
    for each in shared.section_build_ids():
        yield bytes.fromhex(each)
    found = _supplementary(shared)
    if found is not None and found[0]:
        yield found[1].checksum


def _supplementary(elf: Elf) -> tuple[bool, SharedLink] | None:
    """Return whether a file is the shared one, and its link, by .debug_sup; None: it has none."""
    section = elf.section_region(".debug_sup")
    if not _SUPPLEMENTARY.size < section.size <= _LARGEST_LINK_BYTES:
        return None
    data = section.read(0, section.size)
    _, is_shared = _SUPPLEMENTARY.unpack_from(data)
    name, _, rest = data[_SUPPLEMENTARY.size :].partition(b"\0")
    size = rest[0] if rest else 0  # its length is a number of one byte: checksums are short
    return bool(is_shared), SharedLink(os.fsdecode(name), rest[1 : 1 + size])


def of_another_build(elf: Elf) -> str | None:
    """Return the path of a debug file for ``elf`` that is of another build of it; None: none is."""
    if not elf.build_id:
        return None
    with contextlib.ExitStack() as closing:
        wanted = elf.wanted or WantedDebugFile(elf.build_id, None)
        for path, file in _offers(elf, wanted, closing):
            try:
                debug = Elf(path, file, is_debug=True)
                is_other = elf.build_id not in debug.section_build_ids()
            except ElfError:
                continue
            if is_other:
                return path
    return None


def _offers(
    elf: Elf, wanted: WantedDebugFile, closing: contextlib.ExitStack
) -> Sequence[tuple[str, int]]:
    if elf.opener is not None:
        return elf.opener.offers(wanted)
    return open_offers(elf.path, elf.status.st_uid, wanted, closing)


def open_beside(program: Elf, path: str, closing: contextlib.ExitStack) -> int | None:
    """Open a file that only root and the owner of ``program`` can have written; None: none is.

    ``program.opener`` opens and closes it; if there is none, this function opens it, and
    ``closing`` closes it.
    """
    if program.opener is not None:
        return program.opener.trusted(path)
    return open_trusted(path, program.status.st_uid, closing)


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
        if (file := open_trusted(each, owner, closing)) is not None:
            offers.append(Offer(each, file))
    return offers


def open_trusted(path: str, owner: int, closing: contextlib.ExitStack) -> int | None:
    """Open a file that only root and ``owner`` can have written; None: there is no such file."""
    try:
        file = open_regular(path)
    except (OSError, ValueError):
        return None
    closing.callback(os.close, file)
    status = os.fstat(file)
    is_trusted = status.st_uid in {0, owner} and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return file if is_trusted else None


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


def _read(path: str, file: int, elf: Elf, link: _DebugLink | None) -> DebugFile | None:
    """Return the debug file, valid while it is open; None: it is not ``elf``'s."""
    try:
        debug = Elf(path, file, is_debug=True)
        if elf.build_id:
            matches = elf.build_id in debug.section_build_ids()
        else:
            matches = link is not None and _checksum(file) == link.checksum
        symbols = debug.own_symbols() if matches else None
    except (ElfError, OSError):  # it is damaged, or no ELF file
        return None
    return symbols and DebugFile(path, symbols, debug)


def _checksum(file: int) -> int | None:
    size = os.fstat(file).st_size
    if size > _LARGEST_CHECKED_BYTES:
        return None
    checksum = 0
    for at in range(0, size, _PIECE_BYTES):
        checksum = zlib.crc32(os.pread(file, _PIECE_BYTES, at), checksum)
    return checksum
