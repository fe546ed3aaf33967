"""Which rustls a file has, by the source paths that panics would tell."""

import re

from sslsniff.rustls.model import Version

# As cargo lays out a registry's sources: .../rustls-0.23.45/src/lib.rs. Strings stand side by side
# without an end, so anything may stand before a path; not of crates like tokio-rustls.
_SOURCE = re.compile(rb"(?<![-_])rustls-(\d{1,9}\.\d{1,9}\.\d{1,9}(?:-[0-9A-Za-z.]{1,32})?)/src/")
_BEGIN = b"rustls-"

# Where rustls has its cipher traits: in 0.20 and 0.21 here, since 0.22 there.
_MODULES: dict[str, tuple[Version, Version]] = {
    "rustls::cipher": ((0, 20), (0, 21)),
    "rustls::crypto::cipher": ((0, 22), (0, 99)),
    "rustls::common_state": ((0, 22), (0, 99)),
}


def find_releases(data: bytes) -> tuple[str, ...]:
    """Return the releases of rustls, such as "0.23.45", whose source paths are in ``data``."""
    if _BEGIN not in data:  # ten times as fast as the expression
        return ()
    releases = {match[1].decode() for match in _SOURCE.finditer(data)}
    return tuple(sorted(releases, key=lambda each: (version_of(each), each)))


def version_of(release: str) -> Version:
    """Return the part of a release that decides what is where: "0.23.45" -> (0, 23)."""
    major, minor, *_ = release.split(".")
    return int(major), int(minor)


def versions_with(module: str, releases: tuple[str, ...]) -> set[Version]:
    """Return those of ``releases``' versions that have their traits or types in ``module``."""
    first, last = _MODULES[module]
    return {each for each in map(version_of, releases) if first <= each <= last}
