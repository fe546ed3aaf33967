"""Lays out a table of statistics: a line for each row, or three where there is less room."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sslsniff.core.escaping import escape
from sslsniff.forms.text.cutting import cut_middle, padded, width
from sslsniff.forms.text.lines import Field, Paint

_GAP = "  "


class GroupRow(NamedTuple):
    """The cells of a row: those that all rows have in the same order.

    ``keys``: what it is about, as raw text, and their style. ``figures``: numbers, each with its
    style; ``more``: others, by their names. ``times``: quantiles, by what was measured.
    """

    keys: Sequence[str]
    style: str | None
    figures: Sequence[Field]
    more: Mapping[str, str]
    times: Mapping[str, Sequence[str]]


def table_lines(rows: Sequence[GroupRow], paint: Paint, columns: int | None) -> Iterator[str]:
    """Yield the lines of a table; its first row are the headings.

    If a terminal of ``columns`` has no room for a line a row, what a row is about gets a line of
    its own, which is cut to the terminal, and its figures get a line for each kind of times. Where
    ``more`` figures have no room in these, they get lines, too.
    """
    times = _widths([cells for row in rows for cells in row.times.values()])
    keys = _widths([[escape(key) for key in row.keys] for row in rows])
    in_one_line = [
        row._replace(figures=[*row.figures, *((row.style, shown) for shown in row.more.values())])
        for row in rows
    ]
    figures = _figure_widths(in_one_line)
    if columns is None or _joined_width([*figures, *times * len(rows[0].times), *keys]) <= columns:
        yield from _in_one_line(in_one_line, paint, figures, times, keys)
    else:
        yield from _in_three_lines(rows, paint, _figure_widths(rows), times, columns)


def _in_one_line(
    rows: Sequence[GroupRow],
    paint: Paint,
    figures: Sequence[int],
    times: Sequence[int],
    keys: Sequence[int],
) -> Iterator[str]:
    kinds = [kind.ljust(_joined_width(times)) for kind in rows[0].times]
    above = _GAP.join((" " * _joined_width(figures), *kinds)).rstrip()
    yield _painted(rows[0].style, above, paint)
    for row in rows:
        cells = [_figures(row, figures, paint)]
        cells += [_quantiles(row, spans, times, paint) for spans in row.times.values()]
        shown = [padded(escape(key), size) for key, size in zip(row.keys, keys, strict=False)]
        cells.append(_painted(row.style, _GAP.join(shown).rstrip(), paint))
        yield _GAP.join(cells)


def _in_three_lines(
    rows: Sequence[GroupRow],
    paint: Paint,
    figures: Sequence[int],
    times: Sequence[int],
    columns: int,
) -> Iterator[str]:
    kind_columns = max(len(kind) for kind in rows[0].times)
    others = [", ".join(f"{shown} {what}" for what, shown in row.more.items()) for row in rows]
    figures_columns, rest_columns = _joined_width(figures), _joined_width([kind_columns, *times])
    before_columns = max(figures_columns, *map(len, others[1:]))
    has_room = _joined_width([before_columns, rest_columns]) <= columns
    if not has_room:
        before_columns = figures_columns
    for number, row in enumerate(rows):
        about = _GAP.join(row.keys)
        yield _painted(row.style or "method", cut_middle(about, columns), paint)
        before = " " * (before_columns - figures_columns) + _figures(row, figures, paint)
        for kind, spans in row.times.items():
            name = _painted("dim", (kind if number else "").ljust(kind_columns), paint)
            yield _GAP.join((before, name, _quantiles(row, spans, times, paint)))
            if not number:
                break  # headings are the same for all times
            before = (others[number] if has_room else "").rjust(before_columns)
        if number and not has_room:
            yield from textwrap.wrap(others[number], columns)


def _figures(row: GroupRow, widths: Sequence[int], paint: Paint) -> str:
    cells = zip(row.figures, widths, strict=True)
    return _GAP.join([_painted(style, shown.rjust(size), paint) for (style, shown), size in cells])


def _quantiles(row: GroupRow, spans: Sequence[str], widths: Sequence[int], paint: Paint) -> str:
    cells = zip(spans, widths, strict=True)
    return _painted(row.style, _GAP.join([shown.rjust(size) for shown, size in cells]), paint)


def _painted(style: str | None, shown: str, paint: Paint) -> str:
    return paint(style, shown) if style and shown.strip() else shown


def _joined_width(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _figure_widths(rows: Sequence[GroupRow]) -> list[int]:
    return _widths([[shown for _, shown in row.figures] for row in rows])


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column; rows of few cells leave the last columns empty."""
    most = max(map(len, rows))
    return [max(width(row[at]) for row in rows if at < len(row)) for at in range(most)]
