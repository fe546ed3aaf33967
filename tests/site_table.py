"""``python -m tests.site_table``: writes the tables of docs/sites.md, from Debian's libraries."""

import sys
from collections.abc import Iterator
from pathlib import Path

from sslsniff.attachments import Attachment, make_attachment
from sslsniff.elf import Elf
from sslsniff.parts import Probe, ReturnStyle
from sslsniff.sites import MACHINES, best_site
from tests import libraries
from tests.unit import test_aarch64

PAGE = Path(__file__).parent.parent / "docs/sites.md"
_BEGIN, _END = "<!-- {} -->\n", "<!-- end -->\n"
_DIRECTIONS = {"c_read": "read", "c_write": "write"}


def main() -> int:
    PAGE.write_text(written(PAGE.read_text()))
    return 0


def written(page: str) -> str:
    """Return ``page`` with the tables as they are now between its marks."""
    for mark, table in (("x86-64", x86_64()), ("aarch64", aarch64())):
        before, begin, rest = page.partition(_BEGIN.format(mark))
        _, end, after = rest.partition(_END)
        page = f"{before}{begin}\n{table}\n{end}{after}"
    return page


def x86_64() -> str:
    """Return the table of what is probed by default on this machine's kind."""
    lines = ["| OpenSSL | function | enter | return |", "|---|---|---|---|"]
    for series in libraries.OPENSSL:
        with Elf(str(libraries.library(series).path)) as elf:
            found = make_attachment(elf, ReturnStyle.TRAMPOLINE)
            assert isinstance(found, Attachment)
            for name, enter, leave in _functions(elf, found.probes):
                lines.append(f"| {series} | {name} | {enter} | {leave} |")
    return "\n".join(lines) + "\n"


def _functions(elf: Elf, probes: tuple[Probe, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield each function that has probes, where it is entered, and where its return is seen."""
    names = {each.function.address: f"`{each.name}`" for each in elf.functions()}
    at: dict[int, list[Probe]] = {}
    code = next(elf.executable())
    first = code.address - elf.offset(code.address)
    for probe in probes:
        function = elf.function_around(first + probe.offset)
        assert function is not None
        at.setdefault(function.address, []).append(probe)
    for start, own in at.items():
        places = ["", ""]
        for probe in own:
            inside = f"+{first + probe.offset - start}, {probe.cost.value}"
            is_return = probe.program.endswith("_return")
            places[is_return] = "return probe there" if probe.is_return else inside
            if probe.is_return and len(own) == 1:
                places[is_return] = f"return probe at {inside}"
        yield names.get(start) or _unnamed(own), *places


def _unnamed(own: list[Probe]) -> str:
    """Return what a function without a symbol is: the internal one, or one of a BIO."""
    direction = next(
        word
        for each in own
        for begin, word in _DIRECTIONS.items()
        if each.program.startswith(begin)
    )
    is_internal = any(each.is_return for each in own)
    return f"`ssl_{direction}_internal`" if is_internal else f"`ssl_{direction}` of `BIO_f_ssl`"


def aarch64() -> str:
    """Return the table of sites in aarch64 libraries, without a return probe and with one."""
    names = list(test_aarch64.TABLE["3.0"])
    shown = {"read": "`ssl_read_internal`", "write": "`ssl_write_internal`"}
    heads = " | ".join(shown.get(each, f"`{each}`") for each in names)
    lines = [f"| OpenSSL | {heads} |", "|---" * (len(names) + 1) + "|"]
    for series in libraries.OPENSSL:
        with Elf(str(libraries.library(series, "arm64").path)) as elf:
            cells = [
                _pair(elf, name) if name in test_aarch64.TABLE[series] else "" for name in names
            ]
        lines.append(f"| {series} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _pair(elf: Elf, name: str) -> str:
    function = test_aarch64.find(elf, name)
    code, needed = elf.code(function), test_aarch64.NEEDED[name]
    cells = []
    for with_return in (False, True):
        site = best_site(
            code, function.address, needed, with_return=with_return, machine=MACHINES["aarch64"]
        )
        assert site is not None
        cells.append(f"{site.cost.value} +{site.address - function.address}")
    return ", ".join(dict.fromkeys(cells))


if __name__ == "__main__":
    sys.exit(main())
