"""Compares what is found in a program without symbols with the symbols of the same program."""

from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from sslsniff.analysis.stripped_fitting import find_without_symbols, fit_without_symbols
from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf
from sslsniff.machine_code.instructions import instruction_lines
from sslsniff.matching.object_layout import ObjectLayout
from sslsniff.matching.probe_set import Probe, ReturnStyle
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
_IF_FOUND = ("SSL_read_ex", "ssl_read_impl")
"""Functions of which only wrong places count: programs may have them for nothing."""
FIELDS = {
    "role": ("server", "server_mask"),
    "server name, in a client": ("sni",),
    "server name, in a server": ("sni_base", "sni_inner"),
    "ALPN": ("alpn_base", "alpn", "alpn_length"),
}
"""What is read of an object -> the fields of ``ObjectLayout`` that this takes."""

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
    """What was found in one build.

    ``verdicts``: by function. ``fields``: by ``FIELDS``. ``unfit``: why it gets no probes; "": it
    gets them. ``misplaced``: the probes that are not where an instruction begins, in words.
    """

    release: Release
    how: Build
    verdicts: Mapping[str, Judged]
    fields: Mapping[str, Judged]
    unfit: str
    misplaced: tuple[str, ...]

    @property
    def is_found(self) -> bool:
        """Whether reads and writes are found, and get probes."""
        found = all(self.verdicts[name].verdict is Verdict.RIGHT for name in NEEDED)
        return found and not self.unfit

    @property
    def wrong(self) -> tuple[str, ...]:
        """What is wrong, in words."""
        judged = (*self.verdicts.values(), *self.fields.values())
        wrong = (each.detail for each in judged if each.verdict is Verdict.WRONG)
        return (*wrong, *self.misplaced)


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
    layout: ObjectLayout = ObjectLayout()


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
        found.layout,
    )


def misplaced_probes(program: Path, stripped: Path) -> tuple[str, tuple[str, ...]]:
    """Return why a program gets no probes, "" if it does; and those that are misplaced, in words.

    Each must be where an instruction begins in the function that ``program``'s symbols have there.
    """
    with Elf(str(stripped)) as elf:
        parts, _, unprobed = fit_without_symbols(elf, ReturnStyle.INSTRUCTIONS)
        if not parts:
            return unprobed[0].reason, ()
        [(start, _)] = elf.code_parts
        shift = start - elf.offset(start)
        probes = {each.offset + shift: each for part in parts for each in part.probes}
    with Elf(str(program)) as elf:
        return "", tuple(_misplaced(elf, probes))


def _misplaced(elf: Elf, probes: Mapping[int, Probe]) -> Iterator[str]:
    functions = {symbol.function for symbol in elf.functions()}
    for address, probe in probes.items():
        around = [each for each in functions if 0 <= address - each.address < each.size]
        begins = {
            at for each in around for at, *_ in instruction_lines(elf.code(each), each.address)
        }
        if address not in begins:
            yield f"{probe.program} is at {address:#x}, where no instruction begins"


def judge_fields(layout: ObjectLayout, truth: Mapping[str, int]) -> dict[str, Judged]:
    """Return the verdict on what is read of an object; ``truth``: where the compiler has it."""
    found, verdicts = layout._asdict(), {}
    for name, fields in FIELDS.items():
        if all(found[each] is None for each in fields):
            verdicts[name] = Judged(Verdict.REFUSED)
        elif all(found[each] == truth[each] for each in fields):
            verdicts[name] = Judged(Verdict.RIGHT)
        else:
            shown = ", ".join(f"{each}: {found[each]}, not {truth[each]}" for each in fields)
            verdicts[name] = Judged(Verdict.WRONG, f"{name} is not at {shown}")
    return verdicts


def judge(findings: Findings, truth: Truth) -> dict[str, Judged]:
    """Return the verdict on each function."""
    found = (each for each in _IF_FOUND if each in findings.addresses)
    return {name: _judged(name, findings, truth) for name in (*NEEDED, *OTHERS, *found)}


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
    if name == "ssl_read_impl":  # it is static, and its name is mangled
        return name in base
    return base == name and (not clone or name in _RESULT_UNUSED)
