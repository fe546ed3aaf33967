"""Which releases of the smaller TLS libraries are tested, and by which of their functions.

tests/workload/c/https has a client and a server of HTTP/1.1, and a file for each library.
"""

import os
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import libraries
from tests.workload import s2n
from tests.workload.processes import PROGRAMS, run

ALL = os.environ.get("SSLSNIFF_LIBRARIES") == "all"
_SOURCES = PROGRAMS / "c/https"
_FLAGS = ("-O1", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{_SOURCES}")
_MBEDTLS = ("libmbedtls", "libmbedx509", "libmbedcrypto")

RELEASES = {
    "wolfssl": ("4.6", "5.5", "5.7", "5.9"),
    "mbedtls": ("2.16", "2.28", "2.28-static", "3.6"),
    "s2n": tuple(s2n.CRATES),
}
_WAYS = {
    "wolfssl": ("plain", "flags", "list", "peek", "plain-again", "list-again"),
    "mbedtls": ("plain", "plain-again"),
    "s2n": ("plain", "list", "offset", "plain-again", "offset-again"),
}


class Case(NamedTuple):
    """A release of a library, and the functions for data that the programs call (``way``)."""

    library: str
    release: str
    way: str

    def build(self, folder: Path) -> list[str | Path]:
        """Build the program in ``folder``; return how to run it, without its arguments."""
        program = folder / self.library
        return _BUILDS[self.library](self.release, program)

    @property
    def marks(self) -> list[pytest.MarkDecorator]:
        """What make test installs has no s2n-tls, and the libraries of one release of Debian."""
        series = f"{self.library}-{self.release}"
        is_heavy = self.library == "s2n" or libraries.is_of_another_release(series)
        return [pytest.mark.heavy] if is_heavy else []

    def arguments(self, role: str) -> list[str | Path]:
        """Return the program's first arguments."""
        opened = self.library == "wolfssl"
        return [role, _path(f"wolfssl-{self.release}") if opened else "-", self.way]


def _path(series: str) -> Path:
    return libraries.library(series).path


def _compile(library: str, program: Path, *options: str | Path) -> None:
    if not program.exists():
        sources = (_SOURCES / "https.c", _SOURCES / f"{library}.c")
        run("gcc", *_FLAGS, "-o", program, *sources, *options)


def _wolfssl(release: str, program: Path) -> list[str | Path]:
    _compile("wolfssl", program, "-ldl")
    return [*libraries.library(f"wolfssl-{release}").loader, program]


def _mbedtls(release: str, program: Path) -> list[str | Path]:
    program = program.with_name(f"mbedtls-{release}")
    library = libraries.library(f"mbedtls-{release}")
    static = libraries.library(f"mbedtls-{release.removesuffix('-static')}-static")
    kind = "a" if library == static else "so.?*"
    linked = [min(library.path.parent.glob(f"{each}.{kind}")) for each in _MBEDTLS]
    headers = f"-I{static.folder}/usr/include"
    _compile("mbedtls", program, headers, *linked, "-Wl,--allow-shlib-undefined")
    return [program] if library == static else [*library.loader, program]


def _s2n(release: str, program: Path) -> list[str | Path]:
    program = program.with_name(f"s2n-{release}")
    built = s2n.built(s2n.CRATES[release])
    _compile(
        "s2n", program, f"-I{built}/include", built / "lib/libs2n.so", f"-Wl,-rpath,{built}/lib"
    )
    return [program]


_BUILDS = {"wolfssl": _wolfssl, "mbedtls": _mbedtls, "s2n": _s2n}


def _ways(library: str, release: str) -> tuple[str, ...]:
    if release == "4.6":  # its wolfSSL_peek waits on after a session ticket, watched or not
        return tuple(each for each in _WAYS[library] if each != "peek")
    return (*_WAYS[library], "ex", "ex-again") if release == "5.9" else _WAYS[library]


_NEWEST_S2N = RELEASES["s2n"][-1]
EVERY = tuple(
    Case(library, release, way)
    for library, releases in RELEASES.items()
    for release in releases
    for way in _ways(library, release)
)
FEW = (
    Case("mbedtls", "2.28-static", "plain"),
    Case("wolfssl", "5.5", "peek"),
    Case("wolfssl", "5.9", "list-again"),
    Case("mbedtls", "3.6", "plain-again"),
    Case("s2n", _NEWEST_S2N, "plain"),
    Case("s2n", _NEWEST_S2N, "offset-again"),
)
