"""``python -m bench.report``: the benchmark in docs/benchmarks.md, from ``results.json``."""

import sys
from pathlib import Path

from bench import results
from bench.rows import Row

_ROOT = Path(__file__).parent.parent
_PAGE = _ROOT / "docs" / "benchmarks.md"
_BEGIN, _END = "<!-- from bench/results.json -->\n", "<!-- end -->\n"


def main() -> int:
    from bench import plots  # it needs Matplotlib, which tests of this page do without

    measured = results.load()
    rows = [row for part in measured.parts.values() for row in part]
    shown = plots.draw(rows)
    images = "".join(f"\n![{title}](../{path.relative_to(_ROOT)})\n" for title, path in shown)
    text = f"On {measured.machine}:\n\n{table(rows)}{images}"
    _PAGE.write_text(put(_PAGE.read_text(), text))
    return 0


def table(rows: list[Row]) -> str:
    """Return the rows that have a bar, and those that compare, as a table of Markdown."""
    lines = ["| what | measured | bar | |", "|---|---|---|---|"]
    for row in rows:
        if row.bar_text or row.unit == "times":
            value = f"{row.value_text} {row.unit}".strip()
            value = value if row.ok else f"**{value}**, missed"
            lines.append(f"| {row.what} | {value} | {row.bar_text} | {row.note} |")
    return "\n".join(lines) + "\n"


def put(page: str, text: str) -> str:
    """Return ``page`` with ``text`` between its two marks.

    Raises ``ValueError`` where there are none.
    """
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise ValueError(f"there must be {_BEGIN.strip()} and {_END.strip()}")
    return f"{before}{begin}\n{text}\n{end}{after}"


if __name__ == "__main__":
    sys.exit(main())
