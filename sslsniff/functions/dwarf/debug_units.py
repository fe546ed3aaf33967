"""Units of debug info, and what the attributes of their entries mean."""

import io
from collections.abc import Callable, Iterator
from functools import cached_property

from elftools.dwarf.die import DIE
from elftools.dwarf.locationlists import BaseAddressEntry, LocationEntry, LocationLists
from elftools.dwarf.ranges import RangeEntry, RangeLists

from sslsniff.elf.byte_reader import Bytes, DamagedError, reading
from sslsniff.elf.debug_sections import DebugSections
from sslsniff.functions.dwarf.function_model import AddressRange, Language, LocatedRange
from sslsniff.functions.dwarf.scanner import ScannedUnit
from sslsniff.functions.dwarf.unit_reader import IndexedUnit, UnitReader

_LANGUAGES = {
    Language.C: (0x01, 0x02, 0x0C, 0x1D, 0x2C),
    Language.CPP: (0x04, 0x1A, 0x21, 0x2B, 0x3A),
    Language.RUST: (0x1C,),
    Language.GO: (0x16,),
}
# DW_LANG, also those of C 11 to 23 and C++ 11 to 23
_LANGUAGE_OF = {number: language for language, numbers in _LANGUAGES.items() for number in numbers}
_MOST_HOPS = 8
_EVERYWHERE = AddressRange(-1, -1)  # of pyelftools: DW_LLE_default_location


class DebugUnit:
    """A unit: a source file with what it includes, or a part of a Rust crate.

    ``reader``: of the sections where it is. ``skeleton``: of a split unit, the unit in the program,
    which has the bases of its addresses. ``entry_at``: finds an entry in any unit by its offset in
    .debug_info, ``shared_entry_at`` in the file that several programs share (dwz); None: there is
    none.
    """

    def __init__(
        self,
        reader: UnitReader,
        sections: DebugSections,
        scanned: ScannedUnit,
        entry_at: "Callable[[int], Entry]",
        entry_of_type: "Callable[[int], Entry | None]",
        skeleton: "DebugUnit | None" = None,
        shared_entry_at: "Callable[[int], Entry] | None" = None,
    ) -> None:
        self.reader = reader
        self.shared_entry_at = shared_entry_at
        self.sections = sections
        self.scanned = scanned
        self.skeleton = skeleton
        self.entry_at = entry_at
        self.entry_of_type = entry_of_type

    @cached_property
    def compiled(self) -> IndexedUnit:
        """The unit as pyelftools has it; raises ``DamagedError``."""
        with reading:
            return self.reader.unit_at(self.scanned.start, self.scanned.first_entry)

    def entry(self, offset: int) -> "Entry":
        """Return the entry at an offset in .debug_info; raises ``DamagedError``."""
        found = self._read(offset)
        if found.is_null():
            raise DamagedError
        return Entry(self, found)

    def _read(self, offset: int) -> DIE:
        if not self.scanned.first_entry <= offset < self.scanned.end:
            raise DamagedError
        with reading:
            return self.reader.entry(self.compiled, offset)

    def children(self, parent: DIE) -> "Iterator[Entry]":
        """Yield the entries right below one; raises ``DamagedError``.

        It goes forward only: pyelftools' own loop does not end if a damaged sibling is before it.
        """
        at, depth = parent.offset + parent.size, 0
        if not parent.has_children:
            return
        while True:
            found = self._read(at)
            at += found.size
            if found.is_null():
                depth -= 1
            elif depth == 0:
                yield Entry(self, found)
            if depth < 0:
                return
            if found.has_children:
                sibling = Entry(self, found).place("DW_AT_sibling")
                if sibling is not None and sibling >= at:
                    at = sibling
                else:
                    depth += 1

    def contains(self, offset: int) -> bool:
        """Say whether the entry at an offset in .debug_info is in this unit."""
        return self.scanned.start <= offset < self.scanned.end

    @cached_property
    def root(self) -> "Entry":
        """The entry of the unit itself."""
        with reading:
            return Entry(self, self.compiled.get_top_DIE())

    @property
    def language(self) -> Language:
        """What it was written in."""
        return _LANGUAGE_OF.get(self.scanned.language, Language.OTHER)

    @cached_property
    def producer(self) -> str:
        """The compiler and its version; empty if unknown."""
        return self.root.string("DW_AT_producer") or ""

    @cached_property
    def folder(self) -> str:
        """The folder that it was compiled in; empty if unknown."""
        own = self.root.string("DW_AT_comp_dir")
        return own or (self.skeleton.folder if self.skeleton else "")

    @cached_property
    def low_address(self) -> int:
        """What the addresses of its lists are counted from."""
        return (self.skeleton or self).root.address("DW_AT_low_pc") or 0

    @cached_property
    def line_program(self) -> int | None:
        """The offset of its line table in .debug_line of the program; None: it has none."""
        return (self.skeleton or self).root.number("DW_AT_stmt_list")

    def address(self, index: int) -> int:
        """Return an address of .debug_addr; raises ``DamagedError``."""
        with reading:
            return self.reader.get_addr(self.compiled, index)

    def address_in_expression(self, index: int) -> int | None:
        """Return an address of .debug_addr; None: it cannot be read."""
        try:
            return self.address(index)
        except DamagedError:
            return None

    def ranges(self, offset: int) -> list[AddressRange]:
        """Return the list of ranges at an offset in its section; raises ``DamagedError``."""
        version, sections = self.scanned.version, self.sections
        if version < 5 and self.skeleton:
            sections = self.skeleton.sections
            offset += self.skeleton.root.number("DW_AT_GNU_ranges_base") or 0

        def read(data: bytes) -> list[AddressRange]:
            unit = self.compiled
            lists = RangeLists(io.BytesIO(data), unit.structs, version, self.reader)
            found, base = [], self.low_address
            for each in lists.get_range_list_at_offset(0, unit):
                if isinstance(each, RangeEntry):
                    start = 0 if each.is_absolute else base
                    found.append(AddressRange(start + each.begin_offset, start + each.end_offset))
                else:
                    base = each.base_address
            return [each for each in found if each.start < each.end]

        name = "rnglists" if version >= 5 else "ranges"
        return sections.read_list(name, offset, read)

    def locations(self, offset: int, described: DIE) -> tuple[LocatedRange, ...]:
        """Return the list of locations at an offset in its section; raises ``DamagedError``."""
        version = self.scanned.version

        def read(data: bytes) -> tuple[LocatedRange, ...]:
            if version < 5 and self.skeleton:
                return tuple(self._split_locations(Bytes(data)))
            lists = LocationLists(io.BytesIO(data), self.compiled.structs, version, self.reader)
            found, base = [], self.low_address
            for each in lists.get_location_list_at_offset(0, described):
                if isinstance(each, BaseAddressEntry):
                    base = each.base_address
                elif isinstance(each, LocationEntry) and each.loc_expr:
                    start = 0 if each.is_absolute else base
                    covered = AddressRange(start + each.begin_offset, start + each.end_offset)
                    is_default = covered == _EVERYWHERE
                    # gcc has empty ranges for what holds only before the first instruction.
                    if is_default or covered.start <= covered.end:
                        expression = bytes(each.loc_expr)
                        found.append(LocatedRange(None if is_default else covered, expression))
            return tuple(found)

        name = "loclists" if version >= 5 else "loc"
        return self.sections.read_list(name, offset, read)

    def _split_locations(self, source: Bytes) -> Iterator[LocatedRange]:
        """Yield the entries of a list in a .dwo of DWARF 4, which pyelftools does not know."""
        base = self.low_address
        while kind := source.fixed(1):
            if kind == _SplitLocation.BASE:
                base = self.address(source.uleb())
                continue
            if kind == _SplitLocation.START_END:
                start, end = (self.address(source.uleb()) for _ in range(2))
            elif kind == _SplitLocation.START_LENGTH:
                start = self.address(source.uleb())
                end = start + source.fixed(4)
            elif kind == _SplitLocation.OFFSETS:
                start, end = (base + source.fixed(4) for _ in range(2))
            else:
                raise DamagedError
            expression = source.block(source.fixed(2))
            if expression and start <= end:
                yield LocatedRange(AddressRange(start, end), expression)


class _SplitLocation:
    """Kinds of entries of a list of locations in GNU's split DWARF 4; 0 is the end."""

    BASE = 1
    START_END = 2
    START_LENGTH = 3
    OFFSETS = 4


class Entry:
    """An entry of a unit, with its attributes' values; all raise ``DamagedError``.

    Tags, attributes and forms have the names of the standard, as pyelftools does.
    """

    __slots__ = ("_die", "unit")

    def __init__(self, unit: DebugUnit, die: DIE) -> None:
        self.unit = unit
        self._die = die

    @property
    def tag(self) -> str:
        """What it describes."""
        return str(self._die.tag)

    @property
    def offset(self) -> int:
        """Where it is in .debug_info."""
        return int(self._die.offset)

    @property
    def key(self) -> tuple[int, int]:
        """What no other entry has."""
        return id(self.unit.sections), self.offset

    def __contains__(self, attribute: str) -> bool:
        return attribute in self._die.attributes

    def children(self) -> "Iterator[Entry]":
        """Yield the entries right below it."""
        return self.unit.children(self._die)

    def value(self, attribute: str) -> int | bytes | None:
        """Return an attribute's number, block or string; None: it is missing."""
        found = self._die.attributes.get(attribute)
        if found is None or found.value is None:
            return None
        return found.value if isinstance(found.value, int | bytes) else bytes(found.value)

    def number(self, attribute: str) -> int | None:
        """Return the number that an attribute has; None: it is missing, or no number."""
        found = self.value(attribute)
        return found if isinstance(found, int) else None

    def string(self, attribute: str) -> str | None:
        """Return the string that an attribute has; None: it is missing."""
        found = self.value(attribute)
        if self._form(attribute) == "DW_FORM_GNU_str_index" and isinstance(found, int):
            sections = self.unit.sections
            offset = Bytes(sections.get("str_offsets"), found * 4).fixed(4)
            found = sections.string("str", offset)
        return found.decode(errors="replace") if isinstance(found, bytes) else None

    def _form(self, attribute: str) -> str:
        found = self._die.attributes.get(attribute)
        return found.form if found else ""

    def _is_address(self, attribute: str) -> bool:
        return self._form(attribute).startswith(("DW_FORM_addr", "DW_FORM_GNU_addr"))

    def address(self, attribute: str, base: int | None = None) -> int | None:
        """Return the address that an attribute has; None: it is missing.

        ``base``: what is added to an attribute that is no address but an offset.
        """
        found = self.number(attribute)
        if found is None:
            return None
        if self._form(attribute) == "DW_FORM_GNU_addr_index":
            return self.unit.address(found)
        return found if base is None or self._is_address(attribute) else base + found

    def place(self, attribute: str) -> int | None:
        """Return the offset in .debug_info of the entry of this file that an attribute leads to."""
        found = self.number(attribute)
        if found is None or self._form(attribute) == "DW_FORM_ref_addr":
            return found
        return self.unit.scanned.start + found

    def reference(self, attribute: str) -> "Entry | None":
        """Return the entry that an attribute leads to; None: it is missing, or not in this file."""
        found, place = self.number(attribute), self.place(attribute)
        if found is None or place is None:
            return None
        form = self._form(attribute)
        if form == "DW_FORM_ref_sig8":
            return self.unit.entry_of_type(found)
        if form in {"DW_FORM_GNU_ref_alt", "DW_FORM_ref_sup4", "DW_FORM_ref_sup8"}:
            return self.unit.shared_entry_at(found) if self.unit.shared_entry_at else None
        return self.unit.entry_at(place) if form == "DW_FORM_ref_addr" else self.unit.entry(place)

    def described(self) -> "Iterator[Entry]":
        """Yield this entry, then those with the rest of its description."""
        entry: Entry | None = self
        for _ in range(_MOST_HOPS):
            if entry is None:
                return
            yield entry
            origin = entry.reference("DW_AT_abstract_origin")
            entry = origin or entry.reference("DW_AT_specification")

    def with_attribute(self, attribute: str) -> "Entry | None":
        """Return the first of ``described`` that has an attribute; None: there is none."""
        return next((each for each in self.described() if attribute in each), None)

    @property
    def name(self) -> str | None:
        """Its name, from where it is described."""
        found = self.with_attribute("DW_AT_name")
        return found.string("DW_AT_name") if found else None

    def ranges(self) -> list[AddressRange]:
        """Return the addresses of its code, as they are written: also removed code."""
        low = self.address("DW_AT_low_pc")
        high = None if low is None else self.address("DW_AT_high_pc", low)
        if low is not None and high is not None:
            return [AddressRange(low, high)]
        found = self.number("DW_AT_ranges")
        return [] if found is None else self.unit.ranges(found)

    def locations(self, attribute: str) -> tuple[LocatedRange, ...]:
        """Return where the described thing is, by a location attribute; none: nowhere."""
        found = self.value(attribute)
        if isinstance(found, int):
            return self.unit.locations(found, self._die)
        return (LocatedRange(None, found),) if found else ()

    def expression(self, attribute: str) -> bytes | None:
        """Return an attribute that is a single expression; None: it is missing, or a list."""
        found = self.value(attribute)
        return found if isinstance(found, bytes) else None
