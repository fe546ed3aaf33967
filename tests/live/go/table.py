"""Writes what the tests of Go programs came to as the table in docs/go.md.

    python -m tests.live.go.table RESULTS

RESULTS is a file that ``pytest --junitxml`` wrote.
"""

import sys
from xml.etree import ElementTree

from tests import pages
from tests.workload.go.fixtures import EVERY, MODES, RELEASES, SOURCES, Fixture

PAGE = SOURCES.parents[2] / "docs" / "go.md"
BEGIN, END = "<!-- table: written by make test-go -->", "<!-- end of table -->"
WORKS, FAILED, NOT_RUN, NONE = "works", "fails", "not run", "-"

_TLS = ("-1.2", "-1.3")
_TESTS = {
    "server": ("test_server", _TLS),
    "client": ("test_client", _TLS),
    "storm": ("test_stacks_that_move", ("-1", "-2")),
}
"""A program -> its test, and what ends the names of its runs."""


def read(path: str) -> dict[str, str]:
    """Return the state of each test in a file of JUnit's form."""
    states = {}
    for case in ElementTree.parse(path).iter("testcase"):
        failed = case.find("failure") is not None or case.find("error") is not None
        states[case.attrib["name"]] = FAILED if failed else WORKS
    return states


def cell(states: dict[str, str], release: str, mode: str) -> str:
    """Return what all tests of a release and mode came to."""
    names = [
        f"{test}[{'-'.join(Fixture(program, release, mode))}{variant}]"
        for program, (test, variants) in _TESTS.items()
        if Fixture(program, release, mode) in EVERY
        for variant in variants
    ]
    found = {states.get(each, NOT_RUN) for each in names}
    return next((each for each in (FAILED, NOT_RUN, WORKS) if each in found), NONE)


def lines(states: dict[str, str]) -> list[str]:
    """Return the table: a line for each release, a column for each way to build."""
    body = ((release, *(cell(states, release, mode) for mode in MODES)) for release in RELEASES)
    return pages.table(("Go", *MODES), body)


if __name__ == "__main__":
    pages.put(PAGE, BEGIN, END, lines(read(sys.argv[1])))
