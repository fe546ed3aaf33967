"""Finds a symbol by the table that the dynamic linker uses: .gnu.hash.

A missing name costs one read. A search in the string table would read all of it. The hash table has
a Bloom filter, buckets, and for each bucket a chain of the hashes of its symbols. It has the
symbols that other files can link with, and not those that the file only refers to (glibc:
elf/dl-lookup.c, do_lookup_x).
"""

import struct
from collections.abc import Iterator

from sslsniff.elf.mapped_file import Region

_HEADER = struct.Struct("<IIII")
_WORD = struct.Struct("<Q")
_ENTRY = struct.Struct("<I")
_WORD_BITS = 64
_LONGEST_CHAIN = 1024


def candidates(table: Region, name: str) -> Iterator[int]:
    """Yield the indices of the symbols that may be called ``name``: hashes can collide.

    Raises ``ElfError`` if the file ends within the table.
    """
    if table.size < _HEADER.size:
        return
    buckets, first, words, shift = _HEADER.unpack(table.read(0, _HEADER.size))
    buckets_at = _HEADER.size + words * _WORD.size
    chains_at = buckets_at + buckets * _ENTRY.size
    if not (buckets and words) or chains_at > table.size:
        return
    wanted = _hash(name)
    if not _may_have(table, wanted, words, shift):
        return
    index = _entry(table, buckets_at + wanted % buckets * _ENTRY.size)
    for at in range(max(index, first), index + _LONGEST_CHAIN):
        place = chains_at + (at - first) * _ENTRY.size
        if place + _ENTRY.size > table.size:
            return
        found = _entry(table, place)
        if found | 1 == wanted | 1:
            yield at
        if found & 1:  # the last of this bucket
            return


def _may_have(table: Region, wanted: int, words: int, shift: int) -> bool:
    at = _HEADER.size + wanted // _WORD_BITS % words * _WORD.size
    (word,) = _WORD.unpack(table.read(at, _WORD.size))
    bits = 1 << wanted % _WORD_BITS | 1 << (wanted >> min(shift, _WORD_BITS)) % _WORD_BITS
    return bool(word & bits == bits)


def _entry(table: Region, at: int) -> int:
    (entry,) = _ENTRY.unpack(table.read(at, _ENTRY.size))
    return int(entry)


def _hash(name: str) -> int:
    value = 5381
    for byte in name.encode():
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value
