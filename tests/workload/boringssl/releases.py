"""Releases of BoringSSL and AWS-LC, from packages that carry their sources."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

CACHE = Path(__file__).parents[3] / ".cache" / "boringssl"
_MANIFEST = """
[package]
name = "sources"
version = "0.0.0"
[lib]
path = "lib.rs"
[dependencies]
{package} = "={version}"
"""
_BUILDS = "setuptools<81\n"
"""pip runs a package's setup.py to know what it is; older ones import pkg_resources, which later
releases of setuptools do not have."""
_fetching = threading.Lock()
_folders: "dict[Release, Path]" = {}


class Release(NamedTuple):
    """The sources of a library, in a crate or in a source distribution of PyPI.

    ``library``: with its own version, if it has one.
    ``month``: that of the commit from which its ssl_lib.cc is. A crate may have changed the file.
    ``folder``: that in the package with ``ssl`` and ``include``.
    """

    library: str
    month: str
    package: str
    version: str
    folder: str

    @property
    def name(self) -> str:
        return f"{self.package}-{self.version}"


RELEASES = (
    Release("BoringSSL", "2018-02", "grpcio", "1.13.0", "third_party/boringssl"),
    Release("BoringSSL", "2019-01", "quiche", "0.1.0", "deps/boringssl"),
    Release("BoringSSL", "2020-05", "quiche", "0.6.0", "deps/boringssl/src"),
    Release("BoringSSL", "2020-12", "boring-sys", "1.1.1", "deps/boringssl/src"),
    Release("BoringSSL", "2021-04", "boringssl-src", "0.3.0", "boringssl/src"),
    Release("BoringSSL", "2021-11", "grpcio", "1.48.2", "third_party/boringssl-with-bazel/src"),
    Release("BoringSSL", "2023-04", "boring-sys", "4.19.0", "deps/boringssl/src"),
    Release("BoringSSL", "2024-06", "grpcio", "1.66.1", "third_party/boringssl-with-bazel/src"),
    Release("BoringSSL", "2025-10", "boring-sys", "5.0.0", "deps/boringssl"),
    Release("BoringSSL", "2026-06", "grpcio", "1.85.1", "third_party/boringssl-with-bazel"),
    Release("AWS-LC 1.3.0", "2022", "aws-lc-sys", "0.1.0", "deps/aws-lc"),
    Release("AWS-LC FIPS 2.0.6", "2022", "aws-lc-fips-sys", "0.12.0", "aws-lc"),
    Release("AWS-LC 1.15.0", "2023", "aws-lc-sys", "0.10.0", "aws-lc"),
    Release("AWS-LC 1.32.0", "2024", "aws-lc-sys", "0.20.0", "aws-lc"),
    Release("AWS-LC FIPS 3.0.0", "2024", "aws-lc-fips-sys", "0.13.0", "aws-lc"),
    Release("AWS-LC 1.55.0", "2025", "aws-lc-sys", "0.30.0", "aws-lc"),
    Release("AWS-LC 5.12.0", "2026", "aws-lc-sys", "0.47.0", "aws-lc"),
)


def sources(release: Release) -> Path:
    """Return the folder with ``ssl`` and ``include``; fetch the package first, if need be.

    Raises ``subprocess.CalledProcessError``; the tools say why.
    """
    fetch = _python_package if release.package == "grpcio" else _crate
    with _fetching:
        if release not in _folders:
            package = fetch(release, CACHE / release.name / "sources")
            _folders[release] = package / release.folder
    return _folders[release]


def _crate(release: Release, package: Path) -> Path:
    """Fetch a crate as the dependency of an empty package."""
    package.mkdir(parents=True, exist_ok=True)
    (package / "lib.rs").touch()
    manifest = package / "Cargo.toml"
    manifest.write_text(_MANIFEST.format(package=release.package, version=release.version))
    command = ["cargo", "metadata", "--format-version", "1", "--manifest-path", str(manifest)]
    done = subprocess.run(command, check=True, capture_output=True)
    [found] = [
        each for each in json.loads(done.stdout)["packages"] if each["name"] == release.package
    ]
    return Path(found["manifest_path"]).parent


def _python_package(release: Release, folder: Path) -> Path:
    unpacked = folder / release.name
    if unpacked.exists():
        return unpacked
    folder.mkdir(parents=True, exist_ok=True)
    options = ("-q", "--disable-pip-version-check", "--no-deps", "--use-pep517")
    wanted = ("--no-binary", release.package, f"{release.package}=={release.version}")
    command = [sys.executable, "-m", "pip", "download", *options, "-d", str(folder), *wanted]
    builds = folder / "builds.txt"
    builds.write_text(_BUILDS)
    environment = dict.fromkeys(("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"), str(builds))
    subprocess.run(command, check=True, env=os.environ | environment)
    [archive] = folder.glob("*.tar.gz")
    subprocess.run(
        ["tar", "-xzf", archive, "-C", folder, f"{release.name}/{release.folder}"], check=True
    )
    archive.unlink()
    return unpacked
