"""``python -m tests.site_table``: writes the tables of docs/sites.md, from Debian's libraries."""

import sys
from collections.abc import Iterator
from pathlib import Path

from sslsniff.analysis.attachments import make_attachment
from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.openssl.plan import OPENSSL
from sslsniff.machine_code.probe_sites import MACHINES, Cost, best_site
from sslsniff.matching.probe_set import Attachment, Probe, ReturnStyle
from sslsniff.matching.raising_functions import find_raising
from sslsniff.matching.rows import Raising
from tests import libraries
from tests.unit.machine_code import test_aarch64, test_call_chains

PAGE = Path(__file__).parent.parent / "docs/sites.md"
_BEGIN, _END = "<!-- {} -->\n", "<!-- end -->\n"
_SHOWN = {"boringssl": "BoringSSL"}
_READS, _WRITES, _DATAGRAMS = (
    test_call_chains.READS,
    test_call_chains.WRITES,
    test_call_chains.DATAGRAMS,
)
_QUIC_READS, _QUIC_WRITES = (signature for signature, _ in test_call_chains.QUIC)
_NAMES = {
    (_READS, True): "ssl3_read_internal",
    (_WRITES, True): "ssl3_write_bytes",
    **{(signature, False): "do_dtls1_write" for signature in _DATAGRAMS},
    (_QUIC_READS, False): "quic_read",
    (_QUIC_WRITES, False): "ossl_quic_write_flags",
}


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
    lines = ["| library | function | enter | return |", "|---|---|---|---|"]
    for series in (*libraries.OPENSSL, "boringssl"):
        with Elf(str(libraries.library(series).path)) as elf:
            found = make_attachment(elf, ReturnStyle.INSTRUCTIONS)
            assert isinstance(found, Attachment)
            inner = _inner(elf) if series in libraries.OPENSSL else {}
            shown = _SHOWN.get(series, f"OpenSSL {series}")
            for name, enter, leave in _functions(elf, found.probes, inner):
                lines.append(f"| {shown} | {name} | {enter} | {leave} |")
    return "\n".join(lines) + "\n"


def _inner(elf: Elf) -> dict[int, str]:
    """Return the inner functions that are probed, which have no symbols, by address."""
    raising = (each.function for each in OPENSSL.optional)
    found = {
        function.address: each.name
        for each in raising
        if isinstance(each, Raising) and (function := find_raising(elf, each)) is not None
    }
    return found | {
        link.function.address: _NAMES[link.signature, link.is_usual]
        for link in test_call_chains.links(elf)
    }


def _functions(
    elf: Elf, probes: tuple[Probe, ...], inner: dict[int, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield each function that has probes, where it is entered, and where its return is seen."""
    names = inner | {each.function.address: each.name for each in elf.functions()}
    at: dict[int, list[Probe]] = {}
    code = next(elf.executable())
    first = code.address - elf.offset(code.address)
    for probe in probes:
        function = elf.function_around(first + probe.offset)
        assert function is not None
        at.setdefault(function.address, []).append(probe)
    for start, own in at.items():
        places: tuple[dict[str, None], ...] = ({}, {})
        for probe in sorted(own, key=lambda each: each.offset):
            place = f"+{first + probe.offset - start}"
            dear = "" if probe.cost is Cost.EMULATED else f", {probe.cost.value}"
            places[probe.program.endswith("_return")][place + dear] = None
        yield f"`{names[start]}`", ", ".join(places[0]), ", ".join(places[1])


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
