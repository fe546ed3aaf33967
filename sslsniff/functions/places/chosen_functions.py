"""Which functions of a file patterns choose, by debug info and by symbols."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sslsniff.core.errors import ElfError, TargetError
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.function_parts import MARKS_OF_PARTS, jumped_from, part_of
from sslsniff.elf.readable_names import readable_name
from sslsniff.elf.symbols import Function, demangle
from sslsniff.functions.dwarf.debug_info import DebugInfo
from sslsniff.functions.dwarf.function_model import (
    AddressRange,
    DescribedFunction,
    FunctionCopy,
    Language,
)
from sslsniff.functions.places.plan_limits import BUILD_REMEDY, nearest_names
from sslsniff.functions.runtimes.goroutines import goroutine_location
from sslsniff.libraries.go.function_table import GoFunctions
from sslsniff.libraries.go.memory import Memory

_RUST_MANGLINGS = ("_R", "_ZN")


class ChosenFunctions(NamedTuple):
    """The functions that match.

    ``merged``: by the name of one of them, other names that match for its code: linkers merge
    functions that are alike.
    """

    functions: list[DescribedFunction]
    merged: dict[str, list[str]]


def choose_functions(elf: Elf, patterns: Sequence[str], debug: DebugInfo | None) -> ChosenFunctions:
    """Return the functions that match ``patterns``, those without debug info from the symbols.

    A pattern that is a whole name matches only that. Raises ``TargetError``: one matches nothing.
    """
    compiled = [re.compile(each) for each in patterns]

    def is_wanted(name: str) -> bool:
        return any(each.search(name) for each in compiled)

    found = list(debug.functions(is_wanted)) if debug else []
    at_address = {
        copy.entries[0]: each for each in found for copy in each.copies if copy.into is None
    }
    merged: dict[str, list[str]] = {}
    language = Language.GO if goroutine_location(elf) else None
    parts = _Parts(elf, {each.name for each in found}, is_go=language is not None)
    for name, symbol, function in _symbols(elf):
        if not function.size or not is_wanted(name) or parts.has(symbol):
            continue
        other = at_address.get(function.address)
        if other is None:
            ranges = (function, *parts.of(symbol))
            at_address[function.address] = _undescribed(name, symbol, ranges, language)
            found.append(at_address[function.address])
        elif symbol != other.symbol and _is_alias(symbol, name, other.name):
            merged.setdefault(other.name, []).append(name)
    names = {each.name for each in found}
    exact = names.intersection(patterns)
    others = [pattern for pattern in compiled if pattern.pattern not in exact]
    chosen = [
        each
        for each in found
        if each.name in exact or any(pattern.search(each.name) for pattern in others)
    ]
    missing = _unmatched(patterns, [each.name for each in chosen])
    if missing:
        raise _nothing_matches(elf, missing, debug)
    merged = {each.name: merged[each.name] for each in chosen if each.name in merged}
    return ChosenFunctions(chosen, merged)


def _is_alias(symbol: str, name: str, other: str) -> bool:
    """Say whether a symbol is another function's than ``other``, for the same code.

    C++ has several symbols for one constructor, and gcc adds what it changed: ``f.constprop.0``.
    """
    is_own = name == other or name.startswith(f"{other}.")
    return not is_own and (demangle(symbol) is not None or not symbol.startswith("_Z"))


def described_names(debug: DebugInfo, patterns: Iterable[str]) -> set[str]:
    """Return the names in debug info that match, without reading what it says of them."""
    matches = [re.compile(each).search for each in patterns]
    found: set[str] = set()

    def note(name: str) -> bool:
        if any(match(name) for match in matches):
            found.add(name)
        return False

    debug.functions(note)
    return found


def _symbols(elf: Elf) -> Iterator[tuple[str, str, Function]]:
    """Yield the demangled name, the symbol and the code of each function in symbol tables."""
    for symbol, function in elf.functions():
        yield readable_name(symbol), symbol, function
    if elf.own_symbols() is None and goroutine_location(elf) is not None:
        for name, function in GoFunctions(Memory(elf)).functions():
            yield name, name, function


class _Parts:
    """The symbols that are parts of functions; ``described``: the names with debug info."""

    def __init__(self, elf: Elf, described: set[str], *, is_go: bool) -> None:
        symbols = () if is_go else elf.functions_with(*MARKS_OF_PARTS)
        self._jumped_to: dict[str, list[Function]] = {}
        self._parts: set[str] = set()
        for symbol, function in symbols:
            owner, base = jumped_from(symbol), part_of(symbol)
            if owner is not None:
                self._jumped_to.setdefault(owner, []).append(function)
            is_known = base is not None and (
                readable_name(base) in described or elf.function(base) is not None
            )
            if owner is not None or is_known:
                self._parts.add(symbol)

    def has(self, symbol: str) -> bool:
        """Say whether a symbol is a part: a call of the function passes its beginning, too."""
        return symbol in self._parts

    def of(self, symbol: str) -> list[Function]:
        """Return the code elsewhere that a function jumps to."""
        return self._jumped_to.get(symbol, [])


def _undescribed(
    name: str, symbol: str, code: Sequence[Function], language: Language | None
) -> DescribedFunction:
    """Return a function that only the symbol table has; ``code``: its parts, the entry's first."""
    if language is None:
        language = Language.RUST if symbol.startswith(_RUST_MANGLINGS) else Language.OTHER
    ranges = tuple(AddressRange(each.address, each.address + each.size) for each in code)
    copy = FunctionCopy(ranges, (code[0].address,))
    return DescribedFunction(name, symbol, language, None, (), None, (copy,), has_parameters=False)


def _unmatched(patterns: Iterable[str], names: Sequence[str]) -> list[str]:
    """Return the patterns that match none of ``names``."""
    return [
        pattern
        for pattern in patterns
        if pattern not in names and not any(map(re.compile(pattern).search, names))
    ]


def _nothing_matches(elf: Elf, patterns: Sequence[str], debug: DebugInfo | None) -> TargetError:
    names = {name for name, _, _ in _symbols(elf)}
    if debug is not None:
        names |= described_names(debug, [""])
    if not names:
        return ElfError(
            f"{elf.path} has neither symbols nor debug info",
            "build it with symbols, or install its debug file",
        )
    near = nearest_names(patterns, names)
    remedy = f"did you mean {' or '.join(near)}?" if near else "see sslsniff symbols."
    remedy += f" If it was inlined, only debug info tells where: {BUILD_REMEDY}"
    return TargetError(f"no function of {elf.path} matches {' or '.join(patterns)}", remedy)
