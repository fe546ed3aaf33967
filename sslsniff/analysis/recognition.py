"""Recognises TLS libraries that cannot be probed, so that sslsniff can name them.

A shared library is known by the functions that it exports: ten microseconds a library. One that is
linked in is known by texts that no other program has: 0.5 ms for each megabyte of read-only data.
"""

import re
from collections.abc import Collection, Iterable

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.mapped_file import Region
from sslsniff.libraries.supported import FAMILY_UNPROBED, OTHER_UNPROBED, SEARCHES
from sslsniff.matching.library import UnprobedLibrary
from sslsniff.matching.probe_set import Unprobed
from sslsniff.matching.rows import Plan

_LEAST_CODE_BYTES = 64 << 10
"""A file with less code has no TLS library: the smallest TLS client of Mbed TLS has more."""

_FIRST_TEXTS = (".rodata", ".go.buildinfo")
"""Where first texts are. The second section has the modules of a Go program."""
_OTHER_TEXTS = (".rodata", ".go.type", ".data.rel.ro.go.type", ".data.rel.ro")
"""The last three have the names of Go's types: since 1.27, and in position-independent programs."""

_LONGEST_VERSION_BYTES = 128
_SEARCHED_TEXTS = frozenset(each.text for each in SEARCHES.values() if each.text is not None)
_TEXTS = _SEARCHED_TEXTS | frozenset(
    kind.texts[0] for kind in (*OTHER_UNPROBED, *FAMILY_UNPROBED) if kind.texts
)


def first_texts(elf: Elf) -> frozenset[bytes]:
    """Return the texts in a file's read-only data that hint at a library: one text for each.

    Most files have none of them, so that their data is read only once. Raises ``ElfError`` if the
    file is damaged.
    """
    code_bytes = sum(size for _, size in elf.code_parts)
    wanted = _SEARCHED_TEXTS if code_bytes < _LEAST_CODE_BYTES else _TEXTS
    found: set[bytes] = set()
    for strings in map(elf.section_region, _FIRST_TEXTS):
        for _, piece in strings.pieces(max(map(len, wanted)) - 1):
            found.update(text for text in wanted - found if text in piece)
    return frozenset(found)


def recognise(elf: Elf, texts: Collection[bytes], planned: set[str]) -> list[Unprobed]:
    """Return the TLS libraries in a file that have no probes; raises ``ElfError`` if damaged.

    ``texts``: its ``first_texts``.
    ``planned``: the libraries for which the file has a plan: they are not searched.
    """
    strings = [elf.section_region(name) for name in _OTHER_TEXTS]
    has_family = not planned.isdisjoint({each.library for each in FAMILY_UNPROBED})
    kinds = [
        each
        for each in (*OTHER_UNPROBED, *(() if has_family else FAMILY_UNPROBED))
        if each.library not in planned
    ]
    return [
        _row(kind, find_version(elf, kind.version))
        for kind in kinds
        if _exports(elf, kind) or (_has_texts(strings, texts, kind) and _has_data(elf, kind))
    ]


def _exports(elf: Elf, kind: UnprobedLibrary) -> bool:
    return bool(kind.exports) and all(map(elf.exports, kind.exports))


def _has_texts(strings: list[Region], texts: Collection[bytes], kind: UnprobedLibrary) -> bool:
    if not kind.texts or kind.texts[0] not in texts:
        return False
    is_other = kind.unless is not None and any(kind.unless in each for each in strings)
    return not is_other and all(any(text in each for each in strings) for text in kind.texts[1:])


def _has_data(elf: Elf, kind: UnprobedLibrary) -> bool:
    if not kind.data_texts:
        return True
    data = elf.section_region(".data")
    return all(text in data for text in kind.data_texts)


def find_version(elf: Elf, pattern: re.Pattern[bytes] | None) -> str | None:
    """Return the version that ``pattern`` finds in a file's read-only data; None: none."""
    if pattern is None:
        return None
    strings = elf.section_region(".rodata")
    pieces: Iterable[bytes] = (piece for _, piece in strings.pieces(_LONGEST_VERSION_BYTES))
    found = next(filter(None, map(pattern.search, pieces)), None)
    return found[1].decode() if found else None


def plan_version(elf: Elf, plan: Plan) -> str | None:
    """Return the version of a plan's library in a file; None: none was found."""
    version = find_version(elf, plan.version)
    if version is not None or plan.symbol_version is None:
        return version
    names = elf.section_region(".dynstr")
    found = {
        match[1].decode()
        for _, piece in names.pieces(_LONGEST_VERSION_BYTES)
        for match in plan.symbol_version.finditer(piece)
    }
    return max(found, key=lambda each: [*map(int, each.split("."))], default=None)


def _row(kind: UnprobedLibrary, version: str | None) -> Unprobed:
    return Unprobed(kind.library, kind.name, version, kind.reason, kind.remedy, kind.is_runtime)
