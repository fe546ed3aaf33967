"""Finds what ``sslsniff symbols`` lists, in a worker: functions, inlined calls, static probes."""

import contextlib
import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from typing import Any

from sslsniff.cli.symbol_requests import MISSING, NEXT, SEARCH
from sslsniff.core.errors import ElfError
from sslsniff.elf import debug_files
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.function_parts import jumped_from
from sslsniff.elf.readable_names import readable_name
from sslsniff.elf.symbols import Function, Symbol
from sslsniff.elf.usdt_notes import find_static_probes
from sslsniff.functions.dwarf.debug_info import CodeOfCall, DebugInfo, open_debug_info
from sslsniff.functions.places.plan_limits import nearest_names
from sslsniff.functions.runtimes.goroutines import goroutine_location
from sslsniff.functions.workers.file_worker import FileWorker, OpenFile
from sslsniff.machine_code.probe_sites import MACHINES, best_site

Object = dict[str, Any]

_MOST_OBJECTS = 1000  # in an answer
_OBJECTS, _COUNT = "objects", "count"
_MAYBE_INLINED = "a function that matches may have been inlined into its callers"


def _search(file: OpenFile, request: dict[str, Any]) -> None:
    pattern = request["pattern"]
    if (debug := debug_files.find(file.elf)) is not None:
        file.elf.add_symbols(debug.symbols, debug.path)
    search = SymbolSearch(
        file.elf,
        None if pattern is None else re.compile(pattern),
        has_signatures=request["signatures"],
    )
    file.kept |= {SEARCH: search, _OBJECTS: search.objects(), _COUNT: 0}


def _next(file: OpenFile, request: dict[str, Any]) -> list[Object]:
    found = [*islice(file.kept[_OBJECTS], _MOST_OBJECTS)]
    file.kept[_COUNT] += len(found)
    return found


def _missing(file: OpenFile, request: dict[str, Any]) -> str | None:
    search: SymbolSearch = file.kept[SEARCH]
    return search.possibly_missing(file.kept[_COUNT])


WORKER = FileWorker({SEARCH: _search, NEXT: _next, MISSING: _missing})


class SymbolSearch:
    """The functions and static probes of one file."""

    def __init__(self, elf: Elf, pattern: re.Pattern[str] | None, *, has_signatures: bool) -> None:
        self._elf = elf
        self._pattern = pattern
        is_go = goroutine_location(elf) is not None  # its functions may have such names
        functions = {each for each in elf.functions() if jumped_from(each.name) is None or is_go}
        self._functions = sorted(functions, key=lambda entry: (entry.function.address, entry.name))
        self._addresses = [entry.function.address for entry in self._functions]
        self._has_signatures = has_signatures
        self._debug_info: DebugInfo | None = None
        self._is_damaged = False
        self._inlined_count = 0
        if pattern is not None or has_signatures:
            self._debug_info = open_debug_info(elf)
        self._signatures = self._read_signatures() if has_signatures else {}

    def objects(self) -> Iterator[Object]:
        """Yield the functions, the places where some were inlined, the static probes."""
        for symbol, function in self._functions:
            name = readable_name(symbol)
            if self._is_wanted(symbol, name):
                yield self._with_signature(self._function(symbol, name, function), function.address)
        if self._pattern is not None:
            yield from self._inlined()
        for probe in find_static_probes(self._elf):
            if self._is_wanted(f"{probe.provider}:{probe.name}"):
                yield {"type": "usdt", **probe._asdict(), "offset": self._offset(probe.address)}

    def _read_signatures(self) -> dict[int | str, str | None]:
        """Return the signatures by address of the code, and by symbol for inlined functions."""
        found: dict[int | str, str | None] = {}
        if self._debug_info is not None:
            with self._noting_damage():
                for each in self._debug_info.signatures(self._is_described_wanted):
                    found |= dict.fromkeys(
                        (each.symbol or each.name, *each.addresses), each.signature
                    )
        return found

    @contextlib.contextmanager
    def _noting_damage(self) -> Iterator[None]:
        """Go on without the debug info that is damaged."""
        try:
            yield
        except ElfError:
            self._is_damaged = True

    def _with_signature(self, entry: Object, key: int | str) -> Object:
        return entry | ({"signature": self._signatures.get(key)} if self._has_signatures else {})

    def possibly_missing(self, found: int) -> str | None:
        """Return what may be missing from ``found`` objects; None if they are complete."""
        if not self._functions:
            return "it has no symbols: build it with symbols, or install its debug file"
        if self._pattern is None:
            return None
        if found and self._is_described():
            return None
        maybe = (
            _MAYBE_INLINED if found else f"nothing in it matches{self._hint()}; {_MAYBE_INLINED}"
        )
        if self._debug_info is None:
            return f"{maybe}: there is no debug info that would tell"
        if self._is_damaged or not self._debug_info.is_whole:
            return f"{maybe}: a part of the debug info is damaged"
        return f"{maybe}: the available debug info has none"

    def _is_described(self) -> bool:
        """Say whether debug info describes what was found: then it has all inlined calls, too."""
        if self._debug_info is None or self._is_damaged or not self._debug_info.is_whole:
            return False
        if self._inlined_count:
            return True
        first = next(
            each.function.address
            for each in self._functions
            if self._is_wanted(each.name, readable_name(each.name))
        )
        return self._debug_info.line_of(first) is not None

    def _hint(self) -> str:
        """Return the names that are most like the pattern, as a question."""
        if self._pattern is None:
            return ""
        names = {readable_name(each.name) for each in self._functions}
        near = nearest_names([self._pattern.pattern], names)
        return f" (did you mean {' or '.join(near)}?)" if near else ""

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
        if self._debug_info is None:
            return
        with self._noting_damage():
            calls = self._debug_info.inlined_calls(self._is_described_wanted)
            for each in sorted({*calls}, key=lambda call: (call.address, call.name)):
                self._inlined_count += 1
                entry = {
                    "type": "inlined",
                    "name": each.name,
                    "symbol": each.symbol or each.name,
                    "address": each.address,
                    "offset": self._offset(each.address),
                    "into": self._caller(each),
                }
                yield self._with_signature(entry, each.symbol or each.name)

    def _is_described_wanted(self, name: str, symbol: str | None) -> bool:
        return self._is_wanted(name, symbol or name)

    def _caller(self, call: CodeOfCall) -> str | None:
        """Return the name of the function in the symbol table that has the code of a call."""
        caller = self._function_at(call.address)
        return call.into if caller is None else readable_name(caller.name)

    def _function_at(self, address: int) -> Symbol | None:
        """Return the function that ``address`` is in."""
        at = bisect_right(self._addresses, address) - 1
        found = self._functions[at] if at >= 0 else None
        is_inside = found and address < found.function.address + found.function.size
        return found if is_inside else None
