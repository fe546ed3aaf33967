"""Finds pointers in the data of a file: words that the dynamic linker relocates.

Relative relocations name them, in tables of entries (RELA; psABI x86-64, 4.4) or in a shorter form
(RELR; gABI, "Relative relocation table").
"""

import operator
from array import array
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator
from itertools import compress, islice

from sslsniff.elf.elf_file import Elf

_RELATIVE = 8  # R_X86_64_RELATIVE
_WORD_BYTES = 8
_WORDS = 3  # in a RELA entry
_BITS = 63  # of a RELR bitmap: a set bit marks one of the following words as a pointer


class Pointers:
    """The pointers of a file: their places (``slots``) and what they point to, all as linked.

    Memory: two words for each pointer; a program of 100 MB has half a million.
    """

    def __init__(self, slots: "array[int]", addresses: "array[int]") -> None:
        if any(map(operator.gt, slots, islice(slots, 1, None))):  # no linker writes them unsorted
            order = sorted(range(len(slots)), key=slots.__getitem__)
            slots = array("Q", map(slots.__getitem__, order))
            addresses = array("Q", map(addresses.__getitem__, order))
        self._slots, self._addresses = slots, addresses

    @property
    def slots(self) -> Iterable[int]:
        """The places of all pointers, in ascending order."""
        return self._slots

    def at(self, slot: int) -> int | None:
        """Return what the pointer at ``slot`` points to; None: there is no pointer."""
        index = bisect_left(self._slots, slot)
        found = index < len(self._slots) and self._slots[index] == slot
        return self._addresses[index] if found else None

    def to(self, addresses: Container[int]) -> Iterator[tuple[int, int]]:
        """Yield the pointers to any of ``addresses``: each one's slot, and the address."""
        for index, address in enumerate(self._addresses):
            if address in addresses:
                yield self._slots[index], address


def read_pointers(elf: Elf) -> Pointers:
    """Return the pointers of a file.

    Pointers outside of the file's memory are left out. Raises ``ElfError``.
    """
    slots, addresses = array("Q"), array("Q")
    for table in elf.relocation_tables():
        words = _words(table, _WORDS)
        relative = [info == _RELATIVE for info in words[1::_WORDS]]
        slots.extend(compress(words[::_WORDS], relative))
        addresses.extend(compress(words[2::_WORDS], relative))
    for table in elf.relative_tables():
        for slot, address in _in_place(elf, table):
            slots.append(slot)
            addresses.append(address)
    return Pointers(slots, addresses)


def _words(data: bytes, each: int = 1) -> memoryview:
    """Return the words of ``data``, without a rest that is no whole entry of ``each`` words."""
    size = each * _WORD_BYTES
    return memoryview(data)[: len(data) // size * size].cast("Q")


def _in_place(elf: Elf, table: bytes) -> Iterator[tuple[int, int]]:
    """Yield the pointers of a RELR table: slots and addresses, which are in the file's data."""
    memory = [(each.address, _words(each.data)) for each in elf.writable()]
    for slot in _slots(_words(table)):
        for address, words in memory:
            index = (slot - address) // _WORD_BYTES
            if 0 <= index < len(words):
                yield slot, words[index]


def _slots(table: Iterable[int]) -> Iterator[int]:
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
