"""pyelftools' reader of units, over the sections of an open file.

It adds what pyelftools 0.33 lacks for split units: their addresses are in the program, and their
entries have no bases (DWARF 5, sections 3.1.3 and 7.26 to 7.29). It also reads the forms of GNU's
split DWARF 4.
"""

import contextlib
import functools
import io
import re
from typing import Any

from elftools.common.construct_utils import RepeatUntilExcluding
from elftools.common.exceptions import DWARFError
from elftools.construct import Embed, If, PascalString, Peek, Struct, ULInt8
from elftools.dwarf.abbrevtable import AbbrevDecl, AbbrevTable
from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE, AttributeValue
from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DwarfConfig, DWARFInfo
from elftools.dwarf.structs import DWARFStructs
from elftools.dwarf.typeunit import TypeUnit

from sslsniff.elf.byte_reader import Bytes
from sslsniff.elf.debug_sections import DebugSections

_LOADED = ("info", "abbrev", "str", "line_str", "str_offsets")
_READ_IN_PARTS = ("addr", "loclists", "rnglists")
_NOT_READ = (
    *("aranges", "frame", "loc", "ranges", "line", "pubtypes", "pubnames", "sup", "types"),
)


_ULEB = rb"[\x80-\xff]*[\x00-\x7f]"
# Code, then tag, whether it has children, and attributes: with a value if the form is
# DW_FORM_implicit_const (DWARF 5, section 7.5.3).
_ABBREVIATION = re.compile(
    rb"(?!\x00)(U)(U[\x00\x01](?:(?!\x00\x00)U(?:\x21U|(?!\x21)U))*\x00\x00)".replace(b"U", _ULEB)
)
_VIEW_PAIR = 9  # DW_LLE_GNU_view_pair
_MOST_ABBREVIATIONS = 1 << 14  # of 2 KB
_MOST_ENTRIES = 1 << 12  # of 1.5 KB; many copies are of one function, many parameters of one type


class _SectionStream:
    """A section as a stream that loads no more than what is read."""

    def __init__(self, sections: DebugSections, name: str) -> None:
        self._sections = sections
        self._name = name
        self._at = 0

    def seek(self, offset: int) -> None:
        self._at = offset

    def tell(self) -> int:
        return self._at

    def read(self, size: int) -> bytes:
        found = self._sections.part(self._name, self._at, size)
        self._at += len(found)
        return found


class UnitReader(DWARFInfo):
    """Reads the units of a file's sections; ``skeleton``: as for ``DebugUnit``, but its reader's.

    All of it runs within ``reading``.
    """

    def __init__(
        self,
        sections: DebugSections,
        skeleton: "IndexedUnit | None" = None,
        shared: "UnitReader | None" = None,
    ) -> None:
        # Does not copy: a stream shares the bytes until it is written to.
        streams = {name: io.BytesIO(sections.get(name)) for name in _LOADED}
        parts: dict[str, Any] = {name: _SectionStream(sections, name) for name in _READ_IN_PARTS}
        described = {
            f"debug_{name}_sec": DebugSectionDescriptor(stream, name, None, size, 0)
            for name, stream in (streams | parts).items()
            if (size := sections.size(name))
        }
        absent = dict.fromkeys(f"debug_{name}_sec" for name in (*streams, *parts, *_NOT_READ))
        super().__init__(
            DwarfConfig(little_endian=True, machine_arch="", default_address_size=8),
            eh_frame_sec=None,
            gnu_debugaltlink_sec=None,
            **{**absent, **described},
        )
        self.supplementary_dwarfinfo = shared
        self._skeleton = skeleton
        self.entry = functools.lru_cache(_MOST_ENTRIES)(self._entry)
        self._abbreviation_bytes = sections.get("abbrev")
        self._abbreviations: dict[int, Abbreviations] = {}

    def unit_at(self, offset: int, first_entry: int) -> "IndexedUnit":
        """Return the unit whose header and first entry are at these offsets in .debug_info."""
        found = self.get_CU_at(offset)
        uleb: Any = found.structs.Dwarf_uleb128
        forms: dict[str, Any] = found.structs.Dwarf_dw_form
        forms["DW_FORM_GNU_str_index"] = forms["DW_FORM_GNU_addr_index"] = uleb("")
        found.structs.Dwarf_loclists_entries = _location_entries(found.structs)
        forms["DW_FORM_strx4"] = found.structs.the_Dwarf_uint32  # pyelftools 0.33: 8 bytes
        # Reads a block at once: one of a damaged size fails, and is not read byte by byte.
        forms["DW_FORM_exprloc"] = forms["DW_FORM_block"] = PascalString("", uleb("length"))
        unit = IndexedUnit(found.header, self, found.structs, offset, first_entry)
        unit.get_top_DIE()  # before other entries: reading it moves the stream that they are from
        return unit

    def _entry(self, unit: "IndexedUnit", offset: int) -> DIE:
        """Return an entry of a unit. The unit would keep it if it was asked: there are millions."""
        assert self.debug_info_sec is not None
        return DIE(unit, self.debug_info_sec.stream, offset)

    def get_abbrev_table(self, offset: int) -> "Abbreviations":
        """Return the abbreviations of a unit, by their offset in .debug_abbrev."""
        if offset not in self._abbreviations:
            self._abbreviations[offset] = Abbreviations(self._abbreviation_bytes, offset)
        return self._abbreviations[offset]

    def get_addr(self, cu: CompileUnit | TypeUnit, addr_index: int) -> int:
        """Return an address by its index: that of a split unit is in the program."""
        if self._skeleton is not None:
            return self._skeleton.dwarfinfo.get_addr(self._skeleton, addr_index)
        return super().get_addr(cu, addr_index)


@functools.cache
def _location_entries(structs: DWARFStructs) -> RepeatUntilExcluding:
    """Return what reads the entries of a location list of DWARF 5.

    pyelftools 0.33 does not know the pairs of views that ``-gvariable-location-views=incompat5`` of
    gcc puts before them. They are skipped.
    """
    entries: RepeatUntilExcluding = structs.Dwarf_loclists_entries
    view: Any = structs.Dwarf_uleb128
    pair = Struct("pair", ULInt8("kind"), view("first"), view("last"))
    views = Struct(
        "views",
        Peek(ULInt8("next_kind")),
        If(lambda ctx: ctx.next_kind == _VIEW_PAIR, pair),
    )
    return RepeatUntilExcluding(entries.predicate, Struct("entry", views, Embed(entries.subcon)))


class Abbreviations(AbbrevTable):
    """The abbreviations of a unit, in place of pyelftools' table, which reads all of them at once.

    That takes it 10 ms for a unit of C++, which has 400. This finds where they are in 1 ms, and
    leaves to pyelftools the few that are needed.
    """

    def __init__(self, data: bytes, offset: int) -> None:
        self._declarations: dict[int, bytes] = {}
        while found := _ABBREVIATION.match(data, offset):
            self._declarations[Bytes(found[1]).uleb()] = found[2]
            offset = found.end()

    def get_abbrev(self, code: int) -> AbbrevDecl:
        """Return the abbreviation that has a code; raises ``KeyError``."""
        return _declared(self._declarations[code])


@functools.lru_cache(_MOST_ABBREVIATIONS)
def _declared(declaration: bytes) -> AbbrevDecl:
    """Return what all units know that have a declaration with these bytes."""
    structs = DWARFStructs(little_endian=True, dwarf_format=32, address_size=8)
    return AbbrevDecl(0, structs.Dwarf_abbrev_declaration.parse(declaration))


class IndexedUnit(CompileUnit):
    """A unit whose indices count from the first item of a section if it does not say from where."""

    def get_top_DIE(self) -> DIE:
        """Return the entry of the unit itself, with all bases of its indices."""
        if not self.has_top_DIE():
            with contextlib.suppress(DWARFError):  # a base is missing
                super().get_top_DIE()
            top = super().get_top_DIE()
            for name, value in self._first_items().items():
                top.attributes.setdefault(name, AttributeValue(name, "", value, value, 0, 0))
            top._translate_indirect_attributes()
        return super().get_top_DIE()

    def _first_items(self) -> dict[str, int]:
        """Return the offsets of what is after the sections' headers."""
        if self["version"] < 5:
            addresses = super().get_top_DIE().attributes.get("DW_AT_GNU_addr_base")
            return {"DW_AT_addr_base": addresses.value if addresses else 0}
        length = self.structs.initial_length_field_size()
        return {
            "DW_AT_addr_base": length + 4,
            "DW_AT_str_offsets_base": length + 4,
            "DW_AT_loclists_base": length + 8,
            "DW_AT_rnglists_base": length + 8,
        }
