"""The memory of a Go program as its linker left it: words, and pointers to an address."""

from collections.abc import Iterator
from functools import cached_property

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.relocations import Pointers, read_pointers

WORD_BYTES = 8

_TYPES = (".go.type", ".data.rel.ro.go.type", ".data.rel.ro", ".rodata")
_DATA = (".go.module", ".noptrdata", ".data")


class Memory:
    """Memory of ``elf``, by addresses as linked."""

    def __init__(self, elf: Elf) -> None:
        self.elf = elf

    @cached_property
    def _pointers(self) -> Pointers:
        return read_pointers(self.elf)

    def word(self, address: int) -> int:
        """Return the word at an address, a pointer as linked; 0 where the file has none."""
        pointer = self._pointers.at(address)
        return self.number(address, WORD_BYTES) if pointer is None else pointer

    def number(self, address: int, size: int) -> int:
        """Return the unsigned number of ``size`` bytes at an address; 0 where there is none."""
        return int.from_bytes(self.elf.data(address, size) or b"", "little")

    def places(self, wanted: bytes) -> Iterator[int]:
        """Yield the addresses of ``wanted`` where the linker puts types and their names."""
        return self._places(_TYPES, wanted)

    def pointers_to(self, address: int) -> Iterator[int]:
        """Yield the addresses of the pointers to ``address``."""
        yield from (slot for slot, _ in self._pointers.to({address}))
        for slot in self._places((*_TYPES, *_DATA), address.to_bytes(WORD_BYTES, "little")):
            if slot % WORD_BYTES == 0:
                yield slot

    def _places(self, sections: tuple[str, ...], wanted: bytes) -> Iterator[int]:
        for name in sections:
            start = self.elf.section_address(name)
            if start is not None:
                yield from (start + at for at in self.elf.section_region(name).places(wanted))
