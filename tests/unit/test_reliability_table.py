"""The table in docs/reliability.md says what pytest and the soak found."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.rows import Row
from tests import pages, reliability
from tests.reliability import Case

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest

@pytest.mark.reliability("fault", "a disk is full")
@pytest.mark.parametrize("fails", [False, True])
def test_disk(fails, record_property):
    record_property("lost_bytes", 700)
    assert not fails

@pytest.mark.reliability("load", "much of it")
@pytest.mark.parametrize("number", range(3))
def test_much(number):
    if number == 0:
        pytest.skip()

def test_of_no_row():
    pass
"""


@pytest.mark.slow
def test_rows_are_what_tests_came_to(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "--junitxml=it.xml", "-p", "tests.conftest"]
    command += ["-c", str(ROOT / "pyproject.toml")]
    command += ["-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True)
    assert done.returncode == 1  # of what should fail
    cases = reliability.read([str(tmp_path / "it.xml")])
    assert cases == [
        Case("fault", "a disk is full", True, 700),
        Case("fault", "a disk is full", False, 700),
        *[Case("load", "much of it", True, None)] * 2,
    ]
    assert reliability.table(cases)[2:] == [
        "| load | much of it | 2 | held | - |",
        "| fault | a disk is full | 2 | **1 failed** | 1,400 |",
    ]


@pytest.mark.parametrize(("lost", "holds"), [(0, True), (7, False)])
def test_the_soak_is_a_row(lost: int, holds: bool) -> None:
    what = "9 s of this and that"
    rows = [
        Row(f"{what}: exchanges", 5000, "", note="this 2,000, that 3,000"),
        Row(f"{what}: bytes lost", lost, "bytes", 0),
    ]
    told = f"{what}, 5,000 exchanges (this 2,000, that 3,000)"
    assert reliability.of_soak(rows) == [Case("load", told, holds, lost)]
    assert reliability.of_soak([]) == []


def test_the_page_has_a_place_for_it(tmp_path: Path) -> None:
    page = tmp_path / "reliability.md"
    page.write_text(reliability.PAGE.read_text())
    pages.put(page, reliability.BEGIN, reliability.END, ["| a row |"])
    assert f"{reliability.BEGIN}\n| a row |\n{reliability.END}\n" in page.read_text()


def test_each_promise_names_a_test_that_is_there() -> None:
    page = reliability.PAGE.read_text()
    cells = re.findall(r"^\|[^|]*\| (`tests/[^|]+`) \|", page, re.MULTILINE)
    assert len(cells) > 20
    for cell in cells:
        first, *others = (ROOT / name for name in re.findall(r"`([^`]+)`", cell))
        found = [first, *(first.with_name(other.name) for other in others)]
        assert [each for each in found if not each.is_file()] == []
