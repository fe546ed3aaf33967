"""Reads the sections of a file's debug info, and decompresses them."""

import struct
import zlib
from collections.abc import Callable, Mapping
from typing import TypeVar

from sslsniff.elf.byte_reader import Bytes, DamagedError, reading
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.mapped_file import Region

_COMPRESSION = struct.Struct("<IIQQ")
_ELFCOMPRESS_ZLIB, _ELFCOMPRESS_ZSTD = 1, 2
_GNU_COMPRESSION = struct.Struct(">4sQ")
# zlib makes at most 1,032 bytes of one, and debug info shrinks to a third: more is a bomb.
_LARGEST_BYTES = 8 << 30
_MOST_EXPANSION = 1040
# Most lists are shorter.
_FIRST_PART_BYTES = 1024
_LARGEST_LIST_BYTES = 4 << 20  # of all functions of a unit
_Found = TypeVar("_Found")


class DebugSections:
    """The ``.debug_*`` sections of an open file.

    ``suffix``: ends their names, ``.dwo`` in a .dwo. ``shared``: the sections of the file that has
    what several programs have in common (dwz); None: there is none.
    """

    def __init__(self, elf: Elf, suffix: str = "") -> None:
        self.elf = elf
        self._suffix = suffix
        self.shared: DebugSections | None = None
        self._read: dict[str, bytes] = {}
        self._regions: dict[str, Region | None] = {}

    def get(self, name: str) -> bytes:
        """Return the bytes of ``.debug_<name>``; none if there is no such section.

        Raises ``DamagedError`` if it cannot be decompressed, and ``ElfError``.
        """
        if name not in self._read:
            self._read[name] = self._load(name)
        return self._read[name]

    def size(self, name: str) -> int:
        """Return a section's size, and load it if it is compressed; raises what ``get`` does."""
        plain = self._plain(name)
        return len(self.get(name)) if plain is None else plain.size

    def part(self, name: str, offset: int, size: int) -> bytes:
        """Return ``size`` bytes of a section, or fewer at its end, and load no more than these.

        A section that is compressed is loaded. Raises what ``get`` does.
        """
        section = None if name in self._read else self._plain(name)
        if section is None:
            return self.get(name)[offset : offset + size]
        return section.read(offset, max(min(size, section.size - offset), 0))

    def _plain(self, name: str) -> Region | None:
        """Return a section that is not compressed, and the only one; None: it is, or is missing."""
        if name not in self._regions:
            full_name = f".debug_{name}{self._suffix}"
            sections = self.elf.section_regions(full_name)
            is_plain = len(sections) == 1 and not self.elf.is_compressed(full_name)
            self._regions[name] = sections[0] if is_plain and sections[0].size else None
        return self._regions[name]

    def read_list(self, name: str, offset: int, read: Callable[[bytes], _Found]) -> _Found:
        """Return what ``read`` makes of a section's bytes from ``offset`` on, of unknown length."""
        size = _FIRST_PART_BYTES
        while True:
            data = self.part(name, offset, size)
            try:
                with reading:
                    return read(data)
            except DamagedError:
                if len(data) < size or size > _LARGEST_LIST_BYTES:
                    raise
                size *= 8

    def _load(self, name: str) -> bytes:
        full_name = f".debug_{name}{self._suffix}"
        sections = [each.read(0, each.size) for each in self.elf.section_regions(full_name)]
        if any(sections):
            # A .dwo has a section for each type unit (-fdebug-types-section).
            is_compressed = self.elf.is_compressed(full_name)
            return b"".join(_decompressed(each) if is_compressed else each for each in sections)
        old = self.elf.section_region(f".zdebug_{name}{self._suffix}")
        return _decompressed_gnu(old.read(0, old.size)) if old.size else b""

    def string(self, section: str, offset: int) -> bytes:
        """Return a string of a section of strings; raises ``DamagedError``."""
        return Bytes(self.get(section), offset).string()


class SectionParts(DebugSections):
    """What belongs to one unit of ``whole``, the sections of a package or of another file.

    ``parts``: offset and size of what the unit has of the sections in which units share a package.
    ``has_types``: its description is in .debug_types, not in .debug_info.
    """

    def __init__(
        self,
        whole: DebugSections,
        parts: Mapping[str, tuple[int, int]] | None = None,
        *,
        has_types: bool = False,
    ) -> None:
        super().__init__(whole.elf)
        self.shared = whole.shared
        self._whole = whole
        self._parts = parts or {}
        self._names = {"info": "types"} if has_types else {}

    def size(self, name: str) -> int:
        """Return a section's size; raises what ``get`` does."""
        part = self._parts.get(name)
        return self._whole.size(self._names.get(name, name)) if part is None else part[1]

    def part(self, name: str, offset: int, size: int) -> bytes:
        """Return ``size`` bytes of what the unit has of a section, or fewer at its end."""
        at, most = self._parts.get(name, (0, None))
        if most is not None:
            size = max(min(size, most - offset), 0)
        return self._whole.part(self._names.get(name, name), at + offset, size)

    def _load(self, name: str) -> bytes:
        if name in self._parts:
            return self.part(name, 0, self._parts[name][1])
        return self._whole.get(self._names.get(name, name))


def _decompressed(data: bytes) -> bytes:
    """Return the bytes of a section with SHF_COMPRESSED (System V ABI, 2015)."""
    if len(data) < _COMPRESSION.size:
        raise DamagedError
    kind, _, size, _ = _COMPRESSION.unpack_from(data)
    return _expanded(memoryview(data)[_COMPRESSION.size :], kind, size)


def _decompressed_gnu(data: bytes) -> bytes:
    """Return the bytes of a section that is called ``.zdebug_...``."""
    if len(data) < _GNU_COMPRESSION.size:
        raise DamagedError
    magic, size = _GNU_COMPRESSION.unpack_from(data)
    if magic != b"ZLIB":
        raise DamagedError
    return _expanded(memoryview(data)[_GNU_COMPRESSION.size :], _ELFCOMPRESS_ZLIB, size)


def _expanded(data: memoryview, kind: int, size: int) -> bytes:
    if size > _LARGEST_BYTES or (kind == _ELFCOMPRESS_ZLIB and size > len(data) * _MOST_EXPANSION):
        raise DamagedError
    try:
        if kind == _ELFCOMPRESS_ZLIB:
            found = zlib.decompressobj().decompress(data, size)
        elif kind == _ELFCOMPRESS_ZSTD:
            import zstandard

            found = zstandard.ZstdDecompressor().stream_reader(data).read(size)
        else:
            raise DamagedError
    except (zlib.error, ValueError, RuntimeError, ImportError) as error:
        raise DamagedError from error
    if len(found) != size:
        raise DamagedError
    return found
