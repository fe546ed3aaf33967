"""Finds the releases of rustls in a file, by the source paths in its panic messages."""

import itertools
import re

from sslsniff.elf.mapped_file import Region
from sslsniff.libraries.rustls.methods import Version

# A source file that shows the version if no path has it: the sources were copied, or their paths
# were remapped. The newest version is first, because it may have the older files, too.
_FILES = {
    b"crypto/cipher/messages.rs": "0.24",
    b"msgs/message/outbound.rs": "0.23",
    b"crypto/tls13.rs": "0.22",
    b"msgs/deframer.rs": "0.21",
}

# The path of sources in cargo: .../rustls-0.23.45/src/lib.rs. Strings follow each other without an
# end, so any byte may come before a path, except those of tokio-rustls. A path at the start of a
# piece is in the piece before, too.
_RELEASE = re.compile(rb"(?<=[^-_])rustls-(\d{1,9}\.\d{1,9}\.\d{1,9}(?:-[0-9A-Za-z.]{1,32})?)/src/")
MENTION = b"rustls"
"""A file without this in its strings has no rustls."""
_LONGEST_BYTES = 128
"""More than the longest match of the expression."""

# The modules with the traits of ciphers or the type -> the first and the last version with them.
_MODULES: dict[str, tuple[Version, Version]] = {
    "rustls::cipher": ((0, 20), (0, 21)),
    "rustls::crypto::cipher": ((0, 22), (0, 99)),
    "rustls::common_state": ((0, 22), (0, 99)),
}


def is_mentioned(strings: Region) -> bool:
    """Say whether a file with these strings may have a rustls.

    If no source path has the name, an error text does, which refers to the manual.
    """
    return MENTION in strings


def find_releases(strings: Region) -> tuple[str, ...]:
    """Return the releases of rustls whose source paths are in a file: "0.23.45", or "0.23"."""
    releases = {
        match[1].decode()
        for _, piece in strings.pieces(_LONGEST_BYTES)
        if MENTION in piece  # ten times faster than the expression
        for match in _RELEASE.finditer(piece)
    }
    if not releases:
        mentioned = (version for file, version in _FILES.items() if b"/src/" + file in strings)
        return (*itertools.islice(mentioned, 1),)
    return tuple(sorted(releases, key=lambda each: (version_of(each), each)))


def version_of(release: str) -> Version:
    """Return the version of a release: "0.23.45" -> (0, 23)."""
    major, minor, *_ = release.split(".")
    return int(major), int(minor)


def versions_with(module: str, releases: tuple[str, ...]) -> set[Version]:
    """Return the versions of ``releases`` whose traits or types are in ``module``."""
    first, last = _MODULES[module]
    return {each for each in map(version_of, releases) if first <= each <= last}
