"""Finds where a compiler inlined functions into their callers (DWARF 5, section 3.3.8.2).

pyelftools takes 70 us for each entry, so 100,000 inlined functions take 8 s: the time is limited.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from elftools.dwarf.compileunit import CompileUnit
    from elftools.dwarf.die import DIE
    from elftools.dwarf.dwarfinfo import DWARFInfo


class Inlined(NamedTuple):
    """A place where a function was inlined: the function's symbol, and the address."""

    symbol: str
    address: int


class Inlinings(NamedTuple):
    """The inlined functions of a file; ``is_whole``: all of its debug info was read in time."""

    places: tuple[Inlined, ...] = ()
    is_whole: bool = True


def find_inlined(path: str, wanted: Callable[[str], bool], seconds: float) -> Inlinings | None:
    """Return where the functions whose symbol is ``wanted`` were inlined.

    ``path`` is a program or its separate debug file. The result is None if it has no readable debug
    info. The search ends after ``seconds``.
    """
    from elftools.elf.elffile import ELFFile

    end = time.monotonic() + seconds
    places: list[Inlined] = []
    try:
        with Path(path).open("rb") as file:
            elf = ELFFile(file)
            if not elf.has_dwarf_info(strict=True):
                return None
            for place in _InlinedSearch(elf.get_dwarf_info(), wanted).places():
                if place is not None:
                    places.append(place)
                if time.monotonic() > end:
                    return Inlinings(tuple(dict.fromkeys(places)), is_whole=False)
    except Exception:  # pyelftools may raise any exception for a damaged file
        return Inlinings(tuple(dict.fromkeys(places)), is_whole=False) if places else None
    return Inlinings(tuple(dict.fromkeys(places)))


class _InlinedSearch:
    """A search in the debug info of one file."""

    def __init__(self, dwarf: "DWARFInfo", wanted: Callable[[str], bool]) -> None:
        self._dwarf = dwarf
        self._ranges = dwarf.range_lists()
        self._wanted = wanted
        self._symbols: dict[tuple[int, int], str | None] = {}

    def places(self) -> Iterator[Inlined | None]:
        """Yield the places, and None for each other entry, so that the caller can stop."""
        for unit in self._dwarf.iter_CUs():
            for entry in unit.iter_DIEs():
                symbol = None
                if entry.tag == "DW_TAG_inlined_subroutine":
                    symbol = self._origin(entry)
                address = None if symbol is None else self._address(entry, unit)
                yield None if symbol is None or address is None else Inlined(symbol, address)

    def _origin(self, entry: "DIE") -> str | None:
        """Return the symbol of the inlined function, if it is wanted."""
        key = entry.attributes["DW_AT_abstract_origin"].raw_value, entry.cu.cu_offset
        if key not in self._symbols:
            symbol = _symbol(entry.get_DIE_from_attribute("DW_AT_abstract_origin"))
            self._symbols[key] = symbol if symbol and self._wanted(symbol) else None
        return self._symbols[key]

    def _address(self, entry: "DIE", unit: "CompileUnit") -> int | None:
        """Return the address of an entry's code: the lowest one if the code is in pieces."""
        from elftools.dwarf.ranges import BaseAddressEntry

        if "DW_AT_low_pc" in entry.attributes:
            return int(entry.attributes["DW_AT_low_pc"].value)
        if "DW_AT_ranges" not in entry.attributes or self._ranges is None:
            return None
        base = int(unit.get_top_DIE().attributes["DW_AT_low_pc"].value)
        starts = []
        place = entry.attributes["DW_AT_ranges"].value
        for each in self._ranges.get_range_list_at_offset(place, cu=unit):
            if isinstance(each, BaseAddressEntry):
                base = each.base_address
            else:
                starts.append(each.begin_offset + (0 if each.is_absolute else base))
        return min(starts, default=None)


def _symbol(entry: "DIE") -> str | None:
    """Return the name of a function's entry, preferably the mangled one."""
    while True:
        for key in ("DW_AT_linkage_name", "DW_AT_name"):
            if key in entry.attributes:
                return str(entry.attributes[key].value, errors="replace")
        if "DW_AT_specification" not in entry.attributes:
            return None
        entry = entry.get_DIE_from_attribute("DW_AT_specification")
