"""Reads ELF files as far as probing needs: symbols by name, build id, addresses to offsets.

Only ELF64 for x86-64 and aarch64. Before its first probe, sslsniff reads every file that a process
maps. So it reads the few tables with ``struct`` (0.1 ms a file; pyelftools takes 3 to 15 ms, and 40
to import), and searches symbols by their names: to read 75,000 entries takes seconds. Files are
read, not mapped: a mapped file that is cut short ends a process with SIGBUS. Searches read in
pieces: Node.js has 100 MB.
"""

import errno
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, Self

from sslsniff.core.errors import ElfError
from sslsniff.elf import file_format
from sslsniff.elf.mapped_file import FileMemory, Region
from sslsniff.elf.symbols import Function, ProvedFunctions, Symbol, Symbols
from sslsniff.elf.unwind_table import NO_UNWIND_TABLE, UnwindTable
from sslsniff.elf.wanted_files import FileOpener, WantedDebugFile
from sslsniff.kernel.regular_files import NotRegularError, open_regular

_CLASS_64 = 2
_LITTLE_ENDIAN = 1
_MACHINES = {62: "x86-64", 183: "aarch64"}
_LONGEST_INSTRUCTION_BYTES = 15
# A segment of notes has some hundred bytes. A file with more before its build id is hostile: it was
# made to take long.
_MOST_NOTE_BYTES = 1 << 16
_FOREIGN = {3: "32-bit x86", 40: "32-bit ARM", 243: "RISC-V"}

_REMEDY = "name an x86-64 program or shared library"

_SLOT_BYTES = 8


class _MappedPart(NamedTuple):
    """A segment or section: its offset in the file, its address as linked, and its size."""

    offset: int
    address: int
    size: int


class _Section(NamedTuple):
    """A section; ``name`` is an offset, ``link`` the index of a section that belongs to it."""

    name: int
    kind: int
    flags: int
    link: int
    part: _MappedPart


class Elf:
    """An open ELF file; a context manager. Raises ``ElfError`` for others, and if it is cut off.

    ``path``, ``file``: ``file`` is an open descriptor, which the caller closes; ``path`` is then
    only a name. None: this opens ``path``, and ``file`` is its descriptor from then on.
    ``is_debug``: it is a separate debug file, whose segments have no contents.
    ``status``, ``machine``: the result of fstat(2), and "x86-64" or "aarch64".
    ``debug_file``: the path of the file with ``add_symbols``'s symbols; None: none were added.
    ``offered``: path and descriptor of each open file that may be its debug file; None: not opened.
    ``wanted``: the debug file that was searched; None: there was no search.
    ``opener``: opens the files beside it; None: this process opens them.
    """

    def __init__(self, path: str, file: int | None = None, *, is_debug: bool = False) -> None:
        self.path = path
        self.debug_file: str | None = None
        self.offered: Sequence[tuple[str, int]] | None = None
        self.wanted: WantedDebugFile | None = None
        self.opener: FileOpener | None = None
        self._closing: list[Callable[[], object]] = []
        self._parts: dict[_MappedPart, bytes] = {}
        if file is None:
            file = open_file(path)
            self._closing.append(lambda: os.close(file))
        self.file = file
        try:
            self.status = os.fstat(self.file)
            self._size = self.status.st_size
            self._read_headers(is_debug=is_debug)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, and call what ``close_with`` was given. Safe to call again."""
        while self._closing:
            self._closing.pop()()
        # The unwind table refers to this object: the bytes would stay until Python's collector of
        # reference cycles runs.
        self._parts.clear()
        self.__dict__.pop("unwind_table", None)

    def _read(self, offset: int, size: int) -> bytes:
        """Return exactly ``size`` bytes of the file; raises ``ElfError`` if it ends before."""
        data = b""
        if offset + size <= self._size:
            try:
                data = os.pread(self.file, size, offset)
            except OSError as error:
                raise ElfError(f"cannot read {self.path} ({error.strerror})", _REMEDY) from error
        if len(data) != size:
            raise self._damaged()
        return data

    def _read_part(self, part: "_MappedPart") -> bytes:
        if part not in self._parts:
            self._parts[part] = self._read(part.offset, part.size)
        return self._parts[part]

    def _region(self, part: "_MappedPart") -> Region:
        def read(at: int, size: int) -> bytes:
            return self._read(part.offset + at, size)

        def skip_hole(at: int) -> int:
            if part.offset + part.size > self._size:
                return at  # reading there raises the error
            try:
                return os.lseek(self.file, part.offset + at, os.SEEK_DATA) - part.offset
            except OSError as error:
                # ENXIO: there is no data from here on (lseek(2)).
                return part.size if error.errno == errno.ENXIO else at

        return Region(part.size, read, skip_hole)

    def _damaged(self) -> ElfError:
        return ElfError(f"{self.path} is cut off or damaged", "install it again")

    def _read_headers(self, *, is_debug: bool) -> None:
        header = self._read(0, min(file_format.HEADER.size, self._size))
        if header[:4] != file_format.MAGIC:
            raise ElfError(f"{self.path} is not an ELF file", _REMEDY)
        if len(header) < file_format.HEADER.size:
            raise self._damaged()
        _, _, machine, _, _, programs, sections, *_, program_count, _, section_count, names = (
            file_format.HEADER.unpack(header)
        )
        if header[4] != _CLASS_64 or header[5] != _LITTLE_ENDIAN or machine not in _MACHINES:
            other = "32-bit code" if header[4] != _CLASS_64 else f"another machine ({machine})"
            kind = _FOREIGN.get(machine, other)
            raise ElfError(f"{self.path} is for {kind}", "only x86-64 programs can be watched")
        self.machine = _MACHINES[machine]
        programs_bytes = 0 if is_debug else program_count * file_format.SEGMENT.size
        if programs_bytes > file_format.MOST_SEGMENTS_BYTES:
            raise self._damaged()
        self._read_segments(self._read(programs, programs_bytes) if programs_bytes else b"")
        table = self._read(sections, section_count * file_format.SECTION.size if sections else 0)
        self._sections = [
            _Section(name, kind, flags, link, _MappedPart(at, address, size))
            for name, kind, flags, address, at, size, link, *_ in file_format.SECTION.iter_unpack(
                table
            )
        ]
        self._section_names = names
        self._exported = list(self._linked(file_format.SHT_DYNSYM))
        self._symbols = [*self._exported, *self._linked(file_format.SHT_SYMTAB)]
        self._hashes = {
            entries: self._region(table)
            for table, entries in self._linked(file_format.SHT_GNU_HASH)
        }
        self._relocations = list(self._linked(file_format.SHT_RELA))
        self._symbols_added: tuple[Symbols | ProvedFunctions, ...] = ()

    def _read_segments(self, table: bytes) -> None:
        self._code: list[_MappedPart] = []
        self._written: list[_MappedPart] = []
        self._loads: list[_MappedPart] = []
        self._unwind: _MappedPart | None = None
        self.build_id: str | None = None
        for kind, flags, offset, address, _, size, _, _ in file_format.SEGMENT.iter_unpack(table):
            part = _MappedPart(offset, address, size)
            if kind == file_format.PT_LOAD:
                if offset + size > self._size:
                    raise self._damaged()
                self._loads.append(part)
                if flags & file_format.PF_X:
                    self._code.append(part)
                if flags & file_format.PF_W:
                    self._written.append(part)
            elif kind == file_format.PT_GNU_EH_FRAME:
                self._unwind = part
            elif kind == file_format.PT_NOTE and self.build_id is None:
                start = self._read(part.offset, min(part.size, _MOST_NOTE_BYTES))
                self.build_id = file_format.build_id(start)

    def _linked(self, *kinds: int) -> Iterator[tuple[_MappedPart, _MappedPart]]:
        """Yield the tables of these kinds, in this order, each with the table that it refers to."""
        for wanted in kinds:
            for section in self._sections:
                if section.kind == wanted and section.link < len(self._sections):
                    yield section.part, self._sections[section.link].part

    def section(self, name: str) -> bytes | None:
        """Return the bytes of the section called ``name``; None: there is none."""
        found = next(self._sections_named(name), None)
        return None if found is None else self._read_part(found.part)

    def section_region(self, name: str) -> Region:
        """Return the section called ``name``, for a search; an empty region if there is none."""
        found = next(self._sections_named(name), None)
        return self._region(found.part) if found else Region.of(b"")

    def section_address(self, name: str) -> int | None:
        """Return the address of the section called ``name`` as linked; None: there is none."""
        found = next(self._sections_named(name), None)
        return None if found is None else found.part.address

    def is_compressed(self, name: str) -> bool:
        """Say whether the section called ``name`` begins with a header of its compression."""
        found = next(self._sections_named(name), None)
        return found is not None and bool(found.flags & file_format.SHF_COMPRESSED)

    def section_regions(self, name: str) -> list[Region]:
        """Return all sections called ``name``: those of object files may share one."""
        return [self._region(each.part) for each in self._sections_named(name)]

    def _sections_named(self, name: str) -> Iterator[_Section]:
        if self._section_names >= len(self._sections):
            return
        names = self._read_part(self._sections[self._section_names].part)
        for section in self._sections:
            if names.startswith(name.encode() + b"\0", section.name):
                yield section

    def section_build_ids(self) -> Iterator[str]:
        """Yield the build ids in sections: a separate debug file has its own there."""
        for section in self._sections:
            if section.kind == file_format.SHT_NOTE and section.part.size <= _MOST_NOTE_BYTES:
                build_id = file_format.build_id(self._read_part(section.part))
                if build_id is not None:
                    yield build_id

    def own_symbols(self) -> Symbols | None:
        """Return the table of all symbols (``.symtab``); None: there is none."""
        for tables in self._linked(file_format.SHT_SYMTAB):
            if any(part.offset + part.size > self._size for part in tables):
                raise self._damaged()
            return self._symbols_of(tables)
        return None

    def close_with(self, close: Callable[[], object]) -> None:
        """Call ``close`` when this is closed."""
        self._closing.append(close)

    def add_symbols(self, symbols: Symbols | ProvedFunctions, debug_file: str | None) -> None:
        """Search functions in ``symbols``, too; ``debug_file``: the file that they are from."""
        self.debug_file = debug_file or self.debug_file
        self._symbols_added += (symbols,)

    @property
    def code_parts(self) -> list[tuple[int, int]]:
        """The address as linked and the size of each segment of code."""
        return [(part.address, part.size) for part in self._code]

    def offset(self, address: int, *, of_data: bool = False) -> int:
        """Return the file offset of code or data as linked; raises ``ElfError`` outside of that."""
        for part in self._loads if of_data else self._code:
            inside = address - part.address
            if 0 <= inside < part.size:
                return part.offset + inside
        raise ElfError(f"{self.path} has no code at {address:#x}", "install it again")

    def data(self, address: int, size: int) -> bytes | None:
        """Return the file's bytes for memory as linked; None: it does not have all of them."""
        for part in self._loads:
            inside = address - part.address
            if 0 <= inside <= part.size - size:
                return self._read(part.offset + inside, size)
        return None

    def executable(self) -> Iterator[FileMemory]:
        """Yield the code in pieces that overlap: each instruction is whole in at least one."""
        for part in self._code:
            for at, piece in self._region(part).pieces(_LONGEST_INSTRUCTION_BYTES):
                yield FileMemory(part.address + at, piece)

    def writable(self) -> Iterator[FileMemory]:
        """Yield the parts that are writable, or writable until they are relocated."""
        for each in self._written:
            yield FileMemory(each.address, self._read(each.offset, each.size))

    def relocation_tables(self) -> Iterator[bytes]:
        """Yield the tables of relocations in the form RELA, in pieces of whole entries."""
        tables = (self._region(table) for table, _ in self._relocations)
        return (piece for table in tables for _, piece in table.pieces())

    def relative_tables(self) -> Iterator[bytes]:
        """Yield the tables of relative relocations in the form RELR."""
        return (
            self._read_part(each.part)
            for each in self._sections
            if each.kind == file_format.SHT_RELR
        )

    def code(self, function: Function) -> bytes:
        """Return a function's bytes; raises ``ElfError`` outside of code."""
        return self._read(self.offset(function.address), function.size)

    def function(self, name: str) -> Function | None:
        """Return the function called ``name``, from dynamic symbols first; None: there is none.

        A function that the file only calls does not count.
        """
        for symbols in self._tables():
            found = symbols.function(name)
            if found is not None:
                return self._measured(found)
        return None

    def exports(self, name: str) -> bool:
        """Say whether the file has a function called ``name`` that other files can link with."""
        tables = map(self._symbols_of, self._exported)
        return any(symbols.function(name) is not None for symbols in tables)

    def functions_with(self, *parts: bytes) -> Iterator[Symbol]:
        """Yield the functions whose mangled names contain one of ``parts``, some perhaps twice."""
        for symbols in self._tables():
            for name, function in symbols.functions_with(*parts):
                yield Symbol(name, self._measured(function))

    def functions(self) -> Iterator[Symbol]:
        """Yield all functions that have names, some perhaps twice."""
        for symbols in self._tables():
            for name, function in symbols.functions():
                yield Symbol(name, self._measured(function))

    def _measured(self, function: Function) -> Function:
        """Return ``function``; if its length is unknown, with that of its frame description."""
        return function if function.size else self.function_at(function.address) or function

    def _tables(self) -> Iterator[Symbols | ProvedFunctions]:
        yield from map(self._symbols_of, self._symbols)
        yield from self._symbols_added

    def _symbols_of(self, tables: tuple[_MappedPart, _MappedPart]) -> Symbols:
        entries, names = tables
        hashes = self._hashes.get(entries)
        return Symbols(self._region(entries), self._region(names), hashes)

    def name_in(self, slot: int) -> str | None:
        """Return the symbol whose address the dynamic linker writes to ``slot``; None: none."""
        for table, symbols in self._relocations:
            entries = self._region(table)
            for at in entries.places(struct.pack("<Q", slot)):
                if (
                    at % file_format.RELOCATION.size == 0
                    and at + file_format.RELOCATION.size <= entries.size
                ):
                    _, info, _ = file_format.RELOCATION.unpack(
                        entries.read(at, file_format.RELOCATION.size)
                    )
                    return self._name(symbols, info >> 32)
        return None

    def slots_of(self, name: str) -> Iterator[int]:
        """Yield where the dynamic linker writes the address of the symbol ``name``."""
        for table, symbols in self._relocations:
            entries = self._region(table)
            own = next((each for each in self._symbols if each[0] == symbols), None)
            for index in self._symbols_of(own).indices(name) if own else ():
                for kind in file_format.SLOT_KINDS:
                    for at in entries.places(struct.pack("<Q", index << 32 | kind)):
                        start = at - _SLOT_BYTES
                        if start % file_format.RELOCATION.size == 0:
                            yield int.from_bytes(entries.read(start, _SLOT_BYTES), "little")

    def _name(self, table: _MappedPart, index: int) -> str | None:
        tables = next((each for each in self._symbols if each[0] == table), None)
        return self._symbols_of(tables).name(index) if tables else None

    def function_at(self, address: int) -> Function | None:
        """Return the function that begins at ``address``; None: there is none.

        It is from the unwind table, which stripped files have, too.
        """
        return self.unwind_table.function_at(address)

    def function_around(self, address: int) -> Function | None:
        """Return the function that contains ``address``; None: there is none."""
        return self.unwind_table.function_around(address)

    @cached_property
    def unwind_table(self) -> UnwindTable:
        """The functions of the unwind table; empty if the file has none."""
        part = self._unwind
        return (
            UnwindTable(part.address, self._read_part(part), self.data) if part else NO_UNWIND_TABLE
        )


def open_file(path: str) -> int:
    """Return a descriptor that reads the file at ``path``; raises ``ElfError``."""
    try:
        return open_regular(path)
    except NotRegularError as error:
        raise ElfError(f"{path} is not a file", _REMEDY) from error
    except OSError as error:
        raise ElfError(f"cannot read {path} ({error.strerror})", _REMEDY) from error
