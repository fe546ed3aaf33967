"""Which rustls a file has, by the source paths that panics would tell."""

import re

from sslsniff.rustls.model import Version

# As cargo lays out a registry's sources: .../rustls-0.23.45/src/lib.rs; in a repository, or where
# they were copied into one, without the release. Strings stand side by side without an end, so
# anything may stand before a path, but not what makes it one of tokio-rustls.
_SOURCE = re.compile(
    rb"(?<![-_])rustls(?:-(\d{1,9}\.\d{1,9}\.\d{1,9}(?:-[0-9A-Za-z.]{1,32})?))?"
    rb"/src/([0-9a-z_/]{1,64}\.rs)"
)
_MARK = b"rustls"

# By what file a version is known that no path tells, the newest first.
_FILES = {
    b"crypto/cipher/messages.rs": "0.24",
    b"msgs/message/outbound.rs": "0.23",
    b"crypto/cipher.rs": "0.22",
    b"cipher.rs": "0.21",
}

# Where rustls has its cipher traits: in 0.20 and 0.21 here, since 0.22 there.
_MODULES: dict[str, tuple[Version, Version]] = {
    "rustls::cipher": ((0, 20), (0, 21)),
    "rustls::crypto::cipher": ((0, 22), (0, 99)),
    "rustls::common_state": ((0, 22), (0, 99)),
}


def is_mentioned(data: bytes) -> bool:
    """Say whether there may be a rustls in the file that has the strings ``data``."""
    return _MARK in data


def find_releases(data: bytes) -> tuple[str, ...]:
    """Return the releases of rustls whose source paths are in ``data``: "0.23.45", or "0.23"."""
    if not is_mentioned(data):  # ten times as fast as the expression
        return ()
    sources = {match.groups() for match in _SOURCE.finditer(data)}
    releases = {release.decode() for release, _ in sources if release}
    untold = {file for release, file in sources if not release}
    releases.update([told for file, told in _FILES.items() if file in untold][:1])
    return tuple(sorted(releases, key=lambda each: (version_of(each), each)))


def version_of(release: str) -> Version:
    """Return the part of a release that decides what is where: "0.23.45" -> (0, 23)."""
    major, minor, *_ = release.split(".")
    return int(major), int(minor)


def versions_with(module: str, releases: tuple[str, ...]) -> set[Version]:
    """Return those of ``releases``' versions that have their traits or types in ``module``."""
    first, last = _MODULES[module]
    return {each for each in map(version_of, releases) if first <= each <= last}
