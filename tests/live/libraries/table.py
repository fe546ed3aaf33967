"""Writes what the tests of smaller TLS libraries came to as the table in docs/libraries.md.

    python -m tests.live.libraries.table RESULTS

RESULTS is a file that ``pytest --junitxml`` wrote.
"""

import sys
from pathlib import Path

from tests import junit, pages
from tests.live.libraries.cases import EVERY, RELEASES, Case

PAGE = Path(__file__).parents[3] / "docs" / "libraries.md"
BEGIN, END = "<!-- table: written by make test-libraries -->", "<!-- end of table -->"
WAYS = tuple(dict.fromkeys(case.way for case in EVERY))


def cell(states: dict[str, str], case: Case) -> str:
    """Return what both tests of a case came to."""
    tests = ("test_server", "test_client") if case in EVERY else ()
    return junit.worst(states, (f"{test}[{'-'.join(case)}]" for test in tests))


def lines(states: dict[str, str]) -> list[str]:
    """Return the table: a line for each release, a column for each way to call it."""
    body = (
        (f"{library} {release}", *(cell(states, Case(library, release, way)) for way in WAYS))
        for library, releases in RELEASES.items()
        for release in releases
    )
    return pages.table(("library", *WAYS), body)


if __name__ == "__main__":
    pages.put(PAGE, BEGIN, END, lines(junit.read(sys.argv[1])))
