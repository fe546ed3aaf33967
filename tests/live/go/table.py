"""Writes what the tests of Go programs came to as the table in sslsniff/libraries/go/README.md.

    python -m tests.live.go.table RESULTS

RESULTS is a file that ``pytest --junitxml`` wrote.
"""

import sys

from tests import junit, pages
from tests.workload.go.fixtures import EVERY, MODES, RELEASES, SOURCES, Fixture

PAGE = SOURCES.parents[2] / "sslsniff" / "libraries" / "go" / "README.md"
BEGIN, END = "<!-- table: written by make test-go -->", "<!-- end of table -->"

_TLS = ("-1.2", "-1.3")
_TESTS = {
    "server": ("test_server", _TLS),
    "client": ("test_client", _TLS),
    "storm": ("test_stacks_that_move", ("-1", "-2")),
}
"""A program -> its test, and what ends the names of its runs."""


def cell(states: dict[str, str], release: str, mode: str) -> str:
    """Return what all tests of a release and mode came to."""
    names = [
        f"{test}[{'-'.join(Fixture(program, release, mode))}{variant}]"
        for program, (test, variants) in _TESTS.items()
        if Fixture(program, release, mode) in EVERY
        for variant in variants
    ]
    return junit.worst(states, names)


def lines(states: dict[str, str]) -> list[str]:
    """Return the table: a line for each release, a column for each way to build."""
    body = ((release, *(cell(states, release, mode) for mode in MODES)) for release in RELEASES)
    return pages.table(("Go", *MODES), body)


if __name__ == "__main__":
    pages.put(PAGE, BEGIN, END, lines(junit.read(sys.argv[1])))
