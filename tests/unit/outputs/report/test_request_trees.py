"""Requests in a report, each with what was done for it."""

from pathlib import Path

import pytest

from sslsniff.outputs.report.report import ReportSink
from tests.unit.outputs.report.pages import Parts
from tests.unit.request_tree.test_tree_sink import order, pass_on
from tests.workload.browser import Browser


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Return the report of an order, see ``order``."""
    made = tmp_path / "page.html"
    with made.open("w+b") as file:
        sink = ReportSink(file, source="made", expression=None, body_bytes=0, most_bytes=1 << 20)
        pass_on(order(), sink)
        sink.close()
    return made


def test_rows_come_in_trees(page: Path) -> None:
    rows = Parts(page.read_bytes()).rows
    targets = [row[8] for row in rows]
    assert targets == ["SELECT 1", "/front", "/upstream", "/upstream"]
    assert [row[-1] for row in rows] == [
        [1, 0, False],
        [2, 0, False],
        [2, 1, False],
        [2, 1, True],
    ]


def test_hops_have_rows_of_their_own(page: Path) -> None:
    groups = Parts(page.read_bytes()).capture["groups"]["path"]
    assert sorted((row["key"], row["hop"], row["count"]) for row in groups) == [
        ("/front", ["program", "server"], 1),
        ("/upstream", ["program", "client"], 1),
        ("/upstream", ["program", "server"], 1),
        ("SELECT ?", ["program", "client"], 1),
    ]


@pytest.mark.heavy
def test_a_request_opens_with_its_tree(browser: Browser, page: Path) -> None:
    browser.open(page)
    cells = "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)"
    assert browser.run(cells, "#trees tbody td:nth-child(n+2)") == [
        *("GET /front", "200", "100.0 ms", "2", "program 100.0 ms > program 98.0 ms"),
    ]
    browser.run("document.querySelector('#trees tbody button').click()")
    found = browser.run(cells, "#detail tbody td")
    at = found.index("GET /front")
    assert found[at : at + 12] == [
        *("GET /front", "program[100]", "100.0 ms", "", "", "200"),
        *("└─ GET /upstream", "program[100]", "98.0 ms", "program[200]", "96.0 ms", "200"),
    ]
    assert (browser.violations(), browser.log()) == ([], [])
