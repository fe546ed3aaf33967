"""The table of Rust programs says what pytest found, and of what did not run that it did not."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.rust import table

TESTS = """
import pytest

NAMES = "release-1.2 release-1.3 opt-z-1.2 thin-lto-1.2 thin-lto-1.3 strip-symbols-1.2 "
NAMES += "strip-symbols-1.3"

@pytest.mark.parametrize("name", ["server-rustls-0-23-ring-" + each for each in NAMES.split()])
def test_server(name):
    if name.endswith("symbols-1.3"):
        pytest.skip()

@pytest.mark.parametrize("name", ["thin-lto", "release"], ids="server-rustls-0-23-ring-{}".format)
def test_load(name):
    assert name == "release"

@pytest.mark.parametrize("name", ["blocking", "server"], ids="{}-rustls-0-20-strip-symbols".format)
def test_refused(name, record_property):
    record_property("why", "it is old")
"""


@pytest.fixture
def rows(tmp_path: Path) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the cells of each library's and profile's row, as of a run of pytest."""
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "--junitxml=it.xml", "-p", "no:cacheprovider"]
    command += ["-c", str(table.ROOT / "pyproject.toml")]  # how the project's own tests run
    done = subprocess.run([*command, "test_it.py"], cwd=tmp_path, capture_output=True)
    assert done.returncode == 1  # of what should fail
    found = table.rows(table.read([str(tmp_path / "it.xml")]))
    return {
        (f"{row.library.rpartition('.')[0]} {row.provider}", row.profile): row.cells
        for row in found
    }


@pytest.mark.slow
def test_a_cell_is_what_all_of_its_tests_came_to(
    rows: dict[tuple[str, str], tuple[str, ...]],
) -> None:
    ring = "rustls 0.23 ring"
    assert rows[ring, "release"] == ("works", "not run", "works")
    assert rows[ring, "opt-z"] == ("not run", "not run", "not run")
    assert rows[ring, "thin-lto"] == ("works", "not run", "fails")
    assert rows[ring, "strip-symbols"][0] == "not run"
    assert rows[ring, "fat-lto-abort"][2] == "-"
    assert rows["rustls 0.20 ring", "strip-symbols"] == ("no: it is old", "no", "no")
    assert rows["rustls 0.21 ring", "strip-symbols"] == ("not run",) * 3


def test_the_table_stands_between_its_marks(tmp_path: Path) -> None:
    path = tmp_path / "rustls.md"
    path.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
    for _ in range(2):
        table.put(path, table.lines(table.rows({})))
    before, begin, *shown, end, after = path.read_text().splitlines()
    assert (before, begin, end, after) == ("before", table.BEGIN, table.END, "after")
    assert any(line.endswith("| ring | release | not run | not run | not run |") for line in shown)
    path.write_text("no marks")
    with pytest.raises(ValueError, match="has not one table"):
        table.put(path, [])
