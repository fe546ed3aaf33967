"""Tables in pages of Markdown that programs write, between two marks."""

from collections.abc import Iterable
from pathlib import Path


def table(headings: tuple[str, ...], body: Iterable[tuple[str, ...]]) -> list[str]:
    """Return the lines of a table."""
    lines = (headings, ("---",) * len(headings), *body)
    return [f"| {' | '.join(cells)} |" for cells in lines]


def put(path: Path, begin: str, end: str, lines: list[str]) -> None:
    """Write ``lines`` between two marks; raises ``ValueError`` where these are not there once."""
    before, found, rest = path.read_text().partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found and found_end) or begin in after:
        raise ValueError(f"{path} has not one table between {begin} and {end}")
    path.write_text("\n".join((before + begin, *lines, end)) + after)
