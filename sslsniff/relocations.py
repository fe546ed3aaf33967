"""Pointers in a file's data: words to which the dynamic linker adds where the file is loaded.

They are what relative relocations name: in tables of entries (RELA; psABI x86-64, 4.4), or in the
form that is short for many of them (RELR; gABI, "Relative relocation table").
"""

from array import array
from collections.abc import Iterator

from sslsniff.elf import Elf

_RELATIVE = 8  # R_X86_64_RELATIVE
_WORD_BYTES = 8
_BITS = 63  # of a RELR word that says which of the following words are pointers


def read_pointers(elf: Elf) -> dict[int, int]:
    """Return the pointers of a file, address -> address that is there, both as linked.

    A table in a place that the file does not have says nothing. Raises ``ElfError``.
    """
    pointers: dict[int, int] = {}
    for table in elf.relocation_tables():
        words = _words(table)
        entries = zip(words[::3], words[1::3], words[2::3], strict=False)
        pointers.update((slot, addend) for slot, info, addend in entries if info == _RELATIVE)
    for table in elf.relative_tables():
        pointers.update(_in_place(elf, table))
    return pointers


def _words(data: bytes) -> "array[int]":
    return array("Q", data[: len(data) // _WORD_BYTES * _WORD_BYTES])


def _in_place(elf: Elf, table: bytes) -> Iterator[tuple[int, int]]:
    """Yield the pointers of a RELR table: their values stand where they are."""
    memory = [(each.address, _words(each.data)) for each in elf.writable()]
    for slot in _slots(_words(table)):
        for address, words in memory:
            index = (slot - address) // _WORD_BYTES
            if 0 <= index < len(words):
                yield slot, words[index]


def _slots(table: "array[int]") -> Iterator[int]:
    base = 0
    for word in table:
        if not word & 1:
            yield word
            base = word + _WORD_BYTES
            continue
        for bit in range(_BITS):
            if word >> 1 + bit & 1:
                yield base + bit * _WORD_BYTES
        base += _BITS * _WORD_BYTES
