"""Writes what the tests of Rust programs came to as the table in the page of rustls.

    python -m tests.live.rust.table RESULTS...

RESULTS are files that ``pytest --junitxml`` wrote; of a test that is in several the last counts.
"""

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from tests import pages
from tests.workload.rust.fixtures import BUILDS, REFUSED, SOURCES, Build, Fixture

ROOT = SOURCES.parents[2]
BEGIN, END = "<!-- table: written by make test-rust -->", "<!-- end of table -->"
WORKS, FAILED, NOT_RUN, NONE = "works", "fails", "not run", "-"
Results = dict[str, str]
"""Name of a test -> WORKS, FAILED, or where it worked out that nothing can be shown, why."""


class Column(NamedTuple):
    """A test and the programs that it runs; ``variants`` end its name for each of its runs."""

    heading: str
    test: str
    programs: tuple[str, ...]
    variants: tuple[str, ...] = ("",)

    def cell(self, build: Build, results: Results) -> str:
        """Return what it came to for one build."""
        fixtures = [Fixture(each, build.tls, build.profile) for each in build.programs]
        states = {
            results.get(f"{self.test}[{'-'.join(fixture)}{variant}]", NOT_RUN)
            for fixture in fixtures
            if fixture.program in self.programs and self._is_for(fixture)
            for variant in self.variants
        }
        return next((each for each in (FAILED, NOT_RUN, WORKS) if each in states), NONE)

    def _is_for(self, fixture: Fixture) -> bool:
        return self.test != "test_load" or fixture.catches_panics


_TLS = ("-1.2", "-1.3")
COLUMNS = (
    Column("server", "test_server", ("server",), _TLS),
    Column("client", "test_client", ("blocking", "reqwest-client"), _TLS),
    Column("60 s of load", "test_load", ("server",)),
)


class Row(NamedTuple):
    """What there is to say of one build."""

    library: str
    provider: str
    profile: str
    cells: tuple[str, ...]


def read(paths: Iterable[str]) -> Results:
    """Return the results in files of JUnit's form."""
    cases = (case for path in paths for case in ElementTree.parse(path).iter("testcase"))
    return {case.attrib["name"]: state for case in cases if (state := _state(case))}


def _state(case: ElementTree.Element) -> str | None:
    if case.find("failure") is not None or case.find("error") is not None:
        return FAILED
    why = case.find("./properties/property[@name='why']")
    if case.find("skipped") is not None:
        return None
    return WORKS if why is None else why.attrib["value"]


def rows(results: Results) -> list[Row]:
    """Return a row for each build, those that cannot be shown last."""
    releases = _releases()
    shown = [
        Row(
            *_library(build, releases),
            build.profile,
            tuple(c.cell(build, results) for c in COLUMNS),
        )
        for build in BUILDS
    ]
    refused = [
        Row(*_library(build, releases), build.profile, _refused(build, results))
        for build in REFUSED
    ]
    return shown + refused


def _refused(build: Build, results: Results) -> tuple[str, ...]:
    """Return what each column says of a build that should be refused: in the first one, why."""
    names = [
        f"test_refused[{'-'.join(Fixture(each, build.tls, build.profile))}]"
        for each in build.programs
    ]
    states = {results.get(each, NOT_RUN) for each in names}
    if unexpected := {WORKS, FAILED, NOT_RUN} & states:
        return (min(unexpected),) * len(COLUMNS)
    [why] = states
    return (f"no: {why}", *("no",) * (len(COLUMNS) - 1))


def _releases() -> dict[str, str]:
    """Return the releases that are built: "0.23" -> "0.23.45"."""
    packages = tomllib.loads((SOURCES / "Cargo.lock").read_text())["package"]
    found = (each["version"] for each in packages if each["name"] == "rustls")
    return {release.rpartition(".")[0]: release for release in found}


def _library(build: Build, releases: dict[str, str]) -> tuple[str, str]:
    """Return a build's library with its release, and the library's provider of ciphers."""
    told = re.fullmatch(r"rustls-(\d+)-(\d+)-?(.*)", build.tls)
    if told is None:
        return "OpenSSL", "static" if build.tls.endswith("-static") else "shared"
    major, minor, provider = told.groups()
    return f"rustls {releases[f'{major}.{minor}']}", provider or "ring"


def lines(found: list[Row]) -> list[str]:
    """Return the table with a line for each build."""
    headings = ("library", "provider", "profile", *(each.heading for each in COLUMNS))
    return pages.table(headings, ((*row[:3], *row.cells) for row in found))


def put(path: Path, table: list[str]) -> None:
    """Write a table to its place in a page; raises ``ValueError`` where that is not."""
    pages.put(path, BEGIN, END, table)


if __name__ == "__main__":
    put(ROOT / "sslsniff" / "libraries" / "rustls" / "README.md", lines(rows(read(sys.argv[1:]))))
