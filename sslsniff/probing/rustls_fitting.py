"""The probes for rustls in a file, by what was found of it.

Each version of rustls in a file is a part, and in it TLS 1.2 and 1.3, whose ciphers differ: so a
connection's TLS version is known.
"""

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function
from sslsniff.probing.placing import entry_probes
from sslsniff.probing.plans.rustls_ciphers import LAYOUTS, METHODS, nearest
from sslsniff.probing.probe_set import Probe, ProbedLibrary, ReturnStyle, UnfitError, Unprobed
from sslsniff.probing.rustls import Version, find_rustls

LIBRARY = "rustls"
# A return probe turns a panic into an abort: ``plans.rustls``.
_STYLE = ReturnStyle.PLAIN_INSTRUCTIONS


def fit_rustls(elf: Elf) -> tuple[list[ProbedLibrary], list[str], list[Unprobed]]:
    """Return the parts of a file that are rustls, what they leave out, and what is not probed.

    With the reason of each. Raises ``ElfError`` if the file is damaged.
    """
    search = find_rustls(elf)
    unprobed = [Unprobed(LIBRARY, LIBRARY, *refused) for refused in search.refused]
    left_out = list(search.doubts)
    groups: dict[tuple[Version, int | None], list[Probe]] = {}
    for found in search.found:
        if found.version is None:
            left_out.append(f"{found.name}: the version of its rustls is unknown")
            continue
        try:
            function = Function(found.address, found.size)
            programs = METHODS[found.method]
            probes = list(entry_probes(elf, found.name, function, programs, _STYLE))
        except UnfitError as unfit:
            left_out.append(str(unfit))
        else:
            groups.setdefault((found.version, found.tls_version), []).extend(probes)
    if left_out and not groups:
        releases = ", ".join(search.versions) or None
        unprobed.append(Unprobed(LIBRARY, LIBRARY, releases, "; ".join(left_out)))
    return [make_part(*key, probes) for key, probes in groups.items()], left_out, unprobed


def make_part(version: Version, tls_version: int | None, probes: list[Probe]) -> ProbedLibrary:
    """Return the part that is of these versions."""
    known = nearest(version)
    return ProbedLibrary(
        library=LIBRARY,
        probes=tuple(dict.fromkeys(probes)),
        layout=LAYOUTS[known],
        version=_text(version),
        read_as=None if known == version else _text(known),
        tls_version=tls_version,
    )


def _text(version: Version) -> str:
    return ".".join(map(str, version))
