"""Compares what is found in a program without symbols with the symbols of the same program."""

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from sslsniff.elf.elf_file import Elf
from sslsniff.errors import ElfError
from sslsniff.probing.boringssl.stripped_fitting import find_without_symbols
from tests.workload.boringssl.builds import Build
from tests.workload.boringssl.releases import Release

NEEDED = ("SSL_read", "SSL_write")
OTHERS = (
    "SSL_peek",
    "SSL_do_handshake",
    "SSL_shutdown",
    "SSL_new",
    "SSL_free",
    "SSL_set_tlsext_host_name",
)
_RESULT_UNUSED = ("SSL_shutdown", "SSL_free", "SSL_set_tlsext_host_name")
_DESTROYERS = ("_ZN6ssl_stD1Ev", "_ZN6ssl_stD2Ev", "_ZN4bssl6DeleteI6ssl_stEEvPT_")
"""They get the object that ``SSL_free`` gets, and are what is left of it if it is inlined."""


class Verdict(Enum):
    """What a finding came to.

    INLINED: refused, and the program has no such function.
    """

    RIGHT = "right"
    REFUSED = "refused"
    INLINED = "inlined"
    WRONG = "wrong"


class Judged(NamedTuple):
    """The verdict on one function; ``detail`` is the reason of a refusal, or what was found."""

    verdict: Verdict
    detail: str = ""


class Outcome(NamedTuple):
    """What was found in one build."""

    release: Release
    how: Build
    verdicts: Mapping[str, Judged]

    @property
    def is_found(self) -> bool:
        """Whether reads and writes can be probed."""
        return all(self.verdicts[name].verdict is Verdict.RIGHT for name in NEEDED)


class Damaged(NamedTuple):
    """What was found in ``copies`` damaged copies of one build.

    ``found``: the copies in which both functions were still proved, and right.
    ``wrong``: what was wrong, a line each.
    """

    release: Release
    how: Build
    copies: int
    found: int
    wrong: tuple[str, ...]


class Findings(NamedTuple):
    """The functions that were proved, by name, and the reasons why others were not."""

    addresses: Mapping[str, int]
    reasons: Mapping[str, str]
    refusal: str = ""


Truth = Mapping[str, frozenset[int]]
"""The addresses of each symbol."""


def read_truth(program: Path) -> Truth:
    """Return the addresses of all functions in a program's symbol table; none if it has none."""
    found: dict[str, set[int]] = {}
    with program.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        symbols = table.iter_symbols() if isinstance(table, SymbolTableSection) else ()
        for symbol in symbols:
            if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] != "SHN_UNDEF":
                found.setdefault(symbol.name, set()).add(symbol["st_value"])
    return {name: frozenset(addresses) for name, addresses in found.items()}


def find(program: Path) -> Findings:
    """Return what is found in a program; a damaged one may be refused."""
    try:
        with Elf(str(program)) as elf:
            libraries = list(find_without_symbols(elf))
    except ElfError as error:
        return Findings({}, {}, str(error))
    found = next((each for each in libraries if each.refusal is None), libraries[0])
    return Findings(
        {
            each.name: each.function.address
            for each in found.functions
            if each.is_proved and each.function
        },
        {each.name: "; ".join(each.against) for each in found.functions if not each.is_proved},
        found.refusal or "",
    )


def judge(findings: Findings, truth: Truth) -> dict[str, Judged]:
    """Return the verdict on each function."""
    return {name: _judged(name, findings, truth) for name in (*NEEDED, *OTHERS)}


def _judged(name: str, findings: Findings, truth: Truth) -> Judged:
    address = findings.addresses.get(name)
    if address is None:
        reason = findings.refusal or findings.reasons.get(name, "not found")
        return Judged(Verdict.REFUSED if name in truth else Verdict.INLINED, reason)
    is_at = sorted(symbol for symbol, addresses in truth.items() if address in addresses)
    if any(_is_as_good(each, name) for each in is_at):
        return Judged(Verdict.RIGHT)
    return Judged(Verdict.WRONG, f"{name} is not at {address:#x}: {', '.join(is_at) or 'nothing'}")


def _is_as_good(symbol: str, name: str) -> bool:
    """Say whether a function does for ``name``.

    GCC's clones without an unused result or argument do for functions whose results are not read:
    the object is the first argument of all, and never unused.
    """
    base, _, clone = symbol.partition(".")
    if name == "SSL_free" and base in _DESTROYERS:
        return True
    return base == name and (not clone or name in _RESULT_UNUSED)
