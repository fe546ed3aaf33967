"""Symbol tables of ELF files: functions by name, by a part of their names, and all of them.

A table is searched for names, never walked: of a program with 300,000 functions few are wanted.
"""

import struct
from array import array
from collections.abc import Iterator
from typing import NamedTuple

# elf(5)
_SYMBOL = struct.Struct("<IBBHQQ")
_NAME = struct.Struct("<I")
_WORDS = _SYMBOL.size // _NAME.size
_STT_FUNC = 2


class Function(NamedTuple):
    """A function's address (as linked) and its length in bytes."""

    address: int
    size: int


class Symbol(NamedTuple):
    """A function and its name, as the symbol table has it; a size of 0 is unknown."""

    name: str
    function: Function


class Symbols(NamedTuple):
    """The bytes of a symbol table, and of the string table that has its names."""

    entries: bytes
    names: bytes

    def function(self, name: str) -> Function | None:
        """Return the function called ``name`` as the table has it; its size may be 0, unknown."""
        # The name may be the end of a longer one: linkers merge them.
        for place in places(self.names, name.encode() + b"\0"):
            for at in places(self.entries, _NAME.pack(place)):
                if at % _SYMBOL.size == 0 and at + _SYMBOL.size <= len(self.entries):
                    found = self._function(at // _SYMBOL.size)
                    if found is not None:
                        return found
        return None

    def functions_with(self, part: bytes) -> Iterator[Symbol]:
        """Yield the functions whose names have ``part`` in them.

        Not those whose names are the ends of others, as mangled names never are.
        """
        wanted = set()
        place = self.names.find(part)
        while place >= 0:
            wanted.add(self.names.rfind(b"\0", 0, place) + 1)
            end = self.names.find(b"\0", place)
            place = self.names.find(part, end) if end >= 0 else -1
        if wanted:
            yield from self._functions(wanted)

    def functions(self) -> Iterator[Symbol]:
        """Yield all functions, in the table's order."""
        yield from self._functions(None)

    def name(self, index: int) -> str | None:
        """Return the name of the symbol with this index; None where there is none."""
        if not 0 < index < len(self.entries) // _SYMBOL.size:
            return None
        name_at, *_ = _SYMBOL.unpack_from(self.entries, index * _SYMBOL.size)
        return self._name(name_at)

    def _name(self, at: int) -> str:
        end = self.names.find(b"\0", at)
        return self.names[at : end if end >= 0 else None].decode("ascii", "replace")

    def _functions(self, names: set[int] | None) -> Iterator[Symbol]:
        whole = len(self.entries) // _SYMBOL.size * _SYMBOL.size
        name_of = array("I", self.entries[:whole])[::_WORDS]
        for index, name_at in enumerate(name_of):
            if names is None or name_at in names:
                function = self._function(index)
                if function is not None:
                    yield Symbol(self._name(name_at), function)

    def _function(self, index: int) -> Function | None:
        """Return the symbol with this index, where it is a function that the file itself has."""
        _, info, _, section, address, size = _SYMBOL.unpack_from(self.entries, index * _SYMBOL.size)
        return Function(address, size) if section and info & 0xF == _STT_FUNC else None


def places(data: bytes, wanted: bytes) -> Iterator[int]:
    """Yield where ``wanted`` stands in ``data``."""
    place = data.find(wanted)
    while place >= 0:
        yield place
        place = data.find(wanted, place + 1)
