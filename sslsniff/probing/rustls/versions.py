"""Which rustls a file has, by the source paths in its panic messages."""

import itertools
import re

from sslsniff.elf.mapped_file import Region
from sslsniff.probing.rustls.methods import Version

# By what file a version is known that no path tells: sources that were copied, or whose paths were
# remapped. The newest first, as it may have those of older ones, too.
_FILES = {
    b"crypto/cipher/messages.rs": "0.24",
    b"msgs/message/outbound.rs": "0.23",
    b"crypto/tls13.rs": "0.22",
    b"msgs/deframer.rs": "0.21",
}

# As cargo lays out a registry's sources: .../rustls-0.23.45/src/lib.rs. Strings are side by side
# without an end, so anything may be before a path, but not what makes it one of tokio-rustls.
# One at the very start of a piece is in the piece before, too.
_RELEASE = re.compile(rb"(?<=[^-_])rustls-(\d{1,9}\.\d{1,9}\.\d{1,9}(?:-[0-9A-Za-z.]{1,32})?)/src/")
MENTION = b"rustls"
"""Where it is not in a file's strings, there is no rustls in the file."""
_LONGEST_BYTES = 128
"""More than what the expression finds."""

# Where rustls has its cipher traits: in 0.20 and 0.21 here, since 0.22 there.
_MODULES: dict[str, tuple[Version, Version]] = {
    "rustls::cipher": ((0, 20), (0, 21)),
    "rustls::crypto::cipher": ((0, 22), (0, 99)),
    "rustls::common_state": ((0, 22), (0, 99)),
}


def is_mentioned(strings: Region) -> bool:
    """Say whether there may be a rustls in the file that has these strings.

    If no path of its sources has the name, one of its errors does, which tells of its manual.
    """
    return MENTION in strings


def find_releases(strings: Region) -> tuple[str, ...]:
    """Return the releases of rustls whose source paths are in a file: "0.23.45", or "0.23"."""
    releases = {
        match[1].decode()
        for _, piece in strings.pieces(_LONGEST_BYTES)
        if MENTION in piece  # ten times as fast as the expression
        for match in _RELEASE.finditer(piece)
    }
    if not releases:
        mentioned = (version for file, version in _FILES.items() if b"/src/" + file in strings)
        return (*itertools.islice(mentioned, 1),)
    return tuple(sorted(releases, key=lambda each: (version_of(each), each)))


def version_of(release: str) -> Version:
    """Return the part of a release that decides what is where: "0.23.45" -> (0, 23)."""
    major, minor, *_ = release.split(".")
    return int(major), int(minor)


def versions_with(module: str, releases: tuple[str, ...]) -> set[Version]:
    """Return those of ``releases``' versions that have their traits or types in ``module``."""
    first, last = _MODULES[module]
    return {each for each in map(version_of, releases) if first <= each <= last}
