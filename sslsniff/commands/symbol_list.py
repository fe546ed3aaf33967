"""``sslsniff symbols``: the functions of a binary, where to probe each, and its USDT probes.

Prints a table for people, or objects for programs (docs/json.md).
"""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any

from sslsniff.elf import debug_files
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.inlined_functions import Inlinings, find_inlined
from sslsniff.elf.symbols import Function, Symbol, demangle
from sslsniff.elf.usdt_notes import find_static_probes
from sslsniff.errors import ElfError
from sslsniff.escaping import escape, escape_json
from sslsniff.kernel.resource_limits import OverTimeError, limited
from sslsniff.machine_code.probe_sites import MACHINES, best_site

Object = dict[str, Any]

_MOST_DEBUG_INFO_S = 10.0
_MOST_CPU_S = 600  # all 115,000 functions of Node.js take 25 s
_MOST_MEMORY_BYTES = 2 << 30  # these take 180 MB
_MAYBE_INLINED = "a function that matches may have been inlined into its callers"
_LINE = "{:<12} {:<12} {:>8}  {:<16}  {}"


def print_symbols_in_time(
    path: str,
    pattern: re.Pattern[str] | None,
    note: Callable[[str], None],
    *,
    as_json: bool = False,
    mangled: bool = False,
) -> int:
    """Call ``print_symbols`` with limits of time and memory; ``ElfError`` beyond them."""
    try:
        with limited(_MOST_CPU_S, _MOST_MEMORY_BYTES):
            return print_symbols(path, pattern, note, as_json=as_json, mangled=mangled)
    except OverTimeError:
        over = f"{_MOST_CPU_S} s of CPU"
    except MemoryError:
        over = f"{_MOST_MEMORY_BYTES >> 30} GB of memory"
    raise ElfError(f"{path} takes more than {over}", "see readelf or objdump")


def print_symbols(
    path: str,
    pattern: re.Pattern[str] | None,
    note: Callable[[str], None],
    *,
    as_json: bool = False,
    mangled: bool = False,
) -> int:
    """Print the functions of a file whose names match ``pattern``; return 1 if there are none.

    ``note`` is called with a line on functions that may be missing. ``mangled`` shows names as they
    were linked. Raises ``ElfError``.
    """
    with Elf(path) as elf:
        if (debug := debug_files.find(elf)) is not None:
            elf.add_symbols(debug.symbols, debug.path)
        listing = _Listing(elf, pattern)
        found = 0
        for entry in listing.objects():
            if not found and not as_json:
                print(_LINE.format("address", "offset", "size", "probe", "function"))
            found += 1
            print(_json(entry) if as_json else _line(entry, mangled=mangled))
    possibly_missing = listing.possibly_missing(found)
    if possibly_missing is not None:
        note(f"{path}: {possibly_missing}")
    return 0 if found else 1


class _Listing:
    """The functions and static probes of one file."""

    def __init__(self, elf: Elf, pattern: re.Pattern[str] | None) -> None:
        self._elf = elf
        self._pattern = pattern
        functions = {*elf.functions()}
        self._functions = sorted(functions, key=lambda entry: (entry.function.address, entry.name))
        self._addresses = [entry.function.address for entry in self._functions]
        self._inlinings: Inlinings | None = None

    def objects(self) -> Iterator[Object]:
        """Yield the functions, the places where some were inlined, the static probes."""
        for symbol, function in self._functions:
            name = demangle(symbol) or symbol
            if self._is_wanted(symbol, name):
                yield self._function(symbol, name, function)
        if self._pattern is not None:
            yield from self._inlined()
        for probe in find_static_probes(self._elf):
            if self._is_wanted(f"{probe.provider}:{probe.name}"):
                yield {"type": "usdt", **probe._asdict(), "offset": self._offset(probe.address)}

    def possibly_missing(self, found: int) -> str | None:
        """Return what may be missing from ``found`` objects; None if they are complete."""
        if not self._functions:
            return "it has no symbols: build it with symbols, or install its debug file"
        if self._pattern is None:
            return None
        maybe = _MAYBE_INLINED if found else f"nothing in it matches; {_MAYBE_INLINED}"
        if self._inlinings is None:
            return f"{maybe}: there is no debug info that would tell"
        if not self._inlinings.is_whole:
            return f"{maybe}: debug info was read for {_MOST_DEBUG_INFO_S:.0f} s, not to its end"
        if not self._inlinings.places:
            return f"{maybe}: the debug info that there is tells of none"
        return None

    def _is_wanted(self, *names: str) -> bool:
        return self._pattern is None or any(map(self._pattern.search, names))

    def _function(self, symbol: str, name: str, function: Function) -> Object:
        return {
            "type": "function",
            "name": name,
            "symbol": symbol,
            "address": function.address,
            "offset": self._offset(function.address),
            "size": function.size or None,
            "probe": self._probe(function),
        }

    def _probe(self, function: Function) -> Object | None:
        try:
            code = self._elf.code(function)
        except ElfError:
            return None
        machine = MACHINES[self._elf.machine]
        site = best_site(
            code, function.address, machine.arguments, with_return=False, machine=machine
        )
        return site and {"address": site.address, "cost": site.cost.value}

    def _offset(self, address: int) -> int | None:
        try:
            return self._elf.offset(address)
        except ElfError:
            return None

    def _inlined(self) -> Iterator[Object]:
        def is_wanted(symbol: str) -> bool:
            return self._is_wanted(symbol, demangle(symbol) or symbol)

        for path in (self._elf.path, self._elf.debug_file):
            if path is not None and self._inlinings is None:
                self._inlinings = find_inlined(path, is_wanted, _MOST_DEBUG_INFO_S)
        for symbol, address in self._inlinings.places if self._inlinings else ():
            into = self._function_at(address)
            yield {
                "type": "inlined",
                "name": demangle(symbol) or symbol,
                "symbol": symbol,
                "address": address,
                "offset": self._offset(address),
                "into": into and (demangle(into.name) or into.name),
            }

    def _function_at(self, address: int) -> Symbol | None:
        """Return the function that ``address`` is in."""
        at = bisect_right(self._addresses, address) - 1
        found = self._functions[at] if at >= 0 else None
        is_inside = found and address < found.function.address + found.function.size
        return found if is_inside else None


def _json(entry: dict[str, Any]) -> str:
    return escape_json(json.dumps(entry, ensure_ascii=False))


def _line(entry: Object, *, mangled: bool) -> str:
    offset = "-" if entry["offset"] is None else f"{entry['offset']:#x}"
    name = str(entry.get("symbol", entry["name"]) if mangled else entry["name"])
    size, probe, shown = _COLUMNS[entry["type"]](entry, name)
    return _LINE.format(f"{entry['address']:#x}", offset, size, probe, escape(shown)).rstrip()


def _of_function(entry: Object, name: str) -> tuple[str, str, str]:
    probe = entry["probe"]
    if probe is None:
        return str(entry["size"] or "-"), "no place", name
    inside = probe["address"] - entry["address"]
    return str(entry["size"]), probe["cost"] + (f" +{inside}" if inside else ""), name


def _of_inlined(entry: Object, name: str) -> tuple[str, str, str]:
    return "-", "inlined", name + (f" into {entry['into']}" if entry["into"] else "")


def _of_usdt(entry: Object, name: str) -> tuple[str, str, str]:
    arguments = f" {entry['arguments']}" if entry["arguments"] else ""
    semaphore = "" if entry["semaphore"] is None else f" (semaphore {entry['semaphore']:#x})"
    return "-", "usdt", f"{entry['provider']}:{name}{arguments}{semaphore}"


_COLUMNS = {"function": _of_function, "inlined": _of_inlined, "usdt": _of_usdt}
