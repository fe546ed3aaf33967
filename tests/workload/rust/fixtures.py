"""Which Rust programs are built, with which TLS library and profile, and where they lie.

    python -m tests.workload.rust.fixtures [all | boringssl]

Builds those that ``make test-all`` needs, or all with rustls and OpenSSL, or BoringSSL.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).parent
CACHE = SOURCES.parents[2] / ".cache" / "rust"
ALL = os.environ.get("SSLSNIFF_RUST") == "all"
_FLAGS = {"v0-mangling": "-C symbol-mangling-version=v0"}
# What Cargo's strip = "debuginfo" and "symbols" have the linker do, to what is built already.
_STRIPPED = {
    "strip-debuginfo": ("release", "--strip-debug"),
    "strip-symbols": ("release", "--strip-all"),
    "dev-stripped": ("dev", "--strip-all"),
}
_EVERY = ("server", "blocking", "reqwest-client", "grpc", "early-data")


class Build(NamedTuple):
    """One run of cargo: programs with one TLS library (a feature) and one profile of Cargo.toml.

    A stripped one is a copy of what another profile made, which is before it.
    ``few``: those of the programs that ``make test-all`` builds.
    """

    tls: str
    profile: str = "release"
    programs: tuple[str, ...] = ("server", "blocking")
    few: tuple[str, ...] = ()


class Fixture(NamedTuple):
    """One built program."""

    program: str
    tls: str
    profile: str

    @property
    def path(self) -> Path:
        return CACHE / "-".join(self)

    @property
    def library(self) -> str:
        """What sslsniff calls the library."""
        return self.tls.split("-")[0]

    @property
    def catches_panics(self) -> bool:
        """Whether a panic of a handler ends in an answer; else it ends the program."""
        return self.profile != "fat-lto-abort"


BUILDS = (
    Build("rustls-0-20"),
    Build("rustls-0-21", few=("server",)),
    Build("rustls-0-22-ring", few=("blocking",)),
    Build("rustls-0-22-aws-lc-rs"),
    Build("rustls-0-23-ring", "release", _EVERY, few=_EVERY),
    Build("rustls-0-23-aws-lc-rs", "release", _EVERY, few=("blocking",)),
    Build("rustls-0-23-ring", "dev"),
    Build("rustls-0-23-ring", "thin-lto"),
    Build("rustls-0-23-ring", "fat-lto-abort"),
    Build("rustls-0-23-ring", "opt-z"),
    Build("rustls-0-23-ring", "v0-mangling"),
    Build("rustls-0-23-ring", "strip-debuginfo"),
    Build("rustls-0-23-ring", "strip-symbols", few=("blocking",)),
    Build("rustls-0-23-aws-lc-rs", "strip-symbols"),
    Build("rustls-0-22-ring", "strip-symbols"),
    Build("rustls-0-22-aws-lc-rs", "strip-symbols"),
    Build("openssl", "release", ("blocking",), few=("blocking",)),
    Build("openssl-static", "release", ("blocking",)),
)

_TRACED = ("orders", "probed")

TRACED = (Build("rustls-0-23-ring", "debug-info", _TRACED, few=_TRACED),)
"""With debug info: for ``--calls``, and with static probes."""

STRIPPED = (
    Build("openssl-static", "release", ("two-libraries",), few=("two-libraries",)),
    Build("openssl-static", "strip-symbols", ("two-libraries",), few=("two-libraries",)),
)
"""With OpenSSL and rustls in one file."""

_OF_BORINGSSL = ("boringssl", "boringssl-handshakes")
BORINGSSL = (
    Build("boringssl", "release", _OF_BORINGSSL),
    Build("boringssl", "strip-symbols", _OF_BORINGSSL),
)
"""BoringSSL itself is compiled with these: that takes minutes."""

REFUSED = (
    Build("rustls-0-20", "strip-symbols"),
    Build("rustls-0-21", "strip-symbols", few=("server",)),
    Build("rustls-0-23-ring", "dev-stripped"),
)
"""What sslsniff cannot show, and says so."""


def fixtures(*programs: str, builds: Iterable[Build] = BUILDS) -> list[Fixture]:
    """Return what is tested now of ``programs``: with SSLSNIFF_RUST=all everything."""
    return [
        Fixture(program, build.tls, build.profile)
        for build in builds
        for program in (build.programs if ALL else build.few)
        if program in programs
    ]


def build_all(builds: Iterable[Build]) -> None:
    """Build what is not built yet; cargo knows what that is.

    Raises ``subprocess.CalledProcessError``; cargo says why.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    for build in builds:
        unstripped, option = _STRIPPED.get(build.profile, (None, ""))
        if unstripped is None:
            subprocess.run(_command(build), cwd=SOURCES, env=_environment(build), check=True)
        for program in build.programs:
            kept = Fixture(program, build.tls, build.profile).path
            if unstripped is None:
                _put(CACHE / "target" / _folder(build.profile) / program, kept)
            else:
                source = Fixture(program, build.tls, unstripped).path
                subprocess.run(["strip", option, source, "-o", kept], check=True)


def few() -> Iterator[Build]:
    """Yield the builds that ``make test-all`` needs, with no more than it needs."""
    return (
        build._replace(programs=build.few)
        for build in (*BUILDS, *STRIPPED, *REFUSED, *TRACED)
        if build.few
    )


def _folder(profile: str) -> str:
    return "debug" if profile == "dev" else profile


def _command(build: Build) -> list[str]:
    feature = build.tls.removesuffix("-static")
    packages = [part for program in build.programs for part in ("--package", program)]
    return [
        *("nice", "cargo", "build", "--quiet", "--locked", *packages),
        *("--features", feature, "--profile", build.profile),
    ]


def _environment(build: Build) -> dict[str, str]:
    return {
        **os.environ,
        "CARGO_TARGET_DIR": str(CACHE / "target"),
        "RUSTFLAGS": _FLAGS.get(build.profile, ""),
        "OPENSSL_STATIC": "1" if build.tls == "openssl-static" else "0",
    }


def _put(built: Path, kept: Path) -> None:
    """Copy what was built anew: to a file that no other build writes, and none maps now."""
    if not kept.exists() or kept.stat().st_mtime_ns != built.stat().st_mtime_ns:
        kept.unlink(missing_ok=True)
        shutil.copy2(built, kept)


if __name__ == "__main__":
    wanted = {"all": (*BUILDS, *STRIPPED, *REFUSED, *TRACED), "boringssl": BORINGSSL}
    build_all(wanted[sys.argv[1]] if sys.argv[1:] else few())
