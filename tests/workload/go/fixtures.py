"""Which Go programs are built, by which release and how, and where they lie.

    python -m tests.workload.go.fixtures [all]

Builds the few that ``make test-all`` needs, or all of them. Releases of Go come through the module
proxy, as ``go`` itself gets them; any Go can fetch them.
"""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).parent
CACHE = SOURCES.parents[2] / ".cache" / "go"
ALL = os.environ.get("SSLSNIFF_GO") == "all"

OLDEST, NEWEST = "1.17.13", "1.27.4"
"""Of those that pass arguments in registers."""

BEFORE = "1.16.15"
"""The last that passes them on the stack."""

_RELEASES = (BEFORE, OLDEST, "1.18.10", "1.19.13", "1.20.14", "1.21.13", "1.22.12", "1.23.12")
RELEASES = (*_RELEASES, "1.24.13", "1.25.5", "1.26.8", NEWEST)
RELEASES_OF_UTLS = RELEASES[-4:]
"""Those that can build it."""
PROGRAMS = ("server", "client", "storm")

_ENVIRONMENT = os.environ | {
    "GO111MODULE": "on",
    "GOMODCACHE": str(CACHE / "modules"),
    "GOTOOLCHAIN": "local",
}
_STRIPPED = ("-trimpath", "-ldflags=-s -w")
MODES = {
    "plain": (),
    "stripped": _STRIPPED,
    "pie": (*_STRIPPED, "-buildmode=pie"),
    "cgo": (*_STRIPPED[:1], "-ldflags=-s -w -linkmode=external"),
    "cgo-pie": ("-buildmode=pie", "-ldflags=-linkmode=external"),
    "unoptimised": ("-gcflags=all=-N -l",),
}
"""Arguments of ``go build``."""


class Fixture(NamedTuple):
    """One built program."""

    program: str
    release: str
    mode: str

    @property
    def path(self) -> Path:
        return CACHE / "-".join(self)

    @property
    def library(self) -> str:
        """What sslsniff calls the library."""
        return "go"


FEW = (
    *(Fixture(program, OLDEST, "stripped") for program in PROGRAMS),
    *(Fixture(program, NEWEST, "plain") for program in (*PROGRAMS, "grpc")),
    Fixture("server", NEWEST, "pie"),
    Fixture("server", NEWEST, "cgo"),
    Fixture("client", BEFORE, "stripped"),
    Fixture("client", BEFORE, "cgo-pie"),
    Fixture("plain", NEWEST, "plain"),
    *(Fixture("calls", release, "plain") for release in (BEFORE, OLDEST, NEWEST)),
    *(Fixture("panics", release, "plain") for release in (BEFORE, NEWEST)),
    *(Fixture("orders", release, "plain") for release in (BEFORE, NEWEST)),
    *(Fixture("threads", release, "plain") for release in (BEFORE, NEWEST)),
    Fixture("stock", NEWEST, "plain"),
    *(Fixture("handshakes", release, "stripped") for release in (BEFORE, OLDEST, NEWEST)),
    Fixture("stacks", BEFORE, "plain"),
    Fixture("stacks", OLDEST, "stripped"),
    *(Fixture("stacks", NEWEST, mode) for mode in ("plain", "stripped")),
)
_WAYS = (BEFORE, OLDEST, NEWEST)
EVERY = (
    *(
        Fixture(program, release, mode)
        for release in RELEASES
        for mode in (MODES if release in _WAYS else ("stripped",))
        for program in ("server", "client")
    ),
    *(Fixture("storm", release, "stripped") for release in _WAYS),
    Fixture("grpc", NEWEST, "plain"),
    *(Fixture("handshakes", release, "stripped") for release in RELEASES),
    *(
        Fixture(program, release, "plain")
        for program in ("calls", "panics", "stacks", "threads")
        for release in RELEASES
    ),
)
"""All releases stripped, and some in all ways."""


FORKED_FEW = (
    Fixture("utls", NEWEST, "stripped"),
    Fixture("utls", RELEASES_OF_UTLS[0], "pie"),
)
FORKED = tuple(
    Fixture("utls", release, mode)
    for release in RELEASES_OF_UTLS
    for mode in ("plain", "stripped", "pie")
)
"""Programs with another TLS library in Go, which has no probes."""


def forked() -> tuple[Fixture, ...]:
    """Return those of ``FORKED`` that are tested now."""
    return FORKED if ALL else FORKED_FEW


def fixtures(*programs: str) -> list[Fixture]:
    """Return what is tested now of ``programs``: with SSLSNIFF_GO=all everything."""
    return [each for each in (EVERY if ALL else FEW) if each.program in programs]


def build_all(builds: Iterable[Fixture]) -> None:
    """Build what is not built yet. Raises ``subprocess.CalledProcessError``; go says why."""
    for build in builds:
        source = SOURCES / build.program / "main.go"
        if build.path.exists() and build.path.stat().st_mtime > source.stat().st_mtime:
            continue
        # What the user has set for Go is for a new one; older ones refuse some of it.
        old = {"GO111MODULE": "off", "GOENV": "off", "GOFLAGS": ""}
        has_module = (source.parent / "go.mod").exists()
        environment = _ENVIRONMENT | ({"GOFLAGS": ""} if has_module else old)
        environment["CGO_ENABLED"] = str(int(build.mode.startswith("cgo")))
        environment["GOCACHE"] = str(CACHE / f"build-{build.release}")
        subprocess.run(
            ["nice", go(build.release), "build", *MODES[build.mode], "-o", build.path, "main.go"],
            cwd=source.parent,
            env=environment,
            check=True,
        )


def go(release: str) -> Path:
    """Return the ``go`` of a release; fetches it where it is not there."""
    module = f"golang.org/toolchain@v0.0.1-go{release}.linux-amd64"
    folder = CACHE / "modules" / module
    program = folder / "bin/go"
    if not os.access(program, os.X_OK):
        subprocess.run(
            ["go", "mod", "download", "-json", module],
            cwd="/",
            env=_ENVIRONMENT,
            stdout=subprocess.PIPE,
            check=True,
        )
        # A module's files are not executable.
        for tool in (*folder.glob("bin/*"), *folder.glob("pkg/tool/*/*")):
            tool.chmod(0o755)
    return program


if __name__ == "__main__":
    build_all((*EVERY, *FORKED) if "all" in sys.argv[1:] else (*FEW, *FORKED_FEW))
