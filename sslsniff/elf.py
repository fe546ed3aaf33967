"""ELF files as far as probing needs them: symbols by name, build id, addresses to offsets.

Only ELF64 for x86-64 and aarch64. Every file that a process maps is looked at on the way to the
first probe, so the few tables are read with ``struct`` (0.1 ms a file; pyelftools takes 3 to 15 ms,
and 40 to import), and symbols are found by a search for their names: walking 75,000 of them takes
seconds. Files are read, not mapped: one that is cut short meanwhile must not end sslsniff with a
SIGBUS. What is searched is read in pieces: of Node.js it is 100 MB.
"""

import os
import stat
import struct
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple, Self

from sslsniff.eh_frame import NO_UNWIND_TABLE, UnwindTable
from sslsniff.errors import ElfError
from sslsniff.region import Region
from sslsniff.symbols import Function, Symbol, Symbols

# System V ABI and elf(5)
_MAGIC = b"\x7fELF"
_CLASS_64 = 2
_LITTLE_ENDIAN = 1
_MACHINES = {62: "x86-64", 183: "aarch64"}
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_NOTE = struct.Struct("<III")
_PT_LOAD, _PT_NOTE, _PT_GNU_EH_FRAME = 1, 4, 0x6474E550
_PF_X, _PF_W = 1, 2
_RELOCATION = struct.Struct("<QQq")
_SHT_SYMTAB, _SHT_RELA, _SHT_DYNSYM, _SHT_RELR = 2, 4, 11, 19
_NT_GNU_BUILD_ID = 3
_LONGEST_INSTRUCTION_BYTES = 15
_FOREIGN = {3: "32-bit x86", 40: "32-bit ARM", 243: "RISC-V"}

_REMEDY = "name an x86-64 program or shared library"


class _Part(NamedTuple):
    """Where a segment or section stands in the file, and where in memory as linked."""

    offset: int
    address: int
    size: int


class Memory(NamedTuple):
    """What a file has for memory: the address as linked, and the bytes."""

    address: int
    data: bytes


class _Section(NamedTuple):
    """A section; ``name`` is an offset, ``link`` the index of a section that belongs to it."""

    name: int
    kind: int
    link: int
    part: _Part


class Elf:
    """An open ELF file; a context manager.

    ``status`` is what fstat says of it, ``machine`` what it is for ("x86-64", "aarch64"),
    ``debug_file`` where symbols were found that it has not itself. ``handle``, if given, is the
    path to open it by, and ``path`` only its name. Raises ``ElfError`` where the file is not one
    for which there are sites, or is cut off.
    """

    def __init__(self, path: str, handle: str | None = None) -> None:
        self.path = path
        try:
            # Not to wait for the other end of a FIFO.
            self._fd = os.open(handle or path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise ElfError(f"cannot read {path} ({error.strerror})", _REMEDY) from error
        try:
            self.status = os.fstat(self._fd)
            if not stat.S_ISREG(self.status.st_mode):
                raise ElfError(f"{path} is not a file", _REMEDY)
            self._size = self.status.st_size
            self._read_headers()
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
        # By the unwind table this refers to itself: all that was read would stay until Python's
        # collector of such circles comes by.
        self._parts.clear()
        self.__dict__.pop("unwind_table", None)

    def _read(self, offset: int, size: int) -> bytes:
        """Return exactly so many bytes of the file; raises ``ElfError`` where it ends before."""
        data = b""
        if offset + size <= self._size:
            try:
                data = os.pread(self._fd, size, offset)
            except OSError as error:
                raise ElfError(f"cannot read {self.path} ({error.strerror})", _REMEDY) from error
        if len(data) != size:
            raise self._damaged()
        return data

    def _read_part(self, part: "_Part") -> bytes:
        if part not in self._parts:
            self._parts[part] = self._read(part.offset, part.size)
        return self._parts[part]

    def _region(self, part: "_Part") -> Region:
        return Region(part.size, lambda at, size: self._read(part.offset + at, size))

    def _damaged(self) -> ElfError:
        return ElfError(f"{self.path} is cut off or damaged", "install it again")

    def _read_headers(self) -> None:
        self._parts: dict[_Part, bytes] = {}
        header = self._read(0, min(_HEADER.size, self._size))
        if header[:4] != _MAGIC:
            raise ElfError(f"{self.path} is not an ELF file", _REMEDY)
        if len(header) < _HEADER.size:
            raise self._damaged()
        _, _, machine, _, _, programs, sections, *_, program_count, _, section_count, names = (
            _HEADER.unpack(header)
        )
        if header[4] != _CLASS_64 or header[5] != _LITTLE_ENDIAN or machine not in _MACHINES:
            other = "32-bit code" if header[4] != _CLASS_64 else f"another machine ({machine})"
            kind = _FOREIGN.get(machine, other)
            raise ElfError(f"{self.path} is for {kind}", "only x86-64 programs can be watched")
        self.machine = _MACHINES[machine]
        self._read_segments(self._read(programs, program_count * _PROGRAM_HEADER.size))
        table = self._read(sections, section_count * _SECTION_HEADER.size if sections else 0)
        self._sections = [
            _Section(name, kind, link, _Part(offset, address, size))
            for name, kind, _, address, offset, size, link, *_ in _SECTION_HEADER.iter_unpack(table)
        ]
        self._section_names = names
        self._symbols = list(self._linked(_SHT_DYNSYM, _SHT_SYMTAB))
        self._relocations = list(self._linked(_SHT_RELA))
        self.debug_file: str | None = None
        self._symbols_added: tuple[Symbols, ...] = ()

    def _read_segments(self, table: bytes) -> None:
        self._code: list[_Part] = []
        self._written: list[_Part] = []
        self._loads: list[_Part] = []
        self._unwind: _Part | None = None
        self.build_id: str | None = None
        for kind, flags, offset, address, _, size, _, _ in _PROGRAM_HEADER.iter_unpack(table):
            part = _Part(offset, address, size)
            if kind == _PT_LOAD:
                if offset + size > self._size:
                    raise self._damaged()
                self._loads.append(part)
                if flags & _PF_X:
                    self._code.append(part)
                if flags & _PF_W:
                    self._written.append(part)
            elif kind == _PT_GNU_EH_FRAME:
                self._unwind = part
            elif kind == _PT_NOTE and self.build_id is None:
                self.build_id = _build_id(self._read_part(part))

    def _linked(self, *kinds: int) -> Iterator[tuple[_Part, _Part]]:
        """Yield the tables of these kinds, in this order, each with the table it refers to."""
        for wanted in kinds:
            for section in self._sections:
                if section.kind == wanted and section.link < len(self._sections):
                    yield section.part, self._sections[section.link].part

    def section(self, name: str) -> bytes | None:
        """Return the bytes of the section called ``name``; None where there is none."""
        part = self._named_section(name)
        return None if part is None else self._read_part(part)

    def section_region(self, name: str) -> Region:
        """Return the section called ``name``, to be searched; nothing where there is none."""
        part = self._named_section(name)
        return self._region(part) if part else Region.of(b"")

    def section_address(self, name: str) -> int | None:
        """Return where the section called ``name`` is in memory; None where there is none."""
        part = self._named_section(name)
        return None if part is None else part.address

    def _named_section(self, name: str) -> _Part | None:
        if self._section_names >= len(self._sections):
            return None
        names = self._read_part(self._sections[self._section_names].part)
        wanted = name.encode() + b"\0"
        for section in self._sections:
            if names.startswith(wanted, section.name):
                return section.part
        return None

    def add_symbols(self, symbols: Symbols, debug_file: str) -> None:
        """Look for functions in ``symbols``, too, those of the ``debug_file`` of this file."""
        self.debug_file = debug_file
        self._symbols_added = (symbols,)

    def offset(self, address: int) -> int:
        """Return the file offset of a linked address; raises ``ElfError`` outside of code."""
        for part in self._code:
            inside = address - part.address
            if 0 <= inside < part.size:
                return part.offset + inside
        raise ElfError(f"{self.path} has no code at {address:#x}", "install it again")

    def data(self, address: int, size: int) -> bytes | None:
        """Return what the file has for memory as linked; None where it has not all of it."""
        for part in self._loads:
            inside = address - part.address
            if 0 <= inside <= part.size - size:
                return self._read(part.offset + inside, size)
        return None

    def executable(self) -> Iterator[Memory]:
        """Yield what is code, in pieces; an instruction is whole in one of them, perhaps in two."""
        for part in self._code:
            for at, piece in self._region(part).pieces(_LONGEST_INSTRUCTION_BYTES):
                yield Memory(part.address + at, piece)

    def writable(self) -> Iterator[Memory]:
        """Yield the parts that can be written to, or can until they are relocated."""
        return (Memory(each.address, self._read(each.offset, each.size)) for each in self._written)

    def relocation_tables(self) -> Iterator[bytes]:
        """Yield the tables of relocations in the form RELA, in pieces of whole entries."""
        tables = (self._region(table) for table, _ in self._relocations)
        return (piece for table in tables for _, piece in table.pieces())

    def relative_tables(self) -> Iterator[bytes]:
        """Yield the tables of relative relocations in the form RELR."""
        return (self._read_part(each.part) for each in self._sections if each.kind == _SHT_RELR)

    def code(self, function: Function) -> bytes:
        """Return a function's bytes; raises ``ElfError`` outside of code."""
        return self._read(self.offset(function.address), function.size)

    def function(self, name: str) -> Function | None:
        """Return the function called ``name``, dynamic symbols first; None where it is not here.

        A function that the file only calls, and another one has, is not here.
        """
        for symbols in self._tables():
            found = symbols.function(name)
            if found is not None:
                return self._measured(found)
        return None

    def functions_with(self, *parts: bytes) -> Iterator[Symbol]:
        """Yield the functions whose names as linked have one of ``parts``, some perhaps twice."""
        for symbols in self._tables():
            for name, function in symbols.functions_with(*parts):
                yield Symbol(name, self._measured(function))

    def functions(self) -> Iterator[Symbol]:
        """Yield all functions that have names, some perhaps twice."""
        for symbols in self._tables():
            for name, function in symbols.functions():
                yield Symbol(name, self._measured(function))

    def _measured(self, function: Function) -> Function:
        """Return ``function`` with the length that its frame description tells, if it has none."""
        return function if function.size else self.function_at(function.address) or function

    def _tables(self) -> Iterator[Symbols]:
        yield from map(self._symbols_of, self._symbols)
        yield from self._symbols_added

    def _symbols_of(self, tables: tuple[_Part, _Part]) -> Symbols:
        entries, names = tables
        return Symbols(self._region(entries), self._region(names))

    def name_in(self, slot: int) -> str | None:
        """Return the symbol whose address the dynamic linker writes to ``slot``, if it does."""
        for table, symbols in self._relocations:
            entries = self._region(table)
            for at in entries.places(struct.pack("<Q", slot)):
                if at % _RELOCATION.size == 0 and at + _RELOCATION.size <= entries.size:
                    _, info, _ = _RELOCATION.unpack(entries.read(at, _RELOCATION.size))
                    return self._name(symbols, info >> 32)
        return None

    def _name(self, table: _Part, index: int) -> str | None:
        tables = next((each for each in self._symbols if each[0] == table), None)
        return self._symbols_of(tables).name(index) if tables else None

    def function_at(self, address: int) -> Function | None:
        """Return the function that begins at ``address``, None if none does.

        From the unwind table, which even stripped files have.
        """
        return self.unwind_table.function_at(address)

    def function_around(self, address: int) -> Function | None:
        """Return the function that ``address`` is in, None if it is in none: as the above does."""
        return self.unwind_table.function_around(address)

    @cached_property
    def unwind_table(self) -> UnwindTable:
        """Where the functions begin; empty where the file does not say."""
        part = self._unwind
        return (
            UnwindTable(part.address, self._read_part(part), self.data) if part else NO_UNWIND_TABLE
        )


def notes(data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield the notes of a section or segment: owner, kind, content; nothing from damage on."""
    at = 0
    while at + _NOTE.size <= len(data):
        name_size, size, kind = _NOTE.unpack_from(data, at)
        name_at = at + _NOTE.size
        content = name_at + (name_size + 3 & ~3)
        at = content + (size + 3 & ~3)
        if content + size <= len(data):
            yield (
                data[name_at : name_at + name_size].rstrip(b"\0"),
                kind,
                data[content : content + size],
            )


def _build_id(data: bytes) -> str | None:
    found = (each for each in notes(data) if each[:2] == (b"GNU", _NT_GNU_BUILD_ID))
    return next((content.hex() for _, _, content in found), None)
