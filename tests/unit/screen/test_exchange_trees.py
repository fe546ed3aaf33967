"""The tree of an exchange, from the lines that the screen stores."""

import io

import pytest

from sslsniff.core.model import Exchange
from sslsniff.forms.json.short_lines import ShortLines
from sslsniff.screen.captured import exchange_trees
from sslsniff.screen.captured.capture_rows import ExchangeRow
from sslsniff.screen.captured.capture_store import Store
from sslsniff.screen.captured.exchange_trees import rows_near, tree_of
from sslsniff.screen.contents.tree_lines import tree_lines
from tests.unit.request_tree.systems import statement
from tests.unit.request_tree.test_tree_sink import order


def stored(exchanges: list[Exchange]) -> list[ExchangeRow]:
    """Return the rows of exchanges in the order of their ends."""
    written, store = io.BytesIO(), Store()
    sink = ShortLines(written)
    for each in sorted(exchanges, key=lambda each: each.ended_ns or 0):
        sink.exchange(each)
    for line in written.getvalue().splitlines():
        store.feed(line)
    return [*store.rows.values()]


def test_the_tree_of_each_exchange() -> None:
    rows = stored(order())
    sent, served, asked, front = rows
    assert [each.url.rsplit("/", 1)[-1] for each in (front, asked, served)] == [
        *("front", "upstream", "upstream")
    ]
    for each in (served, asked, front):
        assert tree_of(each, rows) == [(front, 0, None), (asked, 1, served)]
    assert tree_of(sent, rows) == [(sent, 0, None)]
    shown = [line.text for line in tree_lines(tree_of(served, rows), served)]
    assert shown == [
        "GET https://host/front",
        "200  100.0 ms  program[100]",
        "└─ GET https://host/upstream",
        "   200  98.0 ms  program[100]  = program[200] 96.0 ms",
    ]
    alone = [line.text for line in tree_lines(tree_of(sent, rows), sent)]
    assert alone[0] == "SELECT 1"
    assert alone[2].startswith("nothing else is known")


def test_numbers_prove_nothing_where_not_all_exchanges_are_looked_at() -> None:
    made = order()
    client, server = made[1].connection, made[2].connection
    # The client's first exchange is not there: the second would be taken for it.
    later = statement(client, 200, 300, "SELECT 2")
    first = statement(server, 110, 120, "SELECT 2")
    rows = stored([later, first])
    assert all(len(tree_of(each, rows)) == 1 for each in rows)


def test_few_rows_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_trees, "MOST_LOOKED_AT", 4)
    rows = stored(order() + order())
    assert [each.number for each in rows_near(5, rows)] == [3, 4, 5, 6]
    assert [each.number for each in rows_near(1, rows)] == [1, 2]
    assert not rows_near(1, [])
