"""The names of a Go program's types, from what its file has of them for the runtime."""

import struct

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.mapped_file import FileMemory
from sslsniff.functions.values.fetch_program import RuntimeTypeName

# src/internal/abi/type.go: Type has flags, its kind, and the offset of its name from where types
# begin, which is the start of their section. A name has flags and its length before the text.
_FLAGS_AT, _KIND_AT, _NAME_AT, _TYPE_BYTES = 20, 23, 40, 48
_HAS_EXTRA_STAR = 1 << 1
_KIND_BITS = 0x1F
_SECTIONS = (".go.type", ".data.rel.ro.go.type", ".data.rel.ro", ".rodata")
_LONGEST_NAME_BYTES = 1024


class GoTypeNames:
    """The names of the types of a Go program; ``elf`` may be closed afterwards."""

    def __init__(self, elf: Elf) -> None:
        self._known: dict[int, RuntimeTypeName | None] = {}
        self._sections = [
            FileMemory(start, elf.section(each) or b"")
            for each in _SECTIONS
            if (start := elf.section_address(each)) is not None
        ]

    def at(self, address: int) -> RuntimeTypeName | None:
        """Return the name of the type at a linked address; None: there is none."""
        if address not in self._known:
            self._known[address] = self._read(address)
        return self._known[address]

    def _read(self, address: int) -> RuntimeTypeName | None:
        for start, data in self._sections:
            if start <= address <= start + len(data) - _TYPE_BYTES:
                return _type_name(data, address - start)
        return None


def _type_name(data: bytes, at: int) -> RuntimeTypeName | None:
    """Return the name of the type at offset ``at`` of a section."""
    (name_at,) = struct.unpack_from("<i", data, at + _NAME_AT)
    head = data[name_at : name_at + 3]
    if name_at < 0 or len(head) != 3:
        return None
    size, text_at = head[1] & 0x7F, name_at + 2
    if head[1] >> 7:
        size, text_at = size | head[2] << 7, name_at + 3
    elif not size:  # up to Go 1.16: two bytes, of which the first is 0
        size, text_at = head[2], name_at + 3
    name = data[text_at : text_at + size].decode("utf-8", "replace")
    if not 0 < size <= _LONGEST_NAME_BYTES or not name.isprintable():
        return None
    if data[at + _FLAGS_AT] & _HAS_EXTRA_STAR:
        name = name[1:]
    return RuntimeTypeName(name, data[at + _KIND_AT] & _KIND_BITS)
