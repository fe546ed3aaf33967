"""Escapes text, and cuts it to a number of terminal columns.

Text is cut before it is escaped, so that no escape is cut in two. A Latin character has one column,
most East Asian characters have two, combining marks none (Unicode's UAX #11).
"""

from collections.abc import Iterable

from sslsniff.core.escaping import escape

MARK = "…"
"""Stands where text was cut out."""
_MOST_MARKS = 8
"""How many characters may be in one column: a letter and its combining marks."""


def width(shown: str) -> int:
    """Return how many columns wide escaped text is."""
    if shown.isascii():
        return len(shown)
    from rich.cells import cell_len  # 35 ms to import: for what is not ASCII only

    return cell_len(shown)


def padded(shown: str, columns: int) -> str:
    """Return escaped text, padded with spaces to ``columns``."""
    return shown.ljust(columns) if shown.isascii() else shown + " " * (columns - width(shown))


def cut_end(raw: str, columns: int) -> str:
    """Return ``raw`` escaped, with its end cut off where it is wider than ``columns``."""
    shown = _whole(raw, columns)
    return _cut(raw, columns, tail_columns=0) if shown is None else shown


def cut_middle(raw: str, columns: int) -> str:
    """Return ``raw`` escaped, without its middle where it is wider than ``columns``.

    A third of the columns is for the end: a URL keeps its host and the last part of its path.
    """
    shown = _whole(raw, columns)
    return _cut(raw, columns, tail_columns=columns // 3) if shown is None else shown


def _whole(raw: str, columns: int) -> str | None:
    if len(raw) > columns and (raw.isascii() or len(raw) > columns * _MOST_MARKS):
        return None
    shown = escape(raw)
    fits = 2 * len(shown) <= columns or width(shown) <= columns  # no character is wider than two
    return shown if fits else None


def _cut(raw: str, columns: int, tail_columns: int) -> str:
    if columns < 1:
        return ""
    begin, end = raw[: columns * _MOST_MARKS], raw[-columns * _MOST_MARKS :]
    if begin.isascii() and begin.isprintable() and end.isascii() and end.isprintable():
        return begin[: columns - tail_columns - 1] + MARK + end[len(end) - tail_columns :]
    tail, used = _first(reversed(end), tail_columns)
    while tail and not width(tail[-1]):  # a mark would combine with ours
        tail.pop()
    head, _ = _first(begin, columns - width(MARK) - used)
    return "".join((*head, MARK, *reversed(tail)))


def _first(chars: Iterable[str], columns: int) -> tuple[list[str], int]:
    """Return the first of ``chars`` that fit into ``columns``, escaped, and their width."""
    used = 0
    out: list[str] = []
    for char in chars:
        shown = escape(char)
        size = width(shown)
        if used + size > columns:
            break
        used += size
        out.append(shown)
    return out, used
