"""What the benchmark keeps and shows of its figures."""

import re
from pathlib import Path

import pytest

from bench import report, results
from bench.rows import Row

ROWS = [
    Row("64 B: added to a call, sslsniff", 3.21, "us"),
    Row("64 B: added to a call, other", 32.1, "us", note="so it is"),
    Row("64 B: other adds", 10, "times"),
    Row("nginx: requests/s left", 63.25, "%", least=60),
    Row("most memory", 90, "MB", 80, course=((0.5, 60.0), (1.0, 90.0))),
]


def test_results_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(results, "PATH", tmp_path / "results.json")
    assert results.load().parts == {}
    kept = results.Results("a machine", {"one": ROWS, "two": ROWS[:1]})
    results.save(kept)
    assert results.load() == kept


def test_table_tells_bars_kept_and_missed() -> None:
    assert report.table(ROWS).splitlines()[2:] == [
        "| 64 B: other adds | 10.0 times |  |  |",
        "| nginx: requests/s left | 63.2 % | at least 60 |  |",
        "| most memory | **90.0 MB**, missed | 80 |  |",
    ]


def test_page_is_changed_between_its_marks_only() -> None:
    page = "above\n<!-- from bench/results.json -->\nold\n<!-- end -->\nbelow\n"
    once = report.put(page, "new\n")
    assert once == page.replace("old", "\nnew\n")
    assert report.put(once, "new\n") == once
    with pytest.raises(ValueError, match="end"):
        report.put("above\n", "new\n")


@pytest.mark.heavy
def test_plots_are_drawn_of_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from bench import plots  # it needs Matplotlib, which only make test-all installs

    monkeypatch.setattr(plots, "FOLDER", tmp_path)
    names = [path.name for _, path in plots.draw(ROWS)]
    assert names == ["cost.png", "left.png", "memory.png"]
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in names)
    first = (tmp_path / "cost.png").read_bytes()
    assert [path.name for _, path in plots.draw(ROWS[:2])] == ["cost.png"]
    assert (tmp_path / "cost.png").read_bytes() == first


def factors(size: str) -> list[int]:
    """Return how many times as much bcc's sslsniff and bpftrace add to a call, in whole numbers."""
    found = [
        round(row.value)
        for rows in results.load().parts.values()
        for row in rows
        if re.fullmatch(rf"{size}: (bcc's sslsniff|bpftrace) adds", row.what)
    ]
    assert found
    return found


def test_pages_have_the_figures_that_were_measured() -> None:
    root = Path(__file__).parents[2]
    rows = [row for part in results.load().parts.values() for row in part]
    assert report.table(rows) in (root / "docs" / "benchmarks.md").read_text()
    small, large = factors("(64|1024) B"), factors("16384 B")
    assert min(large) == max(large)
    sentence = (
        f"it adds {min(small)} to {max(small)} times less to a call of 64 B to 1 KB, and"
        f" {large[0]} times less to one of 16 KB"
    )
    assert sentence in (root / "README.md").read_text()
    each = [factors(f"GnuTLS, {size} B")[0] for size in (64, 1024, 16384)]
    sentence = (
        f"bcc's sslsniff adds {each[0]} times as much to a call of 64 B, {each[1]} times at 1 KB"
        f" and {each[2]} times at 16 KiB"
    )
    assert sentence in (root / "sslsniff" / "libraries" / "gnutls" / "README.md").read_text()
