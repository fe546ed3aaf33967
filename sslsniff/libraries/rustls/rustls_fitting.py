"""Places the probes for rustls in a file, at the methods that were found there.

Each version of rustls in a file is a library of its own. So are its TLS 1.2 and TLS 1.3, because
their ciphers differ: this tells a connection's TLS version.
"""

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function
from sslsniff.libraries.rustls.plaintext_methods import Version, find_rustls
from sslsniff.libraries.rustls.plan import LAYOUTS, METHODS, nearest
from sslsniff.matching.library import Found
from sslsniff.matching.placing import entry_probes
from sslsniff.matching.probe_set import Probe, ProbedLibrary, ReturnStyle, UnfitError, Unprobed

LIBRARY = "rustls"
# A return probe turns a panic into an abort: ``libraries.rustls.plan``.
_STYLE = ReturnStyle.PLAIN_INSTRUCTIONS


def fit_rustls(elf: Elf) -> Found:
    """Return the probed rustls libraries of a file, and what is not probed, with the reasons.

    Raises ``ElfError`` if the file is damaged.
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
    parts = [make_library(*key, probes) for key, probes in groups.items()]
    return Found(parts, left_out, unprobed)


def make_library(version: Version, tls_version: int | None, probes: list[Probe]) -> ProbedLibrary:
    """Return the library with these versions and probes."""
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
