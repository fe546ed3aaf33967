"""Finds frame descriptions: how each function keeps its caller's frame (DWARF 5, section 6.4).

They are in .eh_frame (LSB 5.0, 10.6), or in .debug_frame, which Go has,
and C without unwind tables.
"""

import struct
from bisect import bisect_right
from functools import cached_property
from typing import NamedTuple

from sslsniff.elf.byte_reader import Bytes, DamagedError
from sslsniff.elf.debug_sections import DebugSections
from sslsniff.elf.elf_file import Elf

_OMITTED = 0xFF
_PC_RELATIVE = 0x10
_SIZES = {0x0: (8, False), 0x2: (2, False), 0x3: (4, False), 0x4: (8, False)} | {
    0xA: (2, True),
    0xB: (4, True),
    0xC: (8, True),
}
_NO_COMMON_ENTRY = 0xFFFFFFFF
_LONGEST = 0xFFFFFFF0
_HEAD = struct.Struct("<IIQQ")


class CommonEntry(NamedTuple):
    """What frame descriptions have in common (CIE).

    ``return_register``: the column of the return address. ``is_signal``: the frame is one that a
    signal interrupted: its caller's address is no return address.
    """

    code_factor: int
    data_factor: int
    return_register: int
    pointer_encoding: int
    has_augmentation: bool
    is_signal: bool
    instructions: bytes


class FrameDescription(NamedTuple):
    """A frame description (FDE) with the address that its function begins at."""

    start: int
    instructions: bytes
    common: CommonEntry


class FrameDescriptions:
    """The frame descriptions of a file.

    The file is the program itself: a separate debug file has no .eh_frame.
    """

    def __init__(self, elf: Elf) -> None:
        self._elf = elf

    def at(self, address: int) -> FrameDescription | None:
        """Return the description for the code at ``address``; None: the file has none.

        Raises ``DamagedError`` or ``struct.error``.
        """
        return self._in_eh_frame(address) or self._in_debug_frame(address)

    def _in_eh_frame(self, address: int) -> FrameDescription | None:
        elf = self._elf
        place = elf.unwind_table.description_of(address)
        base, data = elf.section_address(".eh_frame"), elf.section(".eh_frame")
        if place is None or base is None or data is None or not 0 <= place - base < len(data):
            return None
        source = Bytes(data, place - base)
        end = _end_of_entry(source)
        pointer_at = source.at
        common = _common_entry(Bytes(data, pointer_at - source.fixed(4)))
        start = _pointer(source, common.pointer_encoding, base)
        size = _pointer(source, common.pointer_encoding & 0x0F, 0)
        if not start <= address < start + size:
            return None
        if common.has_augmentation:
            source.block(source.uleb())
        return FrameDescription(start, source.block(end - source.at), common)

    @cached_property
    def _debug_frame(self) -> bytes:
        return DebugSections(self._elf).get("frame")

    @cached_property
    def _debug_descriptions(self) -> list[tuple[int, int, int, int]]:
        """Start and size of each function in .debug_frame, with the places of its two entries."""
        data = self._debug_frame
        found = []
        at = 0
        while at + _HEAD.size <= len(data):
            length, common, start, size = _HEAD.unpack_from(data, at)
            if length >= _LONGEST:
                raise DamagedError
            if common != _NO_COMMON_ENTRY:
                found.append((start, size, at, common))
            at += 4 + length
        return sorted(found)

    def _in_debug_frame(self, address: int) -> FrameDescription | None:
        found = self._debug_descriptions
        index = bisect_right(found, address, key=lambda each: each[0]) - 1
        if index < 0 or address - found[index][0] >= found[index][1]:
            return None
        start, _, at, common = found[index]
        data = self._debug_frame
        source = Bytes(data, at)
        end = _end_of_entry(source)
        return FrameDescription(
            start, data[at + _HEAD.size : end], _common_entry(Bytes(data, common))
        )


def _end_of_entry(source: Bytes) -> int:
    length = source.fixed(4)
    if length == 0xFFFFFFFF:
        length = source.fixed(8)
    if not length or source.at + length > len(source.data):
        raise DamagedError
    return source.at + length


def _common_entry(source: Bytes) -> CommonEntry:
    end = _end_of_entry(source)
    source.fixed(4)  # what says that it is a common entry
    version = source.fixed(1)
    augmentation = source.string()
    if version >= 4:
        source.fixed(2)  # size of addresses and of segment selectors
    code_factor, data_factor = source.uleb(), source.sleb()
    return_register = source.fixed(1) if version == 1 else source.uleb()
    encoding = 0
    if augmentation.startswith(b"z"):
        encoding = _pointer_encoding(augmentation[1:], Bytes(source.block(source.uleb())))
    elif augmentation:
        raise DamagedError
    instructions = source.block(end - source.at)
    is_augmented = augmentation.startswith(b"z")
    return CommonEntry(
        code_factor,
        data_factor,
        return_register,
        encoding,
        is_augmented,
        b"S" in augmentation,
        instructions,
    )


def _pointer_encoding(augmentation: bytes, data: Bytes) -> int:
    """Return how addresses are written, by the letters of an augmentation (LSB 5.0, 10.6.1.1)."""
    for letter in augmentation.decode("ascii", "replace"):
        if letter == "R":
            return data.fixed(1)
        if letter == "P":
            data.fixed(_SIZES.get(data.fixed(1) & 0x0F, (0, False))[0])
        elif letter == "L":
            data.fixed(1)
        elif letter not in "SB":
            raise DamagedError
    return 0


def _pointer(source: Bytes, encoding: int, base: int) -> int:
    """Return an address; ``base`` is that of the section."""
    if encoding == _OMITTED or encoding & 0x0F not in _SIZES:
        raise DamagedError
    at = base + source.at
    size, is_signed = _SIZES[encoding & 0x0F]
    value = int.from_bytes(source.block(size), "little", signed=is_signed)
    return value + at if encoding & 0x70 == _PC_RELATIVE else value
