"""How sinks and filters show the time in which a session is idle in a transaction."""

import io
import json
from dataclasses import replace

import pytest

from sslsniff.core.model import Exchange
from sslsniff.core.statements import db_object, statement_of
from sslsniff.decoders.databases.statement import Statement
from sslsniff.filters.filters import parse
from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.forms.text.lines import Lines
from sslsniff.forms.text.transactions import transaction_remarks
from sslsniff.screen.captured.capture_store import Store
from sslsniff.screen.contents.exchange_panes import exchange_lines
from tests.unit.exchanges import START_NS, connection

MS = 1_000_000
COMMIT = Statement(
    "postgresql",
    "COMMIT",
    "COMMIT",
    6,
    idle_ns=3_000 * MS,
    transaction_ns=3_100_400_600,
    transaction_idle_ns=3_000 * MS,
)
SAID = "idle in transaction 3.00 s  transaction 3.10 s, idle 3.00 s of it"


def exchange(statement: Statement) -> Exchange:
    return Exchange(
        connection(),
        "postgresql",
        None,
        70,
        START_NS,
        first_byte_ns=START_NS + MS,
        ended_ns=START_NS + MS,
        statement=statement,
    )


def test_line() -> None:
    assert Lines().exchange(exchange(COMMIT)).endswith(f"COMMIT  {SAID}")


def test_short_times_are_not_in_lines() -> None:
    short = replace(COMMIT, idle_ns=99_999_999, transaction_ns=99_999_999)
    assert [*transaction_remarks(short)] == []
    long = replace(COMMIT, idle_ns=100 * MS, transaction_ns=100 * MS)
    assert len([*transaction_remarks(long)]) == 2


def test_json_and_back() -> None:
    shown = db_object(COMMIT)
    times = (shown["idle_ms"], shown["transaction_ms"], shown["transaction_idle_ms"])
    assert times == (3000.0, 3100.401, 3000.0)
    again = statement_of(shown)
    assert (again.idle_ns, again.transaction_ns) == (3_000 * MS, 3_100_401_000)
    for name in ("idle_ms", "transaction_ms", "transaction_idle_ms", "prepared"):
        del shown[name]  # as in lines of older releases
    older = statement_of(shown)
    assert (older.idle_ns, older.transaction_ns, older.prepared) == (None, None, None)


@pytest.mark.parametrize(
    ("expression", "matches"),
    [("~idle 3s", True), ("~idle 3001ms", False), ("!~idle 1ms", False), ("~slow 3s", False)],
)
def test_filter(expression: str, matches: bool) -> None:
    assert parse(expression).matches(exchange(COMMIT)) is matches
    assert not parse("~idle 1ns").matches(exchange(Statement("mysql")))


def test_the_screen_shows_it() -> None:
    written = io.BytesIO()
    JsonSink(written).exchange(exchange(COMMIT))
    store = Store()
    store.feed(written.getvalue().strip())
    [row] = store.rows.values()
    assert row.remark == SAID.replace("  ", ", ")
    assert row.line is not None
    lines = [line.text for line in exchange_lines(row, json.loads(row.line))]
    assert {"idle in transaction 3.00 s", "transaction 3.10 s, idle 3.00 s of it"} <= {*lines}
