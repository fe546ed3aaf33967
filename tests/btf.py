"""Struct layouts and enums out of a BPF object.

Layouts are in its BTF (kernel's Documentation/bpf/btf.rst). BTF has only the types of variables,
so enums, whose numbers are stored as plain integers, are read from DWARF.
"""

import functools
import struct
from pathlib import Path
from typing import NamedTuple

from elftools.elf.elffile import ELFFile


class Member(NamedTuple):
    offset: int
    size: int


class Struct(NamedTuple):
    size: int
    members: dict[str, Member]


_INT, _PTR, _ARRAY, _STRUCT, _UNION, _ENUM = 1, 2, 3, 4, 5, 6
_EXTRA = {1: 4, 3: 12, 13: 8, 14: 4, 17: 4}  # bytes after a type, by kind
_PER_MEMBER = {4: 12, 5: 12, 6: 8, 13: 8, 15: 12, 19: 12}


def structs(path: Path) -> dict[str, Struct]:
    """Return the named structs that the object at ``path`` has."""
    with path.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".BTF")
        assert section is not None
        data = section.data()
    header_bytes, type_start, type_bytes, string_start, _ = struct.unpack_from("<5I", data, 4)
    strings = data[header_bytes + string_start :]
    types: list[tuple[int, str, int, bytes]] = [(0, "", 0, b"")]
    at, end = header_bytes + type_start, header_bytes + type_start + type_bytes
    while at < end:
        name, info, size = struct.unpack_from("<3I", data, at)
        kind, members = info >> 24 & 0x1F, info & 0xFFFF
        extra = _PER_MEMBER[kind] * members if kind in _PER_MEMBER and kind != 13 else 0
        extra = 8 * members if kind == 13 else extra + (_EXTRA.get(kind, 0))
        types.append((kind, _text(strings, name), size, data[at + 12 : at + 12 + extra]))
        at += 12 + extra

    def size_of(index: int) -> int:
        kind, _, size, extra = types[index]
        if kind == _ARRAY:
            element, _, count = struct.unpack("<3I", extra)
            return size_of(element) * int(count)
        if kind == _PTR:
            return 8
        if kind in (_INT, _STRUCT, _UNION, _ENUM):
            return size
        return size_of(size)  # typedef, const, volatile: the size field is another type

    found = {}
    for kind, name, size, extra in types:
        if kind == _STRUCT and name:
            members = {
                _text(strings, member): Member(bits // 8, size_of(index))
                for member, index, bits in struct.iter_unpack("<3I", extra)
            }
            found[name] = Struct(size, members)
    return found


@functools.cache
def enums(path: Path) -> dict[str, dict[str, int]]:
    """Return the named enums that the code of the object at ``path`` uses: member -> number."""
    found = {}
    with path.open("rb") as file:
        for unit in ELFFile(file).get_dwarf_info().iter_CUs():
            for entry in unit.get_top_DIE().iter_children():
                if entry.tag == "DW_TAG_enumeration_type" and "DW_AT_name" in entry.attributes:
                    found[entry.attributes["DW_AT_name"].value.decode()] = {
                        each.attributes["DW_AT_name"].value.decode(): each.attributes[
                            "DW_AT_const_value"
                        ].value
                        for each in entry.iter_children()
                    }
    return found


def _text(strings: bytes, at: int) -> str:
    return strings[at : strings.index(b"\0", at)].decode()
