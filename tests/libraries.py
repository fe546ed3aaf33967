"""Real TLS libraries to test with: Debian's, from all its suites, fetched on demand.

Each lies in a folder under ``.cache/libs`` with what it needs to be loaded.
"""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.workload.debian import CACHE, one_at_a_time, unpack

_PATIENCE_S = 300


class _Package(NamedTuple):
    """A package of a suite, the file in it, and other packages ``beside`` it that this needs.

    ``base``: the suite with the C library that it needs beside it.
    """

    suite: str
    name: str
    base: str | None = None
    file: str = "lib*ssl.so.?*"
    beside: tuple[str, ...] = ()


_NSS = ("libnss3", "libnspr4", "libsqlite3-0")
_NODE = (
    "nodejs",
    "libuv1",
    "libc-ares2",
    "libicu72",
    "libnghttp2-14",
    "libbrotli1",
    "node-acorn",
    "node-cjs-module-lexer",
    "node-undici",
)
_MBEDTLS = ("libmbedcrypto7", "libmbedx509-1")
_MBEDTLS_2_16 = ("libmbedcrypto3", "libmbedx509-0")
_MBEDTLS_3_6 = ("libmbedcrypto16", "libmbedx509-7")
_LIGHTTPD = (
    "lighttpd-mod-mbedtls",
    "lighttpd-mod-wolfssl",
    "libcrypt1",
    "libpcre2-8-0",
    "libxxhash0",
)
_LIGHTTPD_1_4_69 = (*_LIGHTTPD, "libwolfssl35", "libmbedtls14", *_MBEDTLS, "libnettle8")
_LIGHTTPD_1_4_79 = (*_LIGHTTPD, "libwolfssl42t64", "libmbedtls21", *_MBEDTLS_3_6, "libnettle8t64")
_OF_GNUTLS = ("libgmp10", "libidn2-0", "libp11-kit0", "libffi8", "libtasn1-6", "libunistring5")
_NEW_GNUTLS = ("libhogweed6t64", "libnettle8t64", *_OF_GNUTLS)
_GNUTLS_FILE = "libgnutls.so.?*"
_PACKAGES = {
    "1.1.1": _Package("bullseye", "libssl1.1"),
    "3.0": _Package("bookworm", "libssl3"),
    "3.5": _Package("trixie", "libssl3t64", base="trixie"),
    "3.6": _Package("sid", "libssl3t64", base="sid"),
    "4.0": _Package("experimental", "libssl4", base="sid"),
    "openssl-1.1.1-static": _Package("bullseye", "libssl-dev", None, "libssl.a"),
    "openssl-3.0-static": _Package("bookworm", "libssl-dev", None, "libssl.a"),
    "boringssl": _Package("trixie", "android-libboringssl"),
    "wolfssl-4.6": _Package("bullseye", "libwolfssl24"),
    "wolfssl-5.5": _Package("bookworm", "libwolfssl35"),
    "wolfssl-5.7": _Package("trixie", "libwolfssl42t64", base="trixie"),
    "wolfssl-5.9": _Package("sid", "libwolfssl45", base="sid"),
    "wolfssl-static": _Package("bookworm", "libwolfssl-dev", None, "libwolfssl.a"),
    "mbedtls-2.16": _Package("bullseye", "libmbedtls12", None, "libmbedtls.so.?*", _MBEDTLS_2_16),
    "mbedtls-2.28": _Package("bookworm", "libmbedtls14", None, "libmbedtls.so.?*", _MBEDTLS),
    "mbedtls-3.6": _Package("trixie", "libmbedtls21", "trixie", "libmbedtls.so.?*", _MBEDTLS_3_6),
    "mbedtls-2.16-static": _Package("bullseye", "libmbedtls-dev", None, "libmbedtls.a"),
    "mbedtls-2.28-static": _Package("bookworm", "libmbedtls-dev", None, "libmbedtls.a"),
    "mbedtls-3.6-static": _Package("trixie", "libmbedtls-dev", None, "libmbedtls.a"),
    "lighttpd-1.4.69": _Package("bookworm", "lighttpd", None, "libwolfssl.so.?*", _LIGHTTPD_1_4_69),
    "lighttpd-1.4.79": _Package(
        "trixie", "lighttpd", "trixie", "libwolfssl.so.?*", _LIGHTTPD_1_4_79
    ),
    "gnutls-3.7.1": _Package("bullseye", "libgnutls30", None, _GNUTLS_FILE),
    "gnutls-3.7.9": _Package("bookworm", "libgnutls30", None, _GNUTLS_FILE),
    "gnutls-3.8.9": _Package("trixie", "libgnutls30t64", "trixie", _GNUTLS_FILE, _NEW_GNUTLS),
    "gnutls-3.8": _Package("sid", "libgnutls30t64", "sid", _GNUTLS_FILE, _NEW_GNUTLS),
    "glibc": _Package("trixie", "libc6", None, "libc.so.6"),
    "musl": _Package("trixie", "musl", None, "libc.so"),
    "nodejs": _Package("bookworm", "libnode108", None, "libnode.so.?*", _NODE),
    "nss-3.61": _Package("bullseye", "libnss3-tools", None, "libssl3.so", _NSS),
    "nss-3.87": _Package("bookworm", "libnss3-tools", None, "libssl3.so", _NSS),
    "nss-3.110": _Package("trixie", "libnss3-tools", "trixie", "libssl3.so", _NSS),
    "nss-3": _Package("sid", "libnss3-tools", "sid", "libssl3.so", _NSS),
}
_BASE = ("libc6", "zlib1g", "libzstd1")
OPENSSL = tuple(series for series in _PACKAGES if series[0].isdigit())
"""The series of OpenSSL, oldest first."""
NSS = tuple(series for series in _PACKAGES if series.startswith("nss-"))
"""The series of NSS, oldest first."""

GNUTLS = tuple(series for series in _PACKAGES if series.startswith("gnutls-"))
"""Those of GnuTLS, oldest first."""


def is_of_another_release(value: object) -> bool:
    """Whether this names a library of another release of Debian than the one tests are made for.

    Each release has lists of packages to fetch first: only make test-all does that.
    """
    package = _PACKAGES.get(value) if isinstance(value, str) else None
    return package is not None and package.suite != "bookworm"


_FOLDERS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu", "i386": "i386-linux-gnu"}
"""Debian's name of an architecture -> that of its folder."""


class Library(NamedTuple):
    """One TLS library. ``version`` is the package's."""

    series: str
    version: str
    folder: Path
    architecture: str = "amd64"

    @property
    def path(self) -> Path:
        file = _PACKAGES[self.series].file
        return min(self.folder.glob(f"usr/lib/{_FOLDERS[self.architecture]}/**/{file}"))

    @property
    def loader(self) -> list[str | Path]:
        """What to put before a program so that it loads this libssl."""
        libraries = self.path.parent
        loader = libraries / "ld-linux-x86-64.so.2"
        if loader.exists():  # a C library newer than the system's needs its own loader
            return [loader, "--library-path", libraries]
        return ["env", f"LD_LIBRARY_PATH={libraries}"]

    def run(self, *arguments: str | Path) -> str:
        """Run Python so that it loads this libssl; return what it prints."""
        done = subprocess.run(
            [*self.loader, sys.executable, *arguments],
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def java() -> Path:
    """Return the virtual machine of a Java: a library that has no probes."""
    found = next(Path("/usr/lib/jvm").glob("*/lib/server/libjvm.so"), None)
    return found or pytest.fail("there is no Java: make test-all installs it")


@cache
def library(series: str, architecture: str = "amd64") -> Library:
    """Return the library called ``series``; the test that asks fails where it cannot be had.

    With SSLSNIFF_OFFLINE=1 that test is skipped instead. One for another ``architecture`` than this
    machine's is only to be looked at.
    """
    package = _PACKAGES[series]
    name = package.name if architecture == "amd64" else f"{package.name}-{architecture}"
    folder = CACHE / "libs" / f"{package.suite}-{name}"
    done = folder / "version"
    if not done.exists():
        if os.environ.get("SSLSNIFF_OFFLINE") == "1":
            pytest.skip(f"{series} is not in {CACHE} and SSLSNIFF_OFFLINE is set")
        try:
            with one_at_a_time(folder.with_name(f"{folder.name}.lock")):
                if not done.exists():  # another process may have fetched it meanwhile
                    done.write_text(_fetch(package, folder, architecture))
        except (OSError, subprocess.SubprocessError) as error:
            told = getattr(error, "stderr", None) or error
            pytest.fail(
                f"cannot fetch {package.name} of Debian {package.suite} (apt-get and the network "
                f"are needed; SSLSNIFF_OFFLINE=1 does without): {told}"
            )
    version = done.read_text()
    numbered = series in (*OPENSSL, *GNUTLS, *NSS)
    number = version.partition(":")[2] or version  # without the epoch
    if numbered and not number.startswith(series.rpartition("-")[2]):
        pytest.fail(f"Debian {package.suite} has moved on to {version}: give it a row of its own")
    return Library(series, version, folder, architecture)


def _fetch(package: _Package, folder: Path, architecture: str) -> str:
    names = [package.name, *package.beside]
    version = unpack(package.suite, names, folder, architecture)[package.name]
    if package.base and architecture == "amd64":
        unpack(package.base, _BASE, folder)
    return version
