"""Finds the tree of an exchange among the rows near it, when someone looks at it.

So the capture has nothing to do for it. It finds what it finds in a file: no goroutines. Of
connections it knows no beginning, as not all of their exchanges are looked at.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sslsniff.core.model import Exchange
from sslsniff.request_tree.request_trees import RequestTrees
from sslsniff.screen.captured.capture_rows import ExchangeRow
from sslsniff.screen.captured.rebuilt_exchanges import exchange_of_line

MOST_LOOKED_AT = 3000
"""Rows beside one that may belong to it: rebuilding them takes some 0.3 s."""


class TreeRow(NamedTuple):
    """An exchange in a tree. ``other_end``: the same as the server saw it, None: not known."""

    row: ExchangeRow
    depth: int
    other_end: ExchangeRow | None


def rows_near(number: int, rows: Sequence[ExchangeRow]) -> Sequence[ExchangeRow]:
    """Return the rows with numbers near to ``number``; they are in the order of their numbers."""
    if not rows:
        return rows
    place = number - rows[0].number
    return rows[max(0, place - MOST_LOOKED_AT // 2) : place + MOST_LOOKED_AT // 2]


def tree_of(row: ExchangeRow, near: Iterable[ExchangeRow]) -> list[TreeRow]:
    """Return the tree of an exchange, itself, too, from the first one on; empty if it is open."""
    rows: dict[int, ExchangeRow] = {}
    exchanges: list[Exchange] = []
    found: list[TreeRow] = []

    def show(members: list[Exchange]) -> None:
        if not any(rows[id(each)] is row for each in members):
            return
        for each in members:
            place = each.tree
            if place is not None and not place.is_other_end:
                other = rows[id(place.other_end)] if place.other_end is not None else None
                found.append(TreeRow(rows[id(each)], place.depth, other))

    for each in near:
        if each.line is not None:
            exchange = exchange_of_line(each.line, each.connection.origin)
            exchange.connection.from_start = False
            exchanges.append(exchange)
            rows[id(exchange)] = each
    trees = RequestTrees(show)
    for exchange in sorted(exchanges, key=lambda each: each.started_ns):
        trees.begin(exchange)
    for exchange in sorted(exchanges, key=lambda each: each.ended_ns or each.started_ns):
        trees.end(exchange)
    trees.finish()
    return found
