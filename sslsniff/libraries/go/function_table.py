"""The functions of a Go program, by the table that its tracebacks use: stripped ones have it, too.

Its form is that of Go 1.16 and later (src/debug/gosym/pclntab.go, src/runtime/symtab.go).
"""

import struct
from array import array
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.mapped_file import Region
from sslsniff.elf.symbols import Function, Symbol
from sslsniff.libraries.go.memory import WORD_BYTES, Memory

SECTIONS = (".gopclntab", ".data.rel.ro.gopclntab", ".data.rel.ro")
"""Where the table is: in a section of its own, unless the C linker made the program
(cmd/link/internal/ld/data.go)."""

_MAGIC = struct.Struct("<I")
# The header after its first byte: all forms have it on x86-64, where code has units of one byte.
_HEADER = b"\xff\xff\xff\0\0\x01\x08"
_WORDS_AT = 8
_ARGUMENT_BYTES = struct.Struct("<4xi")  # runtime._func.args, after nameOff
_LONGEST_NAME_BYTES = 512
_MOST_FUNCTIONS = 1 << 22
_MOST_DESCRIPTION_BYTES = 256
_NO_FILE = 0xFFFFFFFF
# Of the module's data (runtime.moduledata): a pointer to the header, six slices, a pointer.
_LOWEST_PC_AT = (1 + 6 * 3 + 1) * WORD_BYTES
_FUNCTION_DATA_AT = (38 * WORD_BYTES, 40 * WORD_BYTES, 43 * WORD_BYTES)
"""Where data of functions begins (gofunc): up to Go 1.19, up to 1.26, and since 1.27."""
_MOST_TEXT_SECTIONS = 1 << 16


class _TableForm(NamedTuple):
    """A form of the table.

    ``words`` are those of the header up to the table's start. An entry is two numbers of
    ``number_bytes``: where a function begins, and where its description is, which begins with a
    number as large, then the offset of its name. ``is_relative``: functions begin so far after the
    program's text. ``has_first_lines``: descriptions have the line where a function begins.
    """

    words: int
    number_bytes: int
    is_relative: bool
    has_first_lines: bool


_FORMS = {
    0xFFFFFFFA: _TableForm(7, 8, is_relative=False, has_first_lines=False),  # 1.16
    0xFFFFFFF0: _TableForm(8, 4, is_relative=True, has_first_lines=False),  # 1.18
    0xFFFFFFF1: _TableForm(8, 4, is_relative=True, has_first_lines=True),  # 1.20
}


class GoDescription(NamedTuple):
    """A function's description in the table, as bytes from its name on.

    ``address``: of these bytes. ``start``: where the function begins. ``has_first_line``: it has
    the line of that. ``has_pointers``: to further data, in place of offsets.
    """

    address: int
    start: int
    content: bytes
    has_first_line: bool
    has_pointers: bool


class GoFunctions:
    """The functions of the program in ``memory``. Raises ``ElfError`` if their table is damaged."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        elf = memory.elf
        self._address, self._table = _find_table(elf)
        form = _FORMS.get(_MAGIC.unpack(self._read(0, _MAGIC.size))[0])
        if form is None:
            raise ElfError(
                f"{elf.path} has a table of Go functions in a form that is not known",
                "update sslsniff",
            )
        self._form = form
        words = struct.unpack(f"<{form.words}Q", self._read(_WORDS_AT, form.words * WORD_BYTES))
        self._count, self._entries_at = words[0], words[-1]
        self._names_at, self._units_at, self._files_at, self._values_at = words[-5:-1]
        if self._count > _MOST_FUNCTIONS or self._names_at > self._units_at:
            raise _damaged(elf.path)

    def function(self, name: str) -> Function | None:
        """Return the function called ``name``; None where there is none."""
        names = _part(self._table, self._names_at, self._units_at)
        for place in names.places(b"\0" + name.encode() + b"\0"):
            index = self._index_of_name(place + 1)
            if index is not None:
                start = self._start(index)
                return Function(start, self._start(index + 1) - start)
        return None

    def name_at(self, address: int) -> str | None:
        """Return the name of the function that begins at ``address``; None where none does."""
        low, high = 0, self._count
        while low < high:
            middle = (low + high) // 2
            if self._start(middle) < address:
                low = middle + 1
            else:
                high = middle
        if low == self._count or self._start(low) != address:
            return None
        return self._name(low)

    def functions(self) -> Iterator[Symbol]:
        """Yield all functions, in the order of their addresses."""
        for index in range(self._count):
            start = self._start(index)
            yield Symbol(self._name(index), Function(start, self._start(index + 1) - start))

    def _name(self, index: int) -> str:
        description = self._entries_at + self._descriptions[index]
        return self.name_of(self._number(description + self._form.number_bytes))

    def name_of(self, name_at: int) -> str:
        """Return the name at an offset of the names."""
        start = self._names_at + name_at
        name = self._read(start, min(_LONGEST_NAME_BYTES, self._table.size - start))
        return name.partition(b"\0")[0].decode("utf-8", "replace")

    def description_around(self, address: int) -> GoDescription | None:
        """Return the description of the function that ``address`` is in; None: it is in none."""
        low, high = 0, self._count + 1
        while low < high:
            middle = (low + high) // 2
            if self._start(middle) <= address:
                low = middle + 1
            else:
                high = middle
        if not 0 < low <= self._count:
            return None
        at = self._entries_at + self._descriptions[low - 1] + self._form.number_bytes
        content = self._read(at, min(_MOST_DESCRIPTION_BYTES, self._table.size - at))
        return GoDescription(
            self._address + at,
            self._start(low - 1),
            content,
            self._form.has_first_lines,
            not self._form.is_relative,
        )

    def argument_bytes(self, address: int) -> int | None:
        """Return the size of the arguments and results of the function at ``address``.

        With room for those in registers. None: there is no function, or it does not say.
        """
        described = self.description_around(address)
        if described is None or len(described.content) < _ARGUMENT_BYTES.size:
            return None
        (size,) = _ARGUMENT_BYTES.unpack_from(described.content)
        return int(size) if size >= 0 else None

    @cached_property
    def values(self) -> bytes:
        """The tables of values by address (pctab), which descriptions have offsets of."""
        return self._read(self._values_at, self._entries_at - self._values_at)

    def file_of(self, unit: int, number: int) -> str:
        """Return the path of a unit's source file with a number."""
        at = self._number(self._units_at + 4 * (unit + number))
        if at == _NO_FILE:
            return "?"
        start = self._files_at + at
        path = self._read(start, min(_LONGEST_NAME_BYTES, self._table.size - start))
        return path.partition(b"\0")[0].decode("utf-8", "replace")

    @cached_property
    def function_data(self) -> int | None:
        """The address from which descriptions count that of further data; None: unknown."""
        if not self._form.is_relative:
            return None
        places = [module + at for module in self._modules() for at in _FUNCTION_DATA_AT]
        found = next(filter(self._is_function_data, places), None)
        return None if found is None else self._memory.word(found)

    def _is_function_data(self, at: int) -> bool:
        """Say whether the module's data has ``gofunc`` at an address.

        It is after the start of read-only data. The end of the table follows, and, in all releases,
        a slice of the sections with code.
        """
        word = self._memory.word
        table = range(self._address + self._entries_at, self._address + self._table.size + 1)
        slice_at = at + WORD_BYTES * (2 if word(at + WORD_BYTES) in table else 1)
        count, room = word(slice_at + WORD_BYTES), word(slice_at + 2 * WORD_BYTES)
        return 0 < count == room < _MOST_TEXT_SECTIONS and 0 < word(at - WORD_BYTES) <= word(at)

    @cached_property
    def _numbers(self) -> "array[int]":
        """The entries: where each function begins, and where its description is."""
        size = self._form.number_bytes
        numbers = array("Q" if size == WORD_BYTES else "I")
        numbers.frombytes(self._read(self._entries_at, (2 * self._count + 1) * size))
        return numbers

    @cached_property
    def _descriptions(self) -> "array[int]":
        return self._numbers[1::2]

    @cached_property
    def _text(self) -> int:
        """Where the program's text begins.

        The header says so up to Go 1.25, the module's data always: what it has as lowest place is
        the first function.
        """
        for module in self._modules():
            return self._memory.word(module + _LOWEST_PC_AT) - self._numbers[0]
        raise _damaged(self._memory.elf.path)

    def _modules(self) -> Iterator[int]:
        """Yield where the module's data is."""
        for slot in self._memory.pointers_to(self._address):
            lowest = self._memory.word(slot + _LOWEST_PC_AT)
            highest = self._memory.word(slot + _LOWEST_PC_AT + WORD_BYTES)
            if highest - lowest == self._numbers[-1] - self._numbers[0]:
                yield slot

    def _start(self, index: int) -> int:
        if self._form.is_relative:
            return self._text + self._numbers[2 * index]
        entry_bytes = 2 * self._form.number_bytes
        return self._memory.word(self._address + self._entries_at + index * entry_bytes)

    def _index_of_name(self, name_at: int) -> int | None:
        """Return the index of the function whose name is at an offset of the names."""
        descriptions = _part(self._table, self._entries_at, self._table.size)
        for place in descriptions.places(_MAGIC.pack(name_at)):
            try:
                return self._descriptions.index(place - self._form.number_bytes)
            except (ValueError, OverflowError):
                continue
        return None

    def _number(self, at: int) -> int:
        return int(_MAGIC.unpack(self._read(at, _MAGIC.size))[0])

    def _read(self, at: int, size: int) -> bytes:
        if at < 0 or at + size > self._table.size:
            raise _damaged(self._memory.elf.path)
        return self._table.read(at, size)


def _find_table(elf: Elf) -> tuple[int, Region]:
    """Return the table's address, and what begins there. Raises ``ElfError``: there is none."""
    for name in SECTIONS:
        section = elf.section_region(name)
        for at in section.places(_HEADER):
            address = (elf.section_address(name) or 0) + at - 1
            if at >= 1 and address % WORD_BYTES == 0:
                return address, _part(section, at - 1, section.size)
    raise _damaged(elf.path)


def _part(region: Region, start: int, end: int) -> Region:
    return Region(end - start, lambda at, size: region.read(start + at, size))


def _damaged(path: str) -> ElfError:
    return ElfError(f"{path} has no whole table of its Go functions", "build it again")
