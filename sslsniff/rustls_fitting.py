"""What was found of rustls in a file -> its parts: the probes that belong there.

Each version of rustls in a file is a part, and in it TLS 1.2 and 1.3, whose ciphers differ: so a
connection's TLS version is known.
"""

from collections.abc import Iterator

from sslsniff.elf import Elf
from sslsniff.parts import Part, Probe, UnfitError
from sslsniff.plans.rustls import LAYOUTS, METHODS, nearest
from sslsniff.returns import return_sites
from sslsniff.rustls import Found, Version, find_rustls
from sslsniff.sites import Cost, best_site
from sslsniff.symbols import Function

LIBRARY = "rustls"


def fit_rustls(elf: Elf) -> tuple[list[Part], list[str]]:
    """Return the parts of a file that are rustls, and what is left out of it, and why.

    Raises ``ElfError`` if the file is damaged.
    """
    search = find_rustls(elf)
    left_out = list(search.refusals)
    groups: dict[tuple[Version, int | None], list[Probe]] = {}
    for found in search.found:
        if found.version is None:
            left_out.append(f"{found.name}: the version of its rustls is unknown")
            continue
        try:
            probes = list(_probes(elf, found))
        except UnfitError as unfit:
            left_out.append(str(unfit))
        else:
            groups.setdefault((found.version, found.tls_version), []).extend(probes)
    return [make_part(*key, probes) for key, probes in groups.items()], left_out


def make_part(version: Version, tls_version: int | None, probes: list[Probe]) -> Part:
    """Return the part that is of these versions."""
    known = nearest(version)
    return Part(
        library=LIBRARY,
        probes=tuple(dict.fromkeys(probes)),
        layout=LAYOUTS[known],
        version=_text(version),
        read_as=None if known == version else _text(known),
        tls_version=tls_version,
    )


def _text(version: Version) -> str:
    return ".".join(map(str, version))


def _probes(elf: Elf, found: Found) -> Iterator[Probe]:
    """Yield a function's probes; raises ``UnfitError``."""
    programs = METHODS[found.method]
    code = elf.code(Function(found.address, found.size))
    with_return = programs.leave is not None
    site = best_site(code, found.address, programs.registers, with_return=with_return)
    if site is None:
        raise UnfitError(f"{found.name} has no place for a probe")
    yield Probe(programs.enter, elf.offset(site.address), False, site.cost)
    if programs.leave is not None:
        returns = return_sites(code, found.address, elf.data)
        if returns is None:
            raise UnfitError(f"{found.name} has ways out other than its return instructions")
        for address in returns:
            yield Probe(programs.leave, elf.offset(address), False, Cost.STEPPED)
