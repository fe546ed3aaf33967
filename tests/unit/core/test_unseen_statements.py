"""Statements whose text was not seen, as sinks show and count them."""

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from sslsniff.core.sink import Sink, Summary
from sslsniff.core.statements import without_literals
from sslsniff.decoders.databases.statement import Statement
from sslsniff.filters.around import AroundSink
from sslsniff.filters.filtered import FilteredSink
from sslsniff.filters.filters import Filter, parse
from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.forms.json.json_summary import JsonSummary
from sslsniff.forms.text.summary import SummarySink, summary_lines
from sslsniff.outputs.lines.terminal import TerminalSink
from sslsniff.screen.captured.capture_store import Store
from sslsniff.screen.captured.exchange_list import ExchangeList
from sslsniff.statistics.outcome import Outcome
from tests.unit.decoders.databases.database_wires import (
    PG_EXECUTE,
    PG_READY,
    PG_SYNC,
    my,
    my_answer,
    my_changed,
    pg_bind,
    pg_tag,
)
from tests.unit.decoders.databases.postgresql_wires import NO_SUCH, RAN, by_name, query
from tests.unit.decoders.wires import C, S, Step
from tests.unit.outputs.lines.test_messages import after_prefix, shown

WIRE: list[Step] = [
    query(b"SELECT stock"),
    (S, pg_tag("SELECT 1") + PG_READY),
    (C, pg_bind(b"sku-17", name=b"_pg3_0") + PG_EXECUTE + PG_SYNC),
    (S, RAN),
    (C, by_name(b"_pg3_1")),
    (S, RAN),
    (C, by_name(b"none")),
    (S, NO_SUCH),
]
MYSQL: list[Step] = [
    (C, my(0, b"\x17\3\0\0\0\0\1\0\0\0\0\1\3\0\5\0\0\0")),
    (S, my_answer(my_changed(1))),
]
REMEDY = "prepared before the capture, or in lost bytes; a new connection of the client shows it"


class SummaryOf(Sink):
    def __init__(self) -> None:
        self.found = Summary()

    def summary(self, summary: Summary) -> None:
        self.found = summary


def joined(make: Any, wire: list[Step]) -> list[str]:
    return shown(make, wire, from_start=False)


def test_lines() -> None:
    assert after_prefix(joined(TerminalSink, WIRE)) == [
        "postgres  SELECT  ok  0.0 ms  0 rows  SELECT stock",
        "postgres  EXECUTE  ok  0.0 ms  1 row  EXECUTE _pg3_0  [sku-17]",
        "postgres  EXECUTE  ok  0.0 ms  1 row  EXECUTE _pg3_1",
        "postgres  EXECUTE  failed  0.0 ms  EXECUTE none  26000: no such statement",
    ]
    assert after_prefix(joined(TerminalSink, MYSQL)) == [
        "mysql  EXECUTE  ok  0.0 ms  1 row  EXECUTE #3  [5]"
    ]


def test_a_row_for_each_name() -> None:
    said = [json.loads(line) for line in joined(lambda out: JsonSink(out.buffer), WIRE)]
    rows = [Outcome.of_json(each) for each in said if each["type"] == "exchange"]
    where = "(curl, 127.0.0.1:8443)"
    assert [(row.method, row.path) for row in rows] == [
        ("SELECT", "SELECT stock"),
        ("EXECUTE", f"EXECUTE _pg3_0, text not seen {where}"),
        ("EXECUTE", f"EXECUTE _pg3_1, text not seen {where}"),
        ("EXECUTE", f"EXECUTE none, text not seen {where}"),
    ]
    assert [each["db"]["prepared"] for each in said if "db" in each] == [
        None,
        "_pg3_0",
        "_pg3_1",
        "none",
    ]
    unnamed = Statement("postgresql", prepared="")
    assert without_literals(unnamed) == "EXECUTE (unnamed), text not seen"


@pytest.mark.parametrize(
    "sink_for",
    [
        lambda expression, sink: FilteredSink(expression, [sink]),
        lambda expression, sink: AroundSink(expression, 1, [sink]),
    ],
)
@pytest.mark.parametrize(
    ("expression", "line"),
    [
        ("~sql stock", f"~sql could not match 2 statements whose text was not seen: {REMEDY}"),
        ("~m EXECUTE", f"2 statements whose text was not seen: {REMEDY}"),
    ],
)
def test_the_summary_counts_them(
    expression: str, line: str, sink_for: Callable[[Filter, Sink], Sink]
) -> None:
    last = SummaryOf()
    joined(lambda _: sink_for(parse(expression), last), WIRE)
    assert last.found.without_text == 2
    assert line in summary_lines(last.found)
    written = io.BytesIO()
    JsonSummary(written).summary(last.found)
    assert json.loads(written.getvalue())["statements_without_text"] == 2


def test_no_word_where_all_are_known() -> None:
    assert not any("whose text" in line for line in joined(SummarySink, WIRE[:2]))


def test_the_filter_of_the_screen_counts_them() -> None:
    store = Store()
    for line in joined(lambda out: JsonSink(out.buffer), WIRE):
        store.feed(line.encode())
    listed = ExchangeList(store)
    listed.show_matching(parse("~sql stock"))
    listed.update()
    assert (len(listed.rows), listed.without_text) == (1, 2)
    listed.show_matching(parse("~m EXECUTE"))
    listed.update()
    assert (len(listed.rows), listed.without_text) == (3, 0)
