"""ELF files as far as probing needs them: symbols by name, build id, addresses to offsets.

Only ELF64 for x86-64. Every file that a process maps is looked at on the way to the first probe,
so the few tables are read with ``struct`` (0.1 ms a file; pyelftools takes 3 to 15 ms, and 40 to
import), and symbols are found by a search for their names: walking 75,000 of them takes seconds.
Files are read, not mapped: one that is cut short meanwhile must not end sslsniff with a SIGBUS.
"""

import os
import stat
import struct
from collections.abc import Iterator
from typing import NamedTuple, Self

from sslsniff.errors import ElfError

# System V ABI and elf(5)
_MAGIC = b"\x7fELF"
_CLASS_64 = 2
_LITTLE_ENDIAN = 1
_MACHINE_X86_64 = 62
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_NOTE = struct.Struct("<III")
_U32 = struct.Struct("<I")
_PT_LOAD, _PT_NOTE, _PT_GNU_EH_FRAME = 1, 4, 0x6474E550
_PF_X = 1
_RELOCATION = struct.Struct("<QQq")
_SHT_SYMTAB, _SHT_RELA, _SHT_DYNSYM = 2, 4, 11
_STT_FUNC = 2
_NT_GNU_BUILD_ID = 3
_FOREIGN = {3: "32-bit x86", 40: "32-bit ARM", 183: "aarch64", 243: "RISC-V"}

# .eh_frame_hdr (LSB 5.0, 10.6.2): version 1; the pointer pc-relative; the count an u32; a sorted
# table of pairs of i32 that count from the header's own address
_EH_FORM = b"\x01\x1b\x03\x3b"
_EH_COUNT_AT, _EH_TABLE_AT = 8, 12
_EH_ENTRY = struct.Struct("<ii")
# Frame description: length, CIE pointer, start (pc-relative), size
_FRAME = struct.Struct("<IIiI")
_FRAME_START_AT = 8

_REMEDY = "name an x86-64 program or shared library"


class Function(NamedTuple):
    """A function's address (as linked) and its length in bytes."""

    address: int
    size: int


class Symbols(NamedTuple):
    """The bytes of a symbol table, and of the string table that has its names."""

    entries: bytes
    names: bytes

    def function(self, name: str) -> Function | None:
        """Return the function called ``name`` as the table has it; its size may be 0, unknown."""
        # The name may be the end of a longer one: linkers merge them.
        for place in _places(self.names, name.encode() + b"\0"):
            for at in _places(self.entries, _U32.pack(place)):
                if at % _SYMBOL.size == 0 and at + _SYMBOL.size <= len(self.entries):
                    _, info, _, section, address, size = _SYMBOL.unpack_from(self.entries, at)
                    if section and info & 0xF == _STT_FUNC:
                        return Function(address, size)
        return None

    def name(self, index: int) -> str | None:
        """Return the name of the symbol with this index; None where there is none."""
        if not 0 < index < len(self.entries) // _SYMBOL.size:
            return None
        name_at, *_ = _SYMBOL.unpack_from(self.entries, index * _SYMBOL.size)
        return self.names[name_at:].split(b"\0", 1)[0].decode("ascii", "replace")


class _Part(NamedTuple):
    """Where a segment or section stands in the file, and where in memory as linked."""

    offset: int
    address: int
    size: int


class _Section(NamedTuple):
    """A section; ``name`` is an offset, ``link`` the index of a section that belongs to it."""

    name: int
    kind: int
    link: int
    part: _Part


class Elf:
    """An open ELF file; a context manager.

    ``status`` is what fstat says of it, ``debug_file`` where symbols were found that it has not
    itself. ``handle``, if given, is the path to open it by, and ``path`` only its name. Raises
    ``ElfError`` where the file is not one that can be probed, or is cut off.
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
        if header[4] != _CLASS_64 or header[5] != _LITTLE_ENDIAN or machine != _MACHINE_X86_64:
            other = "32-bit code" if header[4] != _CLASS_64 else f"another machine ({machine})"
            kind = _FOREIGN.get(machine, other)
            raise ElfError(f"{self.path} is for {kind}", "only x86-64 programs can be watched")
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
        if self._section_names >= len(self._sections):
            return None
        names = self._read_part(self._sections[self._section_names].part)
        wanted = name.encode() + b"\0"
        for section in self._sections:
            if names.startswith(wanted, section.name):
                return self._read_part(section.part)
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

    def code(self, function: Function) -> bytes:
        """Return a function's bytes; raises ``ElfError`` outside of code."""
        return self._read(self.offset(function.address), function.size)

    def function(self, name: str) -> Function | None:
        """Return the function called ``name``, dynamic symbols first; None where it is not here.

        A function that the file only calls, and another one has, is not here.
        """
        for symbols in (*map(self._read_symbols, self._symbols), *self._symbols_added):
            found = symbols.function(name)
            if found is not None:
                return found if found.size else Function(found.address, self._extent(found.address))
        return None

    def _read_symbols(self, tables: tuple[_Part, _Part]) -> Symbols:
        entries, names = tables
        return Symbols(self._read_part(entries), self._read_part(names))

    def name_in(self, slot: int) -> str | None:
        """Return the symbol whose address the dynamic linker writes to ``slot``, if it does."""
        for table, symbols in self._relocations:
            entries = self._read_part(table)
            for at in _places(entries, struct.pack("<Q", slot)):
                if at % _RELOCATION.size == 0 and at + _RELOCATION.size <= len(entries):
                    _, info, _ = _RELOCATION.unpack_from(entries, at)
                    return self._name(symbols, info >> 32)
        return None

    def _name(self, table: _Part, index: int) -> str | None:
        tables = next((each for each in self._symbols if each[0] == table), None)
        return self._read_symbols(tables).name(index) if tables else None

    def function_at(self, address: int) -> Function | None:
        """Return the function that begins at ``address``, None if none does.

        From the unwind table, which even stripped files have.
        """
        size = self._extent(address)
        return Function(address, size) if size else None

    def _extent(self, address: int) -> int:
        """Return the length of the function at ``address`` by its frame description; 0 unknown."""
        if self._unwind is None:
            return 0
        base, data = self._unwind.address, self._read_part(self._unwind)
        if data[: len(_EH_FORM)] != _EH_FORM or len(data) < _EH_TABLE_AT:
            return 0
        (count,) = _U32.unpack_from(data, _EH_COUNT_AT)
        low, high = 0, min(count, (len(data) - _EH_TABLE_AT) // _EH_ENTRY.size)
        while low < high:
            middle = (low + high) // 2
            start, frame = _EH_ENTRY.unpack_from(data, _EH_TABLE_AT + middle * _EH_ENTRY.size)
            if base + start == address:
                return self._frame_size(base + frame, address)
            if base + start < address:
                low = middle + 1
            else:
                high = middle
        return 0

    def _frame_size(self, frame: int, address: int) -> int:
        for part in self._loads:
            inside = frame - part.address
            if 0 <= inside <= part.size - _FRAME.size:
                _, _, start, size = _FRAME.unpack(self._read(part.offset + inside, _FRAME.size))
                # The encoding is the usual one only if it says where the function begins.
                return size if frame + _FRAME_START_AT + start == address else 0
        return 0


def _places(data: bytes, wanted: bytes) -> Iterator[int]:
    place = data.find(wanted)
    while place >= 0:
        yield place
        place = data.find(wanted, place + 1)


def _build_id(notes: bytes) -> str | None:
    at = 0
    while at + _NOTE.size <= len(notes):
        name_size, size, kind = _NOTE.unpack_from(notes, at)
        name_at = at + _NOTE.size
        content = name_at + (name_size + 3 & ~3)
        if kind == _NT_GNU_BUILD_ID and notes[name_at:content] == b"GNU\0":
            return notes[content : content + size].hex()
        at = content + (size + 3 & ~3)
    return None
