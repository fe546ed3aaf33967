"""Searches symbol tables of ELF files: functions by name, by a part of their names, or all.

A table is searched for names, and not read entry by entry: few of a program's 300,000 functions are
wanted. ``demangle`` makes a mangled name readable.
"""

import itertools
import struct
from array import array
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from sslsniff.elf import gnu_hash
from sslsniff.elf.mapped_file import Region

# elf(5)
_SYMBOL = struct.Struct("<IBBHQQ")
_NAME = struct.Struct("<I")
_WORDS = _SYMBOL.size // _NAME.size
_STT_OBJECT, _STT_FUNC, _STT_TLS = 1, 2, 6
_USUAL_NAME_BYTES = 256
# A linker writes each name once; a file with more copies was made to take long.
_MOST_PLACES = 1000


class Function(NamedTuple):
    """A function's address (as linked) and its length in bytes."""

    address: int
    size: int


class Symbol(NamedTuple):
    """A function and its name, as the symbol table has it; a size of 0 is unknown."""

    name: str
    function: Function


class Symbols(NamedTuple):
    """A symbol table.

    ``entries``: the table itself.
    ``names``: the string table with its names.
    ``hashes``: the hash table of the symbols that other files can link with; None: there is none.
    """

    entries: Region
    names: Region
    hashes: Region | None = None

    def function(self, name: str) -> Function | None:
        """Return the function called ``name`` as the table has it; its size may be 0, unknown."""
        if self.hashes is not None:
            indices = gnu_hash.candidates(self.hashes, name)
            named = (self.function_at(each) for each in indices if self.name(each) == name)
            return next(filter(None, named), None)
        # The name may be the end of a longer one: linkers merge such names.
        places = self.names.places(name.encode() + b"\0")
        for place in islice(places, _MOST_PLACES):
            if not place:  # an index of 0 is no name (System V ABI, Symbol Table)
                continue
            for at in self.entries.places(_NAME.pack(place)):
                if at % _SYMBOL.size == 0 and at + _SYMBOL.size <= self.entries.size:
                    found = _function(self.entries.read(at, _SYMBOL.size))
                    if found is not None:
                        return found
        return None

    def indices(self, name: str) -> Iterator[int]:
        """Yield the indices of the symbols called ``name``, defined or not."""
        for place in islice(self.names.places(name.encode() + b"\0"), _MOST_PLACES):
            for at in self.entries.places(_NAME.pack(place)) if place else ():
                if at % _SYMBOL.size == 0:
                    yield at // _SYMBOL.size

    def functions_with(self, *parts: bytes) -> Iterator[Symbol]:
        """Yield the functions whose names contain one of ``parts``.

        Names that a linker merged as the end of another are not found; mangled names never are.
        """
        wanted = {self._start(place) for part in parts for place in self.names.places(part)}
        if wanted:
            yield from self._functions(wanted)

    def variable(self, name: str) -> int | None:
        """Return the address of the variable called ``name``; None: there is none."""
        wanted = {self._start(place) for place in self.names.places(name.encode() + b"\0")}
        found = self._functions(wanted, _STT_OBJECT) if wanted else ()
        return next((each.function.address for each in found if each.name == name), None)

    def thread_locals_with(self, part: bytes) -> Iterator[Symbol]:
        """Yield the thread-local variables whose names contain ``part``.

        Their addresses are offsets from the beginning of the file's thread-local block.
        """
        wanted = {self._start(place) for place in self.names.places(part)}
        if wanted:
            yield from self._functions(wanted, _STT_TLS)

    def functions(self) -> Iterator[Symbol]:
        """Yield all functions, in the table's order."""
        names = Region.of(self.names.read(0, self.names.size))
        yield from self._replace(names=names)._functions(None)

    def name(self, index: int) -> str | None:
        """Return the name of the symbol with this index; None: there is no such symbol."""
        if not 0 < index < self.entries.size // _SYMBOL.size:
            return None
        (name_at,) = _NAME.unpack(self.entries.read(index * _SYMBOL.size, _NAME.size))
        return self._name(name_at)

    def function_at(self, index: int) -> Function | None:
        """Return the function whose symbol has this index; None: it is no function of this file."""
        if not 0 < index < self.entries.size // _SYMBOL.size:
            return None
        return _function(self.entries.read(index * _SYMBOL.size, _SYMBOL.size))

    def _start(self, place: int) -> int:
        """Return where the name begins that ``place`` is in."""
        while place > 0:
            size = min(place, _USUAL_NAME_BYTES)
            place -= size
            if (end := self.names.read(place, size).rfind(b"\0")) >= 0:
                return place + end + 1
        return 0

    def _name(self, at: int) -> str:
        data = b""
        while b"\0" not in data and at + len(data) < self.names.size:
            more = min(_USUAL_NAME_BYTES, self.names.size - at - len(data))
            data += self.names.read(at + len(data), more)
        return data.partition(b"\0")[0].decode("ascii", "replace")

    def _functions(self, names: set[int] | None, kind: int = _STT_FUNC) -> Iterator[Symbol]:
        for _, piece in self.entries.pieces():
            entries = piece[: len(piece) // _SYMBOL.size * _SYMBOL.size]
            name_of = array("I", entries)[::_WORDS]
            for index, name_at in enumerate(name_of):
                if names is None or name_at in names:
                    function = _function(entries, index * _SYMBOL.size, kind)
                    if function is not None:
                        yield Symbol(self._name(name_at), function)


class ProvedFunctions:
    """Functions that have no symbols, by the names that something else proves."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = dict(functions)

    def function(self, name: str) -> Function | None:
        """Return the function called ``name``; None: there is none."""
        return self._functions.get(name)

    def functions_with(self, *parts: bytes) -> Iterator[Symbol]:
        """Yield the functions whose names contain one of ``parts``."""
        wanted = [each.decode("ascii", "replace") for each in parts]
        return (each for each in self.functions() if any(part in each.name for part in wanted))

    def functions(self) -> Iterator[Symbol]:
        """Yield all functions."""
        return itertools.starmap(Symbol, self._functions.items())


def _function(entries: bytes, at: int = 0, kind: int = _STT_FUNC) -> Function | None:
    """Return the function of the entry ``at`` an offset; None: it is no function of this file."""
    _, info, _, section, address, size = _SYMBOL.unpack_from(entries, at)
    return Function(address, size) if section and info & 0xF == kind else None


def demangle(name: str) -> str | None:
    """Return a Rust name demangled, without its hash; None: ``name`` is no Rust name.

    Both schemes: legacy (``_ZN...17h<hash>E``) and v0 (``_R...``, RFC 2603).
    """
    import pyderust  # only this function needs it

    if not name.startswith(("_ZN", "_R")):
        return None
    try:
        return pyderust.demangle(name)
    except pyderust.DemangleError:
        return None
