"""Writes the table in docs/reliability.md: what tests and the soak came to.

    python -m tests.reliability RESULTS...

RESULTS are files that ``pytest -m reliability --junitxml`` wrote. A test names the row that it is
for by the mark ``reliability``, and may record ``lost_bytes``: all that sslsniff told as lost.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from bench import results, soak
from bench.rows import Row
from tests import pages

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
BEGIN, END = "<!-- reliability: written by make soak -->", "<!-- end of reliability -->"
KINDS = ("load", "fault", "input")
HEADINGS = ("", "what", "tests", "", "bytes lost, all reported")


class Case(NamedTuple):
    """What one test came to; ``lost_bytes`` is None where it does not count them."""

    kind: str
    what: str
    holds: bool
    lost_bytes: int | None


def read(paths: Iterable[str]) -> list[Case]:
    """Return the tests of rows in files of JUnit's form; those skipped are none."""
    elements = (case for path in paths for case in ElementTree.parse(path).iter("testcase"))
    return [case for element in elements if (case := _case(element)) is not None]


def _case(element: ElementTree.Element) -> Case | None:
    told = {each.attrib["name"]: each.attrib["value"] for each in element.iter("property")}
    if "kind" not in told or element.find("skipped") is not None:
        return None
    holds = element.find("failure") is None and element.find("error") is None
    lost = told.get("lost_bytes")
    return Case(told["kind"], told["what"], holds, None if lost is None else int(lost))


def of_soak(rows: Iterable[Row]) -> list[Case]:
    """Return what was soaked as the case of its load."""
    rows = list(rows)
    figures = {row.what.rpartition(": ")[2]: row for row in rows}
    if not figures:
        return []
    made = figures["exchanges"]
    what = f"{made.what.rpartition(': ')[0]}, {made.value_text} exchanges ({made.note})"
    holds = all(row.ok for row in rows)
    return [Case("load", what, holds, int(figures["bytes lost"].value))]


def table(cases: Iterable[Case]) -> list[str]:
    """Return the table: a row for each thing that tests are for, in their order by kind."""
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.kind, case.what), []).append(case)
    body = []
    for (kind, what), group in sorted(groups.items(), key=lambda each: KINDS.index(each[0][0])):
        failed = sum(not case.holds for case in group)
        lost = [case.lost_bytes for case in group if case.lost_bytes is not None]
        state = f"**{failed} failed**" if failed else "held"
        body.append((kind, what, str(len(group)), state, f"{sum(lost):,}" if lost else "-"))
    return pages.table(HEADINGS, body)


if __name__ == "__main__":
    soaked = results.load(soak.PATH).parts.get("soak", [])
    pages.put(PAGE, BEGIN, END, table([*of_soak(soaked), *read(sys.argv[1:])]))
